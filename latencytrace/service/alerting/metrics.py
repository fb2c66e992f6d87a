"""Counts of notifications to sinks: sent, refused, waiting, given up."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latencytrace.service.alerting.outbox import Outbox

_PREFIX = "latencytrace_service_notices"


class NotificationMetrics(Collector):
    """Reads an outbox whenever the metrics are read.

    Args:
        outbox: What counts.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def collect(self) -> Iterator[Metric]:
        counters = (
            ("sent", "Notifications of alerts that a sink took.", self._outbox.sent),
            ("refused", "Tries that a sink did not take; tried again.", self._outbox.failed),
            ("dropped", "Those given up, after a day or beyond 1000.", self._outbox.dropped()),
        )
        for name, text, counts in counters:
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=("sink",))
            for sink, count in counts.items():
                counter.add_metric([sink], count)
            yield counter
        waiting = GaugeMetricFamily(
            f"{_PREFIX}_waiting", "Notifications not taken by a sink yet.", labels=("sink",)
        )
        for sink, count in self._outbox.waiting().items():
            waiting.add_metric([sink], count)
        yield waiting
