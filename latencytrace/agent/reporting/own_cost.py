"""Costs of the agent in its program: CPU time in hooks and on its background thread."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import starmap
from operator import mul

from latencytrace.agent.budget.detail import Detail
from latencytrace.agent.export.exporter import ExportCounts
from latencytrace.agent.reporting.prices import Prices

WINDOW_NS = 10_000_000_000  # of a rate
PRICED_FOR_NS = 60_000_000_000  # then the price of a span is measured again


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCost:
    """CPU time since the agent started, and seconds of it a second of late.

    That of hooks is an estimate: requests, chunks of streams and timed calls, each times its
    price in this process (see `prices`). The background thread's is read off its clock.
    """

    hooks_cpu_ns: int = 0
    encoder_cpu_ns: int = 0
    exporter_cpu_ns: int = 0
    reporting_cpu_ns: int = 0  # the rest of the background thread
    dropped_cpu_ns: int = 0  # of hooks, for requests that were not recorded
    hooks_ratio: float = 0.0
    encoder_ratio: float = 0.0
    exporter_ratio: float = 0.0
    reporting_ratio: float = 0.0

    @property
    def cpu_ns(self) -> int:
        """Return the whole."""
        return (
            self.hooks_cpu_ns + self.encoder_cpu_ns + self.exporter_cpu_ns + self.reporting_cpu_ns
        )


class CostMeter:
    """Turns counts into costs; fed by the background thread, read by any.

    Args:
        now_ns: A monotonic clock.
        detail: Counts requests and chunks.
        prices: Measures what hooks cost, those that time requests where any were served.
        thread_ns: CPU time of the background thread; called on it.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        detail: Detail,
        prices: Callable[[bool], Prices],
        thread_ns: Callable[[], int],
    ) -> None:
        self._now_ns = now_ns
        self._detail = detail
        self._measure = prices
        self._thread_ns = thread_ns
        self._priced_ns: int | None = None
        self._priced_requests = False
        self._prices = Prices()
        self._hooks_ns = 0
        self._dropped_ns = 0  # of these
        self._counted = (0, 0, 0, 0, 0)
        self._window_ns = now_ns()
        self._before = (0, 0, 0, 0)
        self._cost = OwnCost()

    def read(self) -> OwnCost:
        """Return the cost as of the last update."""
        return self._cost

    def update(self, counts: ExportCounts, queued: int, *, may_measure: bool = True) -> None:
        """Take the counts so far; now and then look up what hooks cost.

        Args:
            counts: Of the exporter.
            queued: Spans that wait.
            may_measure: False where somebody waits meanwhile.
        """
        now_ns, made = self._now_ns(), counts.sent + counts.dropped + counts.in_flight + queued
        self._add_hooks(now_ns, made, may_measure=may_measure)
        encoder_ns, exporter_ns = counts.encode_cpu_ns, counts.export_cpu_ns
        reporting_ns = max(self._thread_ns() - exporter_ns, 0)
        totals = (self._hooks_ns, encoder_ns, exporter_ns - encoder_ns, reporting_ns)
        ratios = self._ratios
        passed_ns = now_ns - self._window_ns
        if passed_ns >= WINDOW_NS:
            spent = zip(totals, self._before, strict=True)
            ratios = tuple(max(now - was, 0) / passed_ns for now, was in spent)
            self._window_ns, self._before = now_ns, totals
        self._cost = OwnCost(
            hooks_cpu_ns=totals[0],
            encoder_cpu_ns=totals[1],
            exporter_cpu_ns=totals[2],
            reporting_cpu_ns=totals[3],
            dropped_cpu_ns=self._dropped_ns,
            hooks_ratio=ratios[0],
            encoder_ratio=ratios[1],
            exporter_ratio=ratios[2],
            reporting_ratio=ratios[3],
        )

    @property
    def _ratios(self) -> tuple[float, ...]:
        cost = self._cost
        return cost.hooks_ratio, cost.encoder_ratio, cost.exporter_ratio, cost.reporting_ratio

    def _add_hooks(self, now_ns: int, made: int, *, may_measure: bool) -> None:
        """Add what hooks did since the last time, each at the price of now."""
        detail = self._detail
        spared = detail.least + detail.controls
        calls = max(
            made - detail.requests - spared, self._counted[0]
        )  # its own span is a request's
        counted = (calls, detail.requests, detail.chunks, spared, detail.dropped)
        served = detail.requests + spared + detail.dropped > 0
        due = self._priced_ns is None or now_ns - self._priced_ns >= PRICED_FOR_NS
        due = due or served > self._priced_requests
        if due and not may_measure:  # it is added once its price is known
            return
        if due and counted != self._counted:  # an idle process pays nothing
            self._priced_ns, self._priced_requests = now_ns, served
            self._prices = self._measure(served)
        prices = self._prices
        each = (
            prices.call_ns, prices.request_ns, prices.chunk_ns, prices.least_ns, prices.dropped_ns,
        )  # fmt: skip
        new = (now - was for now, was in zip(counted, self._counted, strict=True))
        costs_ns = list(starmap(mul, zip(new, each, strict=True)))
        self._hooks_ns += sum(costs_ns)
        self._dropped_ns += costs_ns[-1]
        self._counted = counted
