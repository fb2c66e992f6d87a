"""Gaps that the process itself caused: a collection, a held loop, no free thread.

Nothing runs of its own: no timer and no thread. Collections are watched while a traced request
is under way, and only gaps of a millisecond are noted.
"""

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import Context as VariableContext
from itertools import pairwise
from typing import Any, Final, Protocol

from opentelemetry.context import Context, create_key

from latencytrace.agent.budget.detail import Detail
from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.context import call_in, context_in, current
from latencytrace.agent.guard import FAULTS, OnFault, guarded
from latencytrace.agent.native import RLock
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.holds import NOTICED_NS, Holds, resumed_within_ns
from latencytrace.agent.timing.intervals import IntervalRecorder, merged
from latencytrace.agent.timing.processor_waits import PROCESSOR_WAITS, ProcessorWaits
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.packed import RuntimeGap, pack_named
from latencytrace.model.stage import Stage

_HELD = 128  # times of a kind, a start and an end each, before neighbours are merged
GAPS: Final = create_key("latencytrace.runtime_gaps")  # in the context of a request
REQUEST: Final = create_key("latencytrace.served_request")  # likewise, of one that is served

GARBAGE, LOOP = RuntimeGap.GARBAGE_COLLECTION.value, RuntimeGap.EVENT_LOOP_LAG.value
POOL, RESULT = RuntimeGap.THREAD_POOL_WAIT.value, RuntimeGap.RESULT_WAIT.value
TURN, LIBRARY = RuntimeGap.TURN_WAIT.value, RuntimeGap.DATABASE_LIBRARY.value
_PAUSES: Final = (GARBAGE, LOOP, POOL)
_KINDS: Final = (*_PAUSES, TURN, RESULT, LIBRARY)


class Unfinished(Protocol):
    """Work of a request of which nothing but the request's end tells that it is over."""

    def end(self) -> None: ...


class RuntimeGaps:
    """Gaps of one request under way; any thread may note them."""

    __slots__ = (
        "_noted",
        "_own",
        "concurrency",
        "in_library",
        "loop_thread",
        "paged_in",
        "pooled_wait_ns",
        "processor",
        "queue_depth",
        "ran_ns",
        "request",
        "returned_ns",
        "unfinished",
        "waits",
    )

    def __init__(
        self,
        loop_thread: int | None,
        processor: ProcessorWaits | None = None,
        began_ns: int = 0,
    ) -> None:
        self.processor = processor  # None: its threads' waits are not measured
        self.pooled_wait_ns = 0  # of the threads of pools that did its work, for a processor
        self.paged_in = False  # one of those waited for a page of memory
        self.in_library = False  # a call of a database's library is under way
        self.concurrency = 0  # requests under way when it began, itself included
        self.queue_depth: int | None = None  # the most that waited for a thread before it
        self.loop_thread = loop_thread  # whose event loop runs the request; None: no loop
        self.ran_ns = began_ns  # until when a step of it ran on a loop; at first when it began
        self.request: Any = None  # while it is under way, if it is one that a server serves
        self.returned_ns = 0  # when work of its own on another thread was done
        self.waits = 0  # that have a span
        self.unfinished: list[Unfinished] | None = None  # what ends with the request
        self._own: list[int] = []  # collections in the midst of its own code: start, end, start …
        self._noted: dict[str, list[int]] = {}

    def note(self, name: str, start_ns: int, end_ns: int) -> None:
        """Note a gap between two monotonic times."""
        _add(self._noted.setdefault(name, []), start_ns, end_ns)

    def queued_behind(self, depth: int) -> None:
        """Note how many waited before it, where it joined the queue of a pool."""
        self.queue_depth = max(depth, self.queue_depth or 0)

    def kernel_reports(self, since_ns: int) -> dict[str, AttributeValue]:
        """Return the attributes of what the kernel tells of the threads that did its work.

        Args:
            since_ns: When it began, in monotonic time.
        """
        found: dict[str, AttributeValue] = {}
        if self.processor is None:
            return found
        waited_ns, paged_in = self.pooled_wait_ns, self.paged_in
        if self.queue_depth is None:  # this thread did it, not those of pools
            waited_ns, paged_in = (
                self.processor.waited_since(since_ns)[0],
                self.processor.paged_in(),
            )
        if waited_ns >= NOTICED_NS:
            found[semconv.PROCESSOR_WAIT_NS] = waited_ns
        if paged_in:
            found[semconv.PAGED_IN] = True
        return found

    def worked(self, started_ns: int) -> None:
        """Note for what this thread, a pool's, waited since it began a piece of its work.

        Of work on several threads at once the longest wait counts: the kernel does not tell
        when they waited.

        Args:
            started_ns: A monotonic time.
        """
        if self.processor is None:
            return
        waited_ns, _ = self.processor.waited_since(started_ns)
        self.paged_in = self.processor.paged_in() or self.paged_in
        in_turn = started_ns >= self.returned_ns
        self.pooled_wait_ns = (
            self.pooled_wait_ns + waited_ns if in_turn else max(self.pooled_wait_ns, waited_ns)
        )

    def collected(self, start_ns: int, end_ns: int, *, own: bool) -> None:
        """Note a collection, which its own code set off or another's."""
        if not own:
            self.note(GARBAGE, start_ns, end_ns)
        else:
            _add(self._own, start_ns, end_ns)

    def described(
        self, span_start_ns: int, intervals: IntervalRecorder
    ) -> dict[str, AttributeValue]:
        """Return the attributes of them: its own collections as intervals, the others apart.

        And how many requests were under way, and waited before it for a thread.

        Args:
            span_start_ns: The monotonic start of the request's span.
        """
        for one in self.unfinished or ():
            one.end()
        if self._own:
            intervals.times(Stage.RUNTIME).extend(self._own)
        attributes: dict[str, AttributeValue] = {semconv.CONCURRENCY: self.concurrency}
        if monotonic_ns() - span_start_ns >= NOTICED_NS:
            attributes |= self.kernel_reports(span_start_ns)
        if self.queue_depth is not None:
            attributes[semconv.QUEUE_DEPTH] = self.queue_depth
        if self._noted:
            gaps = _apart(self._noted.copy())  # at once: a collection may come at any allocation
            attributes[semconv.RUNTIME_GAPS] = pack_named(gaps, span_start_ns)
        return attributes


