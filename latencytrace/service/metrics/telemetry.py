"""The service's metrics: what the requests cost, and what the service drops or refuses."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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

from latencytrace.model import Measure, Objective, Request, RequestStatus, Stage
from latencytrace.service.clock import now_ns
from latencytrace.service.metrics.cohorts import (
    MAX_COHORTS,
    MAX_ROUTES,
    OTHER,
    OVERFLOWED,
    Cohort,
    RequestCohorts,
)
from latencytrace.service.metrics.histograms import ManyHistogram, Observation
from latencytrace.service.metrics.span_account import Account, Without
from latencytrace.service.store import DamagedPart

# Round numbers, for those are what objectives name; dense where serving happens.
DURATION_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
# Fewer, for there are as many series of them as stages: LATENCYTRACE_STAGE_BUCKETS names others.
STAGE_BUCKETS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FIRST_TOKEN_BUCKETS = (
    0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
TOKEN_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
    1.0,
)  # fmt: skip

MAX_DAMAGED = 100  # pieces of the store, and of the journal, that metrics name

REPLACED_EVERY_S = 600.0  # the busiest routes

_COHORT = ("service", "route", "model")
_DIRECTIONS = ("input", "output")
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

    Cohorts are bounded: beyond `max_routes` of a service, requests join the route `other`,
    beyond `max_cohorts` the cohort `overflow`. It counts from 0 after a restart, as
    Prometheus expects of counters; a request is counted once it has settled. The threshold
    of every objective is a boundary of the histogram that measures it, and its route is
    shown whatever its traffic.
    """

    def __init__(
        self,
        max_cohorts: int = MAX_COHORTS,
        objectives: Sequence[Objective] = (),
        stage_buckets: Sequence[float] = STAGE_BUCKETS,
        max_routes: int = MAX_ROUTES,
    ) -> None:
        # A series more for each label set, that nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call] # untyped there
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.cohorts = RequestCohorts(max_cohorts, max_routes)
        self.pin_routes(objectives)
        self._replaced_at_s: float | None = None
        self._stage_buckets = stage_buckets
        self._objectives = objectives
        self._of_requests()
        self._of_the_service()

    def _of_requests(self) -> None:
        self.request_duration = self._histogram(
            "latencytrace_request_duration_seconds",
            "From a request's start to its end.",
            _COHORT,
            self._buckets(DURATION_BUCKETS, Measure.DURATION),
        )
        self.stage_duration = self._histogram(
            "latencytrace_stage_duration_seconds",
            "Critical-path time of a request in one stage.",
            (*_COHORT, "stage"),
            self._buckets(self._stage_buckets, Measure.STAGE),
        )
        self.time_to_first_token = self._histogram(
            "latencytrace_time_to_first_token_seconds",
            "From a request's start to its first output token.",
            _COHORT,
            self._buckets(FIRST_TOKEN_BUCKETS, Measure.TIME_TO_FIRST_TOKEN),
        )
        self.time_per_output_token = self._histogram(
            "latencytrace_time_per_output_token_seconds",
            "Mean time between output tokens after the first.",
            _COHORT,
            self._buckets(TOKEN_BUCKETS, Measure.TIME_PER_OUTPUT_TOKEN),
        )
        self.requests = self._counter(
            "latencytrace_requests", "Requests by how they ended.", (*_COHORT, "status")
        )
        self.tokens = self._counter(
            "latencytrace_tokens", "Tokens read and written.", (*_COHORT, "direction")
        )

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
        self.repaired = self._counter(
            f"{_PREFIX}_repaired_requests",
            "Requests whose trace was mended, by repair.",
            ("kind",),
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
        self.overflowed = self._counter(
            f"{_PREFIX}_overflowed_requests", "Requests counted in the cohort `overflow`."
        )
        self.of_other_routes = self._counter(
            f"{_PREFIX}_other_route_requests",
            "Requests counted in the route `other`, for theirs is not among the busiest.",
        )
        self.store_errors = self._counter(
            f"{_PREFIX}_store_errors", "Batches of traces that the store could not take; retried."
        )
        self.metrics_unsent = self._counter(
            f"{_PREFIX}_metrics_unsent", "Times that metrics could not be sent over OTLP."
        )

    def watch(  # noqa: PLR0913 - what is kept elsewhere
        self,
        *,
        open_traces: Callable[[], int],
        waiting_bytes: Callable[[], int],
        evicted: Callable[[], int],
        late: Callable[[], int],
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
            ("let_go_spans", "Spans of open traces that memory had no room for.", let_go),
        ):
            self.registry.register(_WatchedCounter(f"{_PREFIX}_{name}", text, count))

    def connection_closed(self, reason: str) -> None:
        """Count a connection that was closed before its time."""
        self._connections_closed.labels(reason).inc()

    def count(self, requests: Iterable[Request]) -> None:
        """Count requests that have settled, health routes never."""
        at_s = self.counted_at_s()
        by_cohort: dict[Cohort, list[Request]] = {}
        for request in requests:
            if request.counts:
                by_cohort.setdefault(self.cohorts.of(request), []).append(request)
        for cohort, counted in by_cohort.items():
            self.count_left_out(cohort, len(counted))
            self._count(counted, cohort, at_s)

    def pin_routes(self, objectives: Sequence[Objective]) -> None:
        """Show the routes of these objectives whatever their traffic."""
        self.cohorts.pinned = frozenset((one.service, one.route or "") for one in objectives)

    def count_left_out(self, cohort: Cohort, requests: int) -> None:
        """Count requests whose cohort is not their own."""
        if cohort is OVERFLOWED:
            self.overflowed.inc(requests)
        elif cohort[1] == OTHER:
            self.of_other_routes.inc(requests)

    def counted_at_s(self) -> float:
        """The time of day; asked before cohorts, for the busiest routes may be others then."""
        at_s = now_ns() / 1e9
        if self._replaced_at_s is None:
            self._replaced_at_s = at_s
        elif abs(at_s - self._replaced_at_s) >= REPLACED_EVERY_S:
            self._replaced_at_s = at_s
            for gone in self.cohorts.replace():
                self._forget(gone)
        return at_s

    def _forget(self, cohort: Cohort) -> None:
        """Leave out the series of a cohort."""
        for histogram in (
            self.request_duration,
            self.stage_duration,
            self.time_to_first_token,
            self.time_per_output_token,
        ):
            histogram.forget(cohort)
        for counter, values in ((self.requests, RequestStatus), (self.tokens, _DIRECTIONS)):
            for value in values:
                with suppress(KeyError):  # it has no such series
                    counter.remove(*cohort, value)

    def _count(self, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float) -> None:
        for kind in (kind for one in requests for kind in {each.kind for each in one.repairs}):
            self.repaired.labels(kind.value).inc()
        durations = [(one.duration_ns / 1e9, one.trace_id) for one in requests]
        self.request_duration.observe(cohort, durations, at_s)
        for status, count in Tally(one.status.value for one in requests).items():
            self.requests.labels(*cohort, status).inc(count)
        by_stage: dict[Stage, list[Observation]] = {}
        for one in requests:
            for stage, stage_ns in one.ledger.items():
                if stage_ns:
                    by_stage.setdefault(stage, []).append((stage_ns / 1e9, one.trace_id))
        for stage, stage_times in by_stage.items():
            self.stage_duration.observe((*cohort, stage.value), stage_times, at_s)
        self._count_tokens(requests, cohort, at_s)

    def _count_tokens(
        self, requests: Sequence[Request], cohort: tuple[str, ...], at_s: float
    ) -> None:
        first = [(one.time_to_first_token_ns, one.trace_id) for one in requests]
        _observe_known(self.time_to_first_token, cohort, first, at_s)
        token = [(one.time_per_output_token_ns, one.trace_id) for one in requests]
        _observe_known(self.time_per_output_token, cohort, token, at_s)
        if tokens := sum(one.input_tokens or 0 for one in requests):
            self.tokens.labels(*cohort, "input").inc(tokens)
        if tokens := sum(one.output_tokens or 0 for one in requests):
            self.tokens.labels(*cohort, "output").inc(tokens)

    def _histogram(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> ManyHistogram:
        return ManyHistogram(name, text, labels, buckets, self.registry)

    def _buckets(self, base: Sequence[float], measure: Measure) -> Sequence[float]:
        """The buckets of a histogram, each threshold of an objective among them."""
        thresholds = {
            objective.limit_ns / 1e9
            for objective in self._objectives
            if objective.measure is measure and objective.limit_ns is not None
        }
        # Its half and its double, too: quantiles are wanted near it.
        return sorted({*base, *(share * bound for bound in thresholds for share in (0.5, 1, 2))})

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, value: Callable[[], int]) -> None:
        Gauge(name, text, registry=self.registry).set_function(value)


def _observe_known(
    histogram: ManyHistogram,
    cohort: tuple[str, ...],
    found: Iterable[tuple[int | None, str]],
    at_s: float,
) -> None:
    known = [(took_ns / 1e9, trace_id) for took_ns, trace_id in found if took_ns is not None]
    if known:
        histogram.observe(cohort, known, at_s)


class _CustodyMetrics(Collector):
    """The custody of spans, read at one moment, so that its account balances."""

    def __init__(self, custody: Callable[[], Custody]) -> None:
        self._custody = custody

    def collect(self) -> Iterator[Metric]:
        """Read it."""
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
    """A counter whose count is kept elsewhere."""

    def __init__(self, name: str, text: str, count: Callable[[], int]) -> None:
        self._name = name
        self._text = text
        self._count = count

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Read it."""
        yield CounterMetricFamily(self._name, self._text, value=self._count())
