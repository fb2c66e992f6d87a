"""Keeps the agent within its budget: takes what it costs, and sets the detail of the traces."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from latencytrace.agent.budget.detail import (
    FULL,
    LAST,
    WITHOUT_CHEAP_CALLS,
    WITHOUT_INTERVALS,
    Detail,
)
from latencytrace.agent.budget.governor import Governor
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import semconv
from latencytrace.model.detail import TraceDetail

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
        """Return those that are cheap."""
        return frozenset(
            name
            for name, (calls, length_ns) in self._seen.items()
            if calls >= _LEAST_CALLS and length_ns <= CHEAP_NS * calls
        )


class BudgetKeeper:
    """Fed by the background thread; read by any.

    Args:
        budget_ratio: Of the process's CPU time; None: full detail whatever it costs.
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
