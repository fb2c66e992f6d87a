"""The cost of hooks in the running program: samples, timed by the CPU clock of their thread.

A call is timed as it comes, between the program's own work, with caches as cold as that leaves
them. What is timed are the sections in which our code runs: before the program's, after it, and
between. Each is less by what the clock itself takes.
"""

import operator
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import sub
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from latencytrace.agent.clock import cpu_ns
from latencytrace.agent.guard import FAULTS, edge_faults
from latencytrace.agent.process.forks import in_child

FIRST: Final = 3  # call that is sampled: what is made once is not its price
SOON: Final = 16  # calls apart, on average, are the samples of the beginning
APART: Final = 64  # and the later ones
_ENOUGH: Final = 64  # samples, for that
_MOST: Final = 512  # then older ones count half
_READINGS: Final = 33  # of the clock, to learn what it takes
_OURS_NS: Final = 1_000_000  # a section that takes longer was interrupted: by a collection, say
_random: Final = random.Random()  # noqa: S311 - no secret; the program's own is left alone


class Samples(NamedTuple):
    """The time that some calls took.

    Args:
        calls: How many.
        spans: How many made one: those within another call do not.
        taken_ns: CPU time of all of them.
    """

    calls: int
    spans: int
    taken_ns: int

    @property
    def ns(self) -> float | None:
        """Return the CPU time of a call in nanoseconds; None: there is none."""
        return max(self.taken_ns, 0) / self.calls if self.calls else None

    @property
    def spans_ratio(self) -> float:
        """Return the share of calls that make a span."""
        return self.spans / self.calls if self.calls else 1.0


