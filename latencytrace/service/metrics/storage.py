"""The state of the store: what it keeps, since when, and what it dropped for its limits."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latencytrace.service.storage.retention import Reason, Retention
from latencytrace.service.store import Table

_PREFIX = "latencytrace_service"


class StorageMetrics(Collector):
    """The partitions of each table, as they were when it was last looked at."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention

    def collect(self) -> Iterator[Metric]:
        size = GaugeMetricFamily(
            f"{_PREFIX}_store_bytes", "Bytes of each table on disk.", labels=("table",)
        )
        oldest = GaugeMetricFamily(
            f"{_PREFIX}_store_oldest_timestamp_seconds",
            "The beginning of the oldest partition of each table, by time of arrival.",
            labels=("table",),
        )
        partitions = self._retention.partitions
        for table in Table:
            found = [one for one in partitions if one.table is table]
            size.add_metric((table,), sum(one.bytes for one in found))
            if found:
                oldest.add_metric((table,), min(one.since_ns for one in found) / 1e9)
        yield size
        yield oldest
        limit_bytes = self._retention.limits.max_bytes
        yield GaugeMetricFamily(
            f"{_PREFIX}_store_limit_bytes",
            "Bytes that all tables together may take: LATENCYTRACE_MAX_DISK.",
            value=float("inf") if limit_bytes is None else limit_bytes,
        )
        full = GaugeMetricFamily(
            f"{_PREFIX}_store_full_seconds",
            "Until all tables take that much, at the pace of the last day; +Inf: never.",
            labels=(),
        )
        full_s = self._retention.full_s()
        if full_s is not None:
            full.add_metric((), full_s)
        yield full
        yield from self._expired()

    def _expired(self) -> Iterator[Metric]:
        expired = self._retention.expired()
        labels = ("table", "reason")
        partitions = CounterMetricFamily(
            f"{_PREFIX}_expired_partitions",
            "Partitions that were dropped for their age, or for the size of all tables.",
            labels=labels,
        )
        rows = CounterMetricFamily(f"{_PREFIX}_expired_rows", "Their rows.", labels=labels)
        for table in Table:
            for reason in Reason:
                count, row_count = expired.get((table, reason), (0, 0))
                partitions.add_metric((table, reason), count)
                rows.add_metric((table, reason), row_count)
        yield partitions
        yield rows