def _add(times: list[int], start_ns: int, end_ns: int) -> None:
    times += (start_ns, end_ns)
    if len(times) >= _HELD:
        times[:] = merged(times, 2)


def _pairs(times: list[int]) -> Iterable[tuple[int, int]]:
    return zip(times[::2], times[1::2], strict=False)


def _apart(noted: Mapping[str, list[int]]) -> dict[str, Iterable[tuple[int, int]]]:
    """Return the gaps of each kind; of those that others lie within, what is left."""
    gaps = {name: _pairs(noted[name][:]) for name in _KINDS if name in noted}
    if POOL in gaps:  # anyio gives way to the loop before it asks
        gaps[POOL] = _outside(gaps[POOL], _all(noted, LOOP), NOTICED_NS)
    if TURN in gaps:
        gaps[TURN] = _outside(gaps[TURN], _all(noted, *_PAUSES), 1)
    if LIBRARY in gaps:
        gaps[LIBRARY] = _outside(gaps[LIBRARY], _all(noted, *_PAUSES, TURN), 1)
    return gaps


def _all(noted: Mapping[str, list[int]], *names: str) -> Iterator[tuple[int, int]]:
    for name in names:
        yield from _pairs(noted.get(name, [])[:])


def _outside(
    waits: Iterable[tuple[int, int]], holds: Iterable[tuple[int, int]], least_ns: int
) -> Iterator[tuple[int, int]]:
    """Return what of the waits lies outside of the holds, in order of time.

    Args:
        least_ns: How long a part must be.
    """
    in_order = sorted(holds)
    for start_ns, end_ns in sorted(waits):
        at_ns = start_ns
        for since_ns, until_ns in in_order:
            if since_ns < end_ns and until_ns > at_ns:
                if since_ns - at_ns >= least_ns:
                    yield at_ns, since_ns
                at_ns = until_ns
        if end_ns - at_ns >= least_ns:
            yield at_ns, end_ns