class HookCost:
    """How often one function of ours was called, and what its sampled calls took.

    `left` counts down to the next sample, which is all that other calls have to do with it.

    Args:
        follows: Instructions of bytecode that other code executes for each call that is recorded,
            and would not untraced: a client's, for one header more.
    """

    __slots__ = (
        "__weakref__", "_before", "_samples", "_spans", "_stride", "_taken_ns", "follows", "left"
    )  # fmt: skip

    def __init__(self, follows: int = 0) -> None:
        self.follows = follows
        self.reset()
        _registered(self)

    def reset(self) -> None:
        """Forget all, as a forked child does."""
        self._before = 0  # calls up to the last sample
        self._stride = self.left = FIRST
        self._samples = self._spans = self._taken_ns = 0

    def forget(self) -> None:
        """Forget what samples took, for calls are about to take something else."""
        self._before = self.calls
        self._stride = self.left = 1
        self._samples = self._spans = self._taken_ns = 0

    def __reduce__(self) -> tuple[type["HookCost"], tuple[int]]:
        """Be pickled, with a function by value, as one that knows nothing yet."""
        return type(self), (self.follows,)

    @property
    def calls(self) -> int:
        """Return how many there were; two threads at once may count one."""
        return self._before + self._stride - max(self.left, 0)

    @property
    def ns(self) -> float | None:
        """Return the CPU time of a call in nanoseconds; None: none was sampled."""
        return self.samples.ns

    @property
    def samples(self) -> "Samples":
        """Return what is known of its calls."""
        return Samples(self._samples, self._spans, self._taken_ns)

    def sampled(self, section: Callable[..., Any], *args: Any) -> Any:
        """Call what is due to be sampled, the only or the first section of a call."""
        self._before += self._stride
        mean = SOON if self._samples < _ENOUGH else APART
        self._stride = self.left = _random.randrange(1, 2 * mean)
        if self._samples >= _MOST:
            self._samples //= 2
            self._spans //= 2
            self._taken_ns //= 2
        self._samples += 1
        return self.timed(section, *args)

    def sample(self, begin: Callable[..., Any], *args: Any) -> Any:
        """Begin a call that is due to be sampled.

        Args:
            begin: Begins it, or returns None.

        Returns:
            What stands in the call's place, and times its methods; None: it is not timed.
        """
        call = self.sampled(begin, *args)
        if call is None:
            return None
        self._spans += 1
        sampled = SampledCall(call, self)
        if hasattr(call, "sampled"):  # it has sections that are not reported
            call.sampled = sampled
        return sampled

    def timed(self, section: Callable[..., Any], *args: Any) -> Any:
        """Call a section of a sampled call, and add what it takes, unless it raises."""
        began_ns = _read_twice()
        result = section(*args)
        took_ns = _read() - began_ns - _clock_ns
        if _is_ours(took_ns) and began_ns:
            self._taken_ns += took_ns
        return result

    def around(
        self, ours: tuple[Any, ...], call: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call what calls the program's function, and add what it takes beside that.

        Args:
            ours: What is called, and its first arguments; the function and its own follow.
        """
        result, took_ns = _beside(ours, call, args, kwargs)
        took_ns -= _around_ns
        if _is_ours(took_ns):
            self._taken_ns += took_ns
        return result


class RequestCost(HookCost):
    """The same of requests that are served, of which it knows how they begin.

    By that it says how much dearer a request is where it is served than where its price was
    found. Those in full detail alone are samples.
    """

    __slots__ = ()

    def forget(self) -> None:
        """Remember: a request in full detail takes what it took."""

    def sampled(self, section: Callable[..., Any], *args: Any) -> Any:
        before = self._samples, self._taken_ns
        request = super().sampled(section, *args)
        if request is None or request.is_spared:
            self._samples, self._taken_ns = before
        return request


class SampledCall:
    """A call in whose place it stands: each of its methods is timed."""

    __slots__ = ("_cost", "_is_timed", "call")

    def __init__(self, call: Any, cost: HookCost) -> None:
        self.call = call
        self._cost = cost
        self._is_timed = False

    @property
    def span(self) -> Any:
        return self.call.span

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.call, name)
        return partial(self.timed, found) if callable(found) else found

    def timed(self, section: Callable[..., Any], *args: Any) -> Any:
        """Call a section, and add what it takes, unless that is within one."""
        if self._is_timed:
            return section(*args)
        self._is_timed = True
        try:
            return self._cost.timed(section, *args)
        finally:
            self._is_timed = False


def all_costs() -> list[HookCost]:
    """Return those of all functions of ours that still stand somewhere."""
    return list(_costs)


@contextmanager
def apart() -> Iterator[list[HookCost]]:
    """Have costs that this thread makes within the block be listed here, and nowhere else."""
    made: list[HookCost] = []
    _here.made = made
    try:
        yield made
    finally:
        _here.made = None


def _registered(cost: HookCost) -> None:
    made = getattr(_here, "made", None)
    if made is None:
        _costs.add(cost)
    else:
        made.append(cost)


def _read() -> int:
    """Read the clock; 0: it cannot be read, for want of memory."""
    try:
        return cpu_ns()
    except FAULTS as fault:
        edge_faults("reading a thread's clock", fault)
        return 0


def _is_ours(took_ns: int) -> bool:
    """Tell whether a section was not interrupted.

    One of a few nanoseconds takes less than nothing where the clock took less than usual: without
    those, only what it takes more than usual would be added.
    """
    return -_OURS_NS < took_ns < _OURS_NS


def _read_twice() -> int:
    """Read the clock where it was not read for a while: its first reading there takes longer."""
    _read()
    return _read()


def _beside(
    ours: tuple[Any, ...],
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, int]:
    """Call what calls the program's function; return its result, and CPU time beside that."""
    within_ns = 0

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal within_ns
        began_ns = _read()
        try:
            return call(*args, **kwargs)
        finally:
            within_ns = _read_twice() - began_ns

    began_ns = _read_twice()
    result = ours[0](*ours[1:], called, *args, **kwargs)
    ended_ns = _read()
    return result, ended_ns - began_ns - within_ns if began_ns else 0


def learn_clock() -> None:
    """Measure what the thread's clock itself takes, of each section and around each call."""
    global _clock_ns, _around_ns  # noqa: PLW0603 - two numbers a process
    readings = [cpu_ns() for _ in range(_READINGS)]
    _clock_ns = sorted(map(sub, readings[1:], readings))[_READINGS // 2]
    around_nothing = (_beside((operator.call,), bool, (), {})[1] for _ in range(_READINGS))
    _around_ns = sorted(around_nothing)[_READINGS // 2]


def reset() -> None:
    """Begin anew, as an agent does."""
    for cost in all_costs():
        cost.reset()


_here: Final = threading.local()
_costs: Final[WeakSet[HookCost]] = WeakSet()
_clock_ns = _around_ns = 0
in_child(reset)
