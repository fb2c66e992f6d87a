"""Keeps the agent within its budget: takes what it costs, and sets the detail of the traces."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Final

from latencytrace.agent.budget.detail import (
    FULL,
    LAST,
    SAMPLED,
    WITHOUT_CHEAP_CALLS,
    WITHOUT_INTERVALS,
    Detail,
)
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import semconv
from latencytrace.model.detail import TraceDetail

WINDOW_NS: Final = 5_000_000_000  # between two decisions
RETURN_RATIO: Final = 0.4  # of the budget; below, detail is raised, which may double the cost
LEAST_RATIO: Final = 0.25  # of the budget, for requests that are recorded
STEEP: Final = 2.0  # times the budget: leaving details out will not do
PATIENCE: Final = 3  # such windows in a row
MOST_PATIENCE: Final = 120
_SETTLED: Final = 12  # windows after which a raise is no mistake
TRIED: Final = 3  # windows at the last step, after which it has shown what it saves
SAVES_RATIO: Final = 0.2  # of what recording takes in full detail; less is worth no detail
SPREAD: Final = 12  # windows over which reporting counts: the dearest of it is once a minute


class Governor:
    """Decides how much detail the budget allows; used by one thread.

    A raise that had to be taken back makes it twice as patient, one that lasted half as much:
    a load at the edge of the budget does not swing. Where the program samples itself, and
    leaving out every detail neither keeps the budget nor saves a fifth of the cost, all of it is
    given back.

    Args:
        budget_ratio: Share of the process's CPU time; below a full core, of a core's.
        now_ns: A monotonic clock.
        own_ns: CPU time of the agent until now.
        process_ns: CPU time of the process until now.
    """

    def __init__(
        self, budget_ratio: float, now_ns: Callable[[], int], own_ns: int, process_ns: int
    ) -> None:
        self.budget_ratio = budget_ratio
        self.step = FULL
        self.share_ratio: float | None = None  # of the last window; None: there was none yet
        self.is_held = True  # or nothing more can be left out
        self._now_ns = now_ns
        self._before = (now_ns(), own_ns, process_ns, 0, 0)
        self._reporting: deque[int] = deque(maxlen=SPREAD)  # of each window
        self._patience = PATIENCE
        self._quiet = 0  # windows in a row in which little was spent
        self._since_raise = _SETTLED
        self._full_ratio = 0.0  # that recording took when detail was lowered first
        self._tried = 0  # windows at the last step
        self._given_back = 0  # windows for which detail stays, as it saves nothing to lower it

    def update(
        self,
        own_ns: int,
        process_ns: int,
        *,
        dropped_ns: int = 0,
        reporting_ns: int = 0,
        most: int = LAST,
    ) -> bool:
        """Take the CPU times until now, and decide once a window has passed.

        What it takes to leave requests out, or to report, no step saves: of what is left,
        but at least a quarter of it, as many are recorded as it allows.

        Args:
            own_ns: CPU time of the agent.
            process_ns: CPU time of the process, the agent included.
            dropped_ns: CPU time of the agent to leave requests out.
            reporting_ns: CPU time of the agent to report, and to measure what hooks cost.
            most: The last step that may be taken.

        Returns:
            Whether a window has passed.
        """
        now_ns = self._now_ns()
        then_ns = self._before[0]
        if now_ns - then_ns < WINDOW_NS:
            return False
        before, self._before = self._before, (now_ns, own_ns, process_ns, dropped_ns, reporting_ns)
        _, own, process, dropped, reporting = (
            max(now - then, 0) for now, then in zip(self._before, before, strict=True)
        )
        whole = max(process, now_ns - then_ns)
        allowed = self.budget_ratio * whole
        self._since_raise += 1
        if self._since_raise == _SETTLED:
            self._patience = max(self._patience // 2, PATIENCE)
        reporting = min(reporting, own)
        dropped = min(dropped, own - reporting)
        self._reporting.append(reporting)
        recording = own - reporting - dropped
        fixed = dropped + sum(self._reporting) / SPREAD
        self.share_ratio = (recording + fixed) / whole
        excess = recording / max(allowed - fixed, LEAST_RATIO * allowed)
        is_within = recording + fixed <= allowed
        self._given_back = max(self._given_back - 1, 0) if most < SAMPLED else 0
        can_lower = self.step < most
        if self.step == FULL:
            self._full_ratio, self._tried = recording / whole, 0
        if excess > 1:
            self._exceed(excess, recording / whole, most)
        elif self.step > most:  # another sampler decides now
            self.step = most
        else:
            self._quiet = self._quiet + 1 if excess <= RETURN_RATIO else 0
            if self._quiet >= self._patience and self.step > FULL:
                self._raise()
        self.is_held = is_within or (excess > 1 and can_lower and not self._given_back)
        return True

    def _exceed(self, excess: float, recording_ratio: float, most: int) -> None:
        """Lower detail, unless to leave all of it out for a while has saved next to nothing."""
        if self._given_back:
            return
        if self.step == most < SAMPLED:
            self._tried += 1
            if self._tried >= TRIED and recording_ratio > (1 - SAVES_RATIO) * self._full_ratio:
                self.step, self._given_back, self._quiet = FULL, MOST_PATIENCE, 0
                return
        self._lower(excess, most)

    def _lower(self, excess: float, most: int) -> None:
        if self._since_raise < _SETTLED:
            self._patience = min(self._patience * 2, MOST_PATIENCE)
            self._since_raise = _SETTLED
        self._quiet = 0
        if self.step < WITHOUT_CHEAP_CALLS and excess <= STEEP:
            step = self.step + 1
        else:
            step = max(self.step, SAMPLED - 1) + ceil(log2(excess))
        self.step = min(max(step, self.step + 1), most)

    def _raise(self) -> None:
        self.step -= 1
        self._quiet = 0
        self._since_raise = 0


CHEAP_NS: Final = 100_000  # a call that takes no longer on average is cheap
_LEAST_CALLS: Final = 8  # of a name, before it is judged
MOST_LOOKED_AT: Final = 64  # spans at a time
_MOST_NAMES: Final = 256
_INTERNAL: Final = 0  # `SpanKind.INTERNAL`


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """The agent's budget, what it spends of late, and what it leaves out therefore."""

    budget_ratio: float | None = None  # of the process's CPU time; None: there is none
    share_ratio: float | None = field(default=None, compare=False)  # it spent in five seconds
    is_held: bool = True  # False: there is nothing more to leave out
    step: int = FULL  # how much is left out, from 0 on
    lacks: str | None = None  # of every request, one of `TraceDetail`; None: nothing
    sampling_ratio: float = 1.0  # of the traces that begin here
    requests: int = 0  # traced with what they call
    reduced_requests: int = 0  # of those, in less than full detail
    least_requests: int = 0  # with their own span alone, to keep the budget
    control_requests: int = 0  # requests chosen for the control group
    dropped_requests: int = 0  # not recorded

    @property
    def by_detail(self) -> Mapping[str, int]:
        """Return how many requests were traced in which detail."""
        return {
            TraceDetail.FULL.value: self.requests - self.reduced_requests,
            "reduced": self.reduced_requests,
            TraceDetail.SERVER_SPAN.value: self.least_requests,
            TraceDetail.CONTROL.value: self.control_requests,
            "dropped": self.dropped_requests,
        }