class OpenRequests:
    """The traced requests under way in this process.

    Args:
        detail: In which requests are traced; None: always in full detail.
    """

    __slots__ = (
        "_collecting_since_ns",
        "_core_before",
        "_detail",
        "_lock",
        "_on_fault",
        "_unwatched",
        "_waiting",
        "_watch",
        "callbacks",
        "holds",
        "last_served",
        "open",
        "processor",
        "resumed_by_ns",
        "serves",
    )

    def __init__(self, on_fault: OnFault, detail: Detail | None = None) -> None:
        self._on_fault = on_fault
        self._detail = detail or Detail()
        self._unwatched: set[RuntimeGaps] = set()  # likewise under way, without their gaps
        # Reentrant: the garbage collector may end a request in the middle of any of this.
        self._lock = RLock()
        self.open: set[RuntimeGaps] = set()  # one for good, which hooks hold
        self.resumed_by_ns = 0  # when what waits for a held loop has run
        self.holds = Holds()
        self.callbacks = 0  # of event loops that were timed here
        self._core_before = _callbacks_of_core()  # that the core timed before
        self.serves = False  # a server reads requests, which wait for a loop before they are open
        self.last_served: object = None  # the span of the request that ended last
        self._waiting: dict[RuntimeGaps, tuple[int, int]] = {}  # since when, and by when it runs
        self._collecting_since_ns: int | None = None
        self.processor = PROCESSOR_WAITS
        self._watch = self._collected  # one object, which is found the quickest

    def begin(self, *, on_loop: bool) -> RuntimeGaps:
        """A request begins, on this thread's event loop or on the thread itself."""
        watched, now_ns = self._detail.gaps, monotonic_ns()
        gaps = RuntimeGaps(
            threading.get_ident() if on_loop else None, self.processor if watched else None, now_ns
        )
        if watched:
            self.processor.follow(now_ns)
        with self._lock:
            (self.open if watched else self._unwatched).add(gaps)
            gaps.concurrency = len(self.open) + len(self._unwatched)
            if watched and len(self.open) == 1:
                gc.callbacks.append(self._watch)
        return gaps

    def end(self, gaps: RuntimeGaps) -> None:
        """It has ended; a second time changes nothing."""
        with self._lock:
            self.open.discard(gaps)
            self._unwatched.discard(gaps)
            self._waiting.pop(gaps, None)
            gaps.request = None
            if not self.open and self._watch in gc.callbacks:
                gc.callbacks.remove(self._watch)

    def timed_callbacks(self) -> int:
        """Return how many callbacks of event loops were timed in this process."""
        return self.callbacks + _callbacks_of_core() - self._core_before

    def reset_after_fork(self) -> None:
        """In a forked child: none of the parent's is under way here."""
        self._lock = RLock()
        self.callbacks, self._core_before = 0, _callbacks_of_core()
        self.holds.reset_after_fork()
        self.processor.reset_after_fork()
        for gaps in (*self.open, *self._unwatched):
            self.end(gaps)

    def loop_held(
        self, by: VariableContext, start_ns: int, end_ns: int, callback: object = None
    ) -> None:
        """One callback held this thread's event loop: what runs next on it waited for that.

        A request that began within it, as in an eager task, or of which the callback's context
        knows no more, ran there itself, until the next one did.

        Args:
            start_ns: When it began, in monotonic time.
            callback: It, or the handle that holds it.
        """
        otel = context_in(by)
        if otel is None:
            return
        waited_ns, _ = self.processor.waited_since(start_ns)
        holder, thread = otel.get(GAPS), threading.get_ident()
        there = (gaps for gaps in tuple(self.open) if gaps.loop_thread == thread)
        others = {gaps: start_ns for gaps in there if gaps is not holder}
        began = sorted((gaps for gaps in others if gaps.ran_ns > start_ns), key=_ran_ns)
        others |= {gaps: later.ran_ns for gaps, later in pairwise(began)}
        request = otel.get(REQUEST)
        if began:  # the last of them ran until now
            others.pop(began[-1])
            began[-1].ran_ns = end_ns
            request = request or began[-1].request
        self.holds.note(start_ns, end_ns, *self._holder(request, start_ns, callback), waited_ns)
        within_ns = resumed_within_ns(end_ns - start_ns)
        for gaps, waits_ns in others.items():
            since_ns, by_ns = self._waiting.get(gaps, (waits_ns, start_ns))
            if start_ns >= by_ns:
                since_ns = waits_ns
            by_ns = max(by_ns, end_ns + within_ns)  # a short hold ends no long one's
            self._waiting[gaps] = (since_ns, by_ns)
            self.resumed_by_ns = max(self.resumed_by_ns, by_ns)  # else no waiter is looked for

    def _holder(self, request: Any, start_ns: int, callback: object) -> tuple[str, int | None]:
        """Name what held a loop: a request, with when it came if it has ended, or a function."""
        last = self.last_served
        if request is not None:
            return request.title, None
        if type(last) is RecordedSpan and last.ended_ns >= start_ns:  # begun and ended in it
            return last.name, last.started_ns
        return _callback_name(callback), None

    def resumed(self, context: VariableContext, at_ns: int) -> None:
        """A callback is run: if it is of a request that a held loop kept waiting, it waited."""
        otel = context_in(context)
        gaps = None if otel is None else otel.get(GAPS)
        held = self._waiting.pop(gaps, None) if isinstance(gaps, RuntimeGaps) else None
        if isinstance(gaps, RuntimeGaps) and held is not None:
            since_ns, by_ns = max(held[0], gaps.returned_ns), held[1]
            if at_ns < by_ns and at_ns - since_ns >= NOTICED_NS:
                gaps.note(LOOP, since_ns, at_ns)

    def _collected(self, phase: str, _: Mapping[str, int]) -> None:
        """Python's garbage collector begins or ends a collection."""
        now_ns = monotonic_ns()
        if phase == "start":
            self._collecting_since_ns = now_ns
            return
        since_ns, self._collecting_since_ns = self._collecting_since_ns, None
        if since_ns is None or now_ns - since_ns < NOTICED_NS:
            return
        with guarded("noting a collection", self._on_fault):
            own = current().get(GAPS)
            for gaps in tuple(self.open):
                gaps.collected(since_ns, now_ns, own=gaps is own)


