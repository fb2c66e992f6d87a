"""The agent's own cost and its budget, put together: what it takes, and what it leaves out."""

from collections.abc import Callable, Iterable, Sequence

from latencytrace.agent.budget.keeper import BudgetKeeper, Overhead
from latencytrace.agent.clock import cpu_ns, monotonic_ns, process_cpu_ns
from latencytrace.agent.export.exporter import ExportCounts
from latencytrace.agent.reporting.own_cost import CostMeter, OwnCost
from latencytrace.agent.reporting.prices import measured_prices
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.timing.recorder import Recorder


class OwnBudget:
    """Updated by the background thread after each round; read by any.

    Args:
        recorder: What hooks have in common; its detail is set here.
        budget_ratio: Of the process's CPU time; None: there is no budget.
        some_spans: Shows so many spans that have just ended.
        hooks: Loads the hooks that may time requests and callbacks, once a request was served.
        is_hurried: Tells whether a caller waits for the thread that measures.
    """

    def __init__(
        self,
        recorder: Recorder,
        budget_ratio: float | None,
        some_spans: Callable[[int], Sequence[RecordedSpan]],
        hooks: Callable[[], Iterable[type[Hook]]],
        is_hurried: Callable[[], bool],
    ) -> None:
        self._some_spans = some_spans
        detail = recorder.detail
        self._meter = CostMeter(
            monotonic_ns,
            detail,
            lambda served: measured_prices(hooks if served else tuple, is_hurried),
            cpu_ns,
            callbacks=recorder.open_requests.timed_callbacks,
        )
        self._keeper = BudgetKeeper(detail, budget_ratio, monotonic_ns, process_cpu_ns)

    @property
    def cost(self) -> OwnCost:
        """Return the cost as of the last round."""
        return self._meter.read()

    @property
    def overhead(self) -> Overhead:
        """Return the budget, and what is left out."""
        return self._keeper.read()

    def update(self, counts: ExportCounts, queued: int, *, may_sample: bool) -> None:
        """Take the counts so far, and act on what they cost."""
        self._meter.update(counts, queued)
        cost = self._meter.read()
        self._keeper.update(
            cost.cpu_ns,
            self._some_spans,
            dropped_ns=cost.dropped_cpu_ns,
            reporting_ns=cost.reporting_cpu_ns,
            may_sample=may_sample,
        )