class CheapCalls:
    """Finds the names of calls that take hardly longer than to trace them."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # calls and nanoseconds by name

    def look(self, spans: Sequence[RecordedSpan]) -> None:
        """Take some ended spans."""
        for span in spans:
            raw = span.raw_attributes
            timed = span.kind_number == _INTERNAL and raw is not None and semconv.STAGE in raw
            if timed and (span.name in self._seen or len(self._seen) < _MOST_NAMES):
                calls, length_ns = self._seen.get(span.name, (0, 0))
                length_ns += span.ended_ns - span.started_ns
                self._seen[span.name] = (calls + 1, length_ns)

    def names(self) -> frozenset[str]:
        return frozenset(
            name
            for name, (calls, length_ns) in self._seen.items()
            if calls >= _LEAST_CALLS and length_ns <= CHEAP_NS * calls
        )


class BudgetKeeper:
    """Fed by the background thread; read by any.

    Args:
        budget_ratio: Share of the process's CPU time; None: full detail whatever it costs.
        now_ns: A monotonic clock.
        process_ns: CPU time of the process until now.
    """

    def __init__(
        self,
        detail: Detail,
        budget_ratio: float | None,
        now_ns: Callable[[], int],
        process_ns: Callable[[], int],
    ) -> None:
        self._detail = detail
        self._process_ns = process_ns
        self._cheap = CheapCalls()
        self._governor = (
            None
            if budget_ratio is None
            else Governor(budget_ratio, now_ns, own_ns=0, process_ns=process_ns())
        )

    def update(
        self,
        own_ns: int,
        some_spans: Callable[[int], Sequence[RecordedSpan]],
        *,
        dropped_ns: int = 0,
        reporting_ns: int = 0,
        may_sample: bool,
    ) -> None:
        """Take what the agent has cost until now, and act on it once in a while.

        Args:
            own_ns: CPU time since it started.
            dropped_ns: Part of `own_ns` spent on requests that were not recorded.
            reporting_ns: Part of `own_ns` spent on reports.
            some_spans: Shows so many spans that have just ended.
            may_sample: No other sampler decides which traces are recorded.
        """
        governor, detail = self._governor, self._detail
        if governor is None:
            return
        if governor.step in {WITHOUT_INTERVALS, WITHOUT_CHEAP_CALLS}:
            self._cheap.look(some_spans(MOST_LOOKED_AT))
        most = LAST if may_sample else WITHOUT_CHEAP_CALLS
        if governor.update(
            own_ns,
            self._process_ns(),
            dropped_ns=dropped_ns,
            reporting_ns=reporting_ns,
            most=most,
        ):
            cheap = self._cheap.names() if governor.step == WITHOUT_CHEAP_CALLS else frozenset()
            if (governor.step, cheap) != (detail.step, detail.cheap):
                detail.set_step(governor.step, cheap)

    def read(self) -> Overhead:
        """Return the state of the moment."""
        governor, detail = self._governor, self._detail
        return Overhead(
            budget_ratio=None if governor is None else governor.budget_ratio,
            share_ratio=None if governor is None else governor.share_ratio,
            is_held=governor is None or governor.is_held,
            step=detail.step,
            lacks=None if detail.lacks is None else detail.lacks.value,
            sampling_ratio=detail.sampling_ratio,
            requests=detail.requests,
            reduced_requests=detail.reduced,
            least_requests=detail.least,
            control_requests=detail.controls,
            dropped_requests=detail.dropped,
        )