def _ran_ns(gaps: RuntimeGaps) -> int:
    return gaps.ran_ns


def _callbacks_of_core() -> int:
    return 0 if core is None else int(core.callbacks())


def _callback_name(callback: Any) -> str:
    called = getattr(callback, "_callback", callback)
    task = getattr(called, "__self__", None)
    get_coro = getattr(task, "get_coro", None)
    function = called if get_coro is None else get_coro()
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def begun_as(
    on_fault: OnFault,
    depth_of: Callable[[Any], int],
    pool: Any,
) -> tuple[Any, ...]:
    """Return what a thread is given before the work that this code hands to it, and its arguments.

    A stream that is made on threads comes here once a chunk (`bench_request.py`, `/threaded`).

    Args:
        depth_of: Counts the calls that wait for a thread of a pool already.
        pool: The one that gets the work.
    """
    context = current()
    gaps = context.get(GAPS)
    if not isinstance(gaps, RuntimeGaps):
        return (call_in, context)
    try:
        waiting = depth_of(pool)
        if waiting or gaps.queue_depth is None:
            gaps.queued_behind(waiting)
    except FAULTS as fault:
        on_fault("looking at a pool's queue", fault)
    return (_call_pooled, on_fault, gaps, monotonic_ns(), context)


def begun_as_sampled(
    cost: HookCost, on_fault: OnFault, depth_of: Callable[[Any], int], pool: Any
) -> tuple[Any, ...]:
    """Return the same of a call whose cost is measured, what is done on the thread included."""
    return cost.around, cost.sampled(begun_as, on_fault, depth_of, pool)


def _call_pooled(
    on_fault: OnFault,
    gaps: RuntimeGaps,
    queued_ns: int,
    context: Context,
    call: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Do a request's work on a thread that it waited for, in its context."""
    started_ns = queued_ns
    try:
        started_ns, processor = monotonic_ns(), gaps.processor
        if started_ns - queued_ns >= NOTICED_NS:
            gaps.note(POOL, queued_ns, started_ns)
        if processor is not None and (
            started_ns >= processor.due_ns or started_ns < processor.likely_by_ns
        ):
            processor.follow(started_ns)
    except FAULTS as fault:
        on_fault("noting a wait for a thread", fault)
    try:
        if current() is context:  # the pool has carried it along, as anyio does
            return call(*args, **kwargs)
        return call_in(context, call, *args, **kwargs)
    finally:
        ended_ns = monotonic_ns()
        if ended_ns - started_ns >= NOTICED_NS:
            with guarded("noting a wait for a processor", on_fault):
                gaps.worked(started_ns)
        gaps.returned_ns = ended_ns
