"""`latencytrace_slo_*`: targets, requests that violate them, and how fast the budget is spent."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latencytrace.model import AlertKind, Objective, Severity, Standing
from latencytrace.model.objective import window_text
from latencytrace.service.objectives.counts import series_of
from latencytrace.service.objectives.evaluator import Evaluator

_LABELS = ("slo", "service", "route")
_PREFIX = "latencytrace_slo"


class ObjectiveMetrics(Collector):
    """Reads an evaluator whenever the metrics are read.

    The two counters are what `latencytrace rules` builds on: classified one by one, with
    failures, so that they are exact where a histogram's buckets would not be.

    Args:
        is_file_wrong: Tells whether the file of objectives changed and could not be read.
    """

    def __init__(
        self, evaluator: Evaluator, is_file_wrong: Callable[[], bool] = lambda: False
    ) -> None:
        self._evaluator = evaluator
        self._is_file_wrong = is_file_wrong

    def collect(self) -> Iterator[Metric]:
        """Read it; but those of each route, objectives have counters from the start, at 0."""
        yield self._watched()
        yield from self._counters()
        yield from self._targets()
        yield from self._standings()
        yield self._alerts()
        yield GaugeMetricFamily(
            f"{_PREFIX}_file_failing",
            "1 while the file of objectives is wrong, so that those of before are watched.",
            value=self._is_file_wrong(),
        )
        yield CounterMetricFamily(
            "latencytrace_service_clock_jumps",
            "Times that the machine's clock was set by more than a minute.",
            value=self._evaluator.clock.jumps,
        )
        yield CounterMetricFamily(
            "latencytrace_service_future_stamps",
            "Requests of objectives stamped over a minute in the future; counted as of now.",
            value=self._evaluator.future_stamps,
        )
        yield CounterMetricFamily(
            "latencytrace_service_ungrouped_requests",
            "Requests of routes beyond the 50 that one objective of each route counts.",
            value=self._evaluator.watched.left_out,
        )
        yield CounterMetricFamily(
            "latencytrace_service_outdated_requests",
            "Requests of objectives that ended before the period; not counted.",
            value=self._evaluator.outdated,
        )

    def _watched(self) -> Metric:
        watched = _gauge("watched", "1 of each objective of the file, without a request, too.")
        for objective in self._evaluator.watched.of_file:
            watched.add_metric(_labels(objective), 1)
        return watched

    def _counters(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            f"{_PREFIX}_requests",
            "Requests that an objective counts, or its time slices that are over.",
            labels=_LABELS,
        )
        bad = CounterMetricFamily(
            f"{_PREFIX}_bad_requests", "Those of them that violated it.", labels=_LABELS
        )
        came = CounterMetricFamily(
            f"{_PREFIX}_came_requests",
            "Those of them that came; where senders sample, each stands for several.",
            labels=_LABELS,
        )
        came_bad = CounterMetricFamily(
            f"{_PREFIX}_came_bad_requests", "Requests that came and violated it.", labels=_LABELS
        )
        for objective, tally in self._evaluator.watched.since_start():
            total.add_metric(_labels(objective), tally.total / objective.parts)
            bad.add_metric(_labels(objective), tally.bad / objective.parts)
            came.add_metric(_labels(objective), tally.came.total / objective.parts)
            came_bad.add_metric(_labels(objective), tally.came.bad / objective.parts)
        yield from (total, bad, came, came_bad)

    def _targets(self) -> Iterator[Metric]:
        target = _gauge("target_ratio", "The share of requests that is to be good.")
        threshold = _gauge("threshold_seconds", "How long a good request takes at most.")
        for objective, _ in self._evaluator.watched.since_start():
            target.add_metric(_labels(objective), objective.target_ratio)
            if objective.limit_ns is not None:
                threshold.add_metric(_labels(objective), objective.limit_ns / 1e9)
        yield target
        yield threshold

        maintained = _gauge("maintenance", "1 while it does not hold, for maintenance.")
        for objective, _ in self._evaluator.watched.since_start():
            holds = self._evaluator.maintenance.holds_at(objective, self._evaluator.clock())
            maintained.add_metric(_labels(objective), not holds)
        yield maintained

    def _standings(self) -> Iterator[Metric]:
        burn = _gauge("burn_rate", "How many times too fast the budget is spent.", "window")
        left = _gauge("budget_left_ratio", "Of the period's budget; below 0: overdrawn.")
        exhaustion = _gauge("exhaustion_seconds", "Until the budget is gone at this rate.")
        for standing in self._evaluator.standings():
            labels = _labels(standing.objective)
            for window_ns, rate in _rates(standing).items():
                burn.add_metric([*labels, window_text(window_ns)], rate)
            if standing.budget_left_ratio is not None:
                left.add_metric(labels, standing.budget_left_ratio)
            if standing.exhaustion_ns is not None:
                exhaustion.add_metric(labels, standing.exhaustion_ns / 1e9)
        yield burn
        yield left
        yield exhaustion

    def _alerts(self) -> Metric:
        family = GaugeMetricFamily(
            f"{_PREFIX}_alert_firing",
            "1 while the service's own evaluation fires, else 0.",
            labels=("alertname", *_LABELS, "severity"),
        )
        firing = {
            (alert.kind, series_of(alert.standing.objective), alert.severity)
            for alert in self._evaluator.alerts()
        }
        for objective, _ in self._evaluator.watched.since_start():
            for kind, severity in (
                (AlertKind.BURN, Severity.PAGE),
                (AlertKind.BURN, Severity.TICKET),
                (AlertKind.NO_DATA, Severity.PAGE),
            ):
                labels = [str(kind), *_labels(objective), str(severity)]
                family.add_metric(labels, (kind, series_of(objective), severity) in firing)
        return family


def _rates(standing: Standing) -> dict[int, float]:
    """Burn rates by window: the short one of one tier can be the long one of another."""
    windows = [
        window
        for tier in standing.rates
        for window in ((tier.rule.short_ns, tier.short), (tier.rule.long_ns, tier.long))
    ]
    return {window_ns: rate for window_ns, rate in windows if rate is not None}


def _labels(objective: Objective) -> list[str]:
    return [objective.name, objective.service, objective.route or ""]


def _gauge(name: str, text: str, *more: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=(*_LABELS, *more))
