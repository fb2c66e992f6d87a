"""The service's metrics: what the requests cost, and what the service drops or refuses."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latencytrace.model import Objective
from latencytrace.service.metrics.cohorts import MAX_COHORTS, MAX_ROUTES, OVERFLOW
from latencytrace.service.metrics.counted_requests import STAGE_BUCKETS, CountedRequests
from latencytrace.service.metrics.span_account import Account, Without
from latencytrace.service.otlp.mending.account import Mend
from latencytrace.service.store import DamagedPart

MAX_SENDERS = 20  # that are named; one more stands for all others
MAX_DAMAGED = 100  # pieces of the store, and of the journal, that metrics name

_PREFIX = "latencytrace_service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """The outcome of the spans that were received, and what can be kept now."""

    account: Account = field(default_factory=Account)
    damaged_files: Mapping[str, int] = field(default_factory=dict)  # of the journal: places
    damaged_parts: Sequence[DamagedPart] = ()  # of the store
    failing: bool = False  # spans cannot be kept for now


class Telemetry:
    """Every metric of one service, on a registry of its own.

    Args:
        max_cohorts: Passed to `CountedRequests`, as the next three.
        objectives: Their thresholds become buckets.
        stage_buckets: Buckets of the stages' histogram, in seconds; empty: the default.
        max_routes: Routes of a service that metrics tell apart.
    """

    def __init__(
        self,
        max_cohorts: int = MAX_COHORTS,
        objectives: Sequence[Objective] = (),
        stage_buckets: Sequence[float] = STAGE_BUCKETS,
        max_routes: int = MAX_ROUTES,
    ) -> None:
        # A series more for each label set, without a use.
        disable_created_metrics()  # type: ignore[no-untyped-call] # untyped there
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.counted = CountedRequests(
            self.registry,
            objectives,
            max_cohorts=max_cohorts,
            max_routes=max_routes,
            stage_buckets=stage_buckets,
        )
        self._of_the_service()
        self._of_mending()

    def _of_the_service(self) -> None:
        self.spans_received = self._counter(
            f"{_PREFIX}_spans_received",
            "Spans that were acknowledged, and those taken over from the journal.",
        )
        self.spans_rejected = self._counter(
            f"{_PREFIX}_spans_rejected", "Spans rejected by partial success."
        )
        self.posts_refused = self._counter(
            f"{_PREFIX}_posts_refused", "Posts that were not kept, by HTTP status.", ("code",)
        )
        self._connections_closed = self._counter(
            f"{_PREFIX}_connections_closed",
            "Connections closed before their time, by reason.",
            ("reason",),
        )
        self.content_removed = self._counter(
            f"{_PREFIX}_content_removed",
            "Attributes of spans left out as content; counted when their trace is attributed.",
        )
        self.revised = self._counter(
            f"{_PREFIX}_revised",
            "Requests whose ledger changed after they had settled and were counted.",
        )
        self.attributed_traces = self._counter(
            f"{_PREFIX}_attributed_traces", "Traces attributed, over columns or objects.", ("by",)
        )
        self.recovered = self._counter(
            f"{_PREFIX}_recovered",
            "Traces found in the store without a ledger and attributed then; 0 unless at fault.",
        )
        self.withdrawn = self._counter(
            f"{_PREFIX}_withdrawn_requests",
            "Requests that turned out to be part of another one, by a span that came late.",
        )
        self.outdated = self._counter(
            f"{_PREFIX}_outdated_traces",
            "Traces with a late span whose other spans are no longer kept; left as they were.",
        )
        self.faulty = self._counter(
            f"{_PREFIX}_faulty_traces", "Traces set aside by a fault of the service's own."
        )
        self.faulty_batches = self._counter(
            f"{_PREFIX}_faulty_batches",
            "Batches of requests that metrics or objectives miss by a fault of the service's own.",
        )
        self.store_errors = self._counter(
            f"{_PREFIX}_store_errors", "Batches of traces that the store could not take; retried."
        )
        self.metrics_unsent = self._counter(
            f"{_PREFIX}_metrics_unsent", "Times that metrics could not be sent over OTLP."
        )

    def _of_mending(self) -> None:
        self._mended_values = self._counter(
            f"{_PREFIX}_mended_values",
            "Values of spans that no text or number can be, mended or left out, by kind.",
            ("kind",),
        )
        self._mended_posts = self._counter(
            f"{_PREFIX}_mended_posts", "Posts with such values, by who sent them.", ("service",)
        )
        self._mended_services: set[str] = set()

    def watch(
        self,
        *,
        open_traces: Callable[[], int],
        waiting_bytes: Callable[[], int],
        evicted: Callable[[], int],
        late: Callable[[], int],
        split: Callable[[], int],
        held_bytes: Callable[[], int],
        let_go: Callable[[], int],
        custody: Callable[[], Custody],
    ) -> None:
        """Read these whenever the metrics are read; for counts kept elsewhere."""
        self.registry.register(_CustodyMetrics(custody))
        self._gauge(f"{_PREFIX}_open_traces", "Traces whose spans still come.", open_traces)
        self._gauge(f"{_PREFIX}_waiting_bytes", "Bytes that wait to be kept.", waiting_bytes)
        self._gauge(
            f"{_PREFIX}_held_bytes", "Bytes of memory that hold spans of open traces.", held_bytes
        )
        for name, text, count in (
            ("evicted_traces", "Traces attributed early because too many were open.", evicted),
            ("late_traces", "Times that spans came too late for their trace.", late),
            (
                "split_traces",
                "Traces whose spans reached several services on one store; attributed again.",
                split,
            ),
            ("let_go_spans", "Spans of open traces that memory had no room for.", let_go),
        ):
            self.registry.register(_WatchedCounter(f"{_PREFIX}_{name}", text, count))

    def mended(self, values: Mapping[Mend, int], services: Iterable[str]) -> None:
        """Count what was mended in a post, by kind, and the services that it was sent by."""
        for kind, count in values.items():
            self._mended_values.labels(kind).inc(count)
        for service in services:
            if len(self._mended_services) < MAX_SENDERS:
                self._mended_services.add(service)
            is_named = service in self._mended_services
            self._mended_posts.labels(service if is_named else OVERFLOW).inc()

    def connection_closed(self, reason: str) -> None:
        """Count a connection that was closed before its time."""
        self._connections_closed.labels(reason).inc()

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, value: Callable[[], int]) -> None:
        Gauge(name, text, registry=self.registry).set_function(value)


class _CustodyMetrics(Collector):
    """The custody of spans, read at one moment, so that its account balances."""

    def __init__(self, custody: Callable[[], Custody]) -> None:
        self._custody = custody

    def collect(self) -> Iterator[Metric]:
        custody = self._custody()
        account = custody.account
        yield CounterMetricFamily(
            f"{_PREFIX}_spans_attributed",
            "Spans whose trace was attributed to ledgers.",
            value=account.attributed,
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}_spans_open",
            "Spans that wait to be stored, or whose trace is still open.",
            value=account.open,
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}_spans_rootless",
            "Spans whose trace holds no request so far, for its root has not come.",
            value=account.rootless,
        )
        without = CounterMetricFamily(
            f"{_PREFIX}_spans_without_ledger",
            "Spans whose trace was done with and has no ledger, by reason.",
            labels=("reason",),
        )
        for reason in Without:
            without.add_metric((reason.value,), account.without[reason])
        yield without
        yield GaugeMetricFamily(
            f"{_PREFIX}_spans_unaccounted",
            "Spans that were taken and are in no ledger, no open trace and no other count: "
            "0 unless at fault.",
            value=account.unaccounted,
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}_store_failing",
            "1 while spans cannot be kept, because the disk is full and the like.",
            value=custody.failing,
        )
        parts = GaugeMetricFamily(
            f"{_PREFIX}_damaged_parts",
            "Rows of each part of a table that could not be read and was set aside.",
            labels=("table", "part"),
        )
        for part in custody.damaged_parts[:MAX_DAMAGED]:
            parts.add_metric((part.table, part.name), part.rows or 0)
        yield parts
        files = CounterMetricFamily(
            f"{_PREFIX}_journal_damaged_blocks",
            "Stretches of each file of the journal that could not be read at the start.",
            labels=("file",),
        )
        for name, count in list(custody.damaged_files.items())[:MAX_DAMAGED]:
            files.add_metric((name,), count)
        yield files


class _WatchedCounter(Collector):
    """A counter that reads a count kept elsewhere."""

    def __init__(self, name: str, text: str, count: Callable[[], int]) -> None:
        self._name = name
        self._text = text
        self._count = count

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self._name, self._text, value=self._count())
