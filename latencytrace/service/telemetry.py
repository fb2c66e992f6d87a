"""The service's metrics: what the requests cost, and what the service drops or refuses."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from latencytrace.model import Request, Stage

# Both the HTTP and the GenAI conventions' boundaries, from 1 ms to 82 s.
DURATION_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64,
    1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
STAGE_BUCKETS = (0.0001, 0.00025, 0.0005, *DURATION_BUCKETS)
TOKEN_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
)  # fmt: skip
MAX_COHORTS = 200
OVERFLOW = "overflow"

_COHORT = ("service", "route", "model")


class Telemetry:
    """Every metric of one service, on a registry of its own.

    Cohorts are bounded: beyond `max_cohorts`, requests join the cohort `overflow`.
    """

    def __init__(self, max_cohorts: int = MAX_COHORTS) -> None:
        self.registry = CollectorRegistry()
        self._max_cohorts = max_cohorts
        self._cohorts: set[tuple[str, str, str]] = set()
        self._of_requests()
        self._of_the_service()

    def _of_requests(self) -> None:
        self.request_duration = self._histogram(
            "latencytrace_request_duration_seconds",
            "From a request's start to its end.",
            _COHORT,
            DURATION_BUCKETS,
        )
        self.stage_duration = self._histogram(
            "latencytrace_stage_duration_seconds",
            "Critical-path time of a request in one stage.",
            (*_COHORT, "stage"),
            STAGE_BUCKETS,
        )
        self.time_to_first_token = self._histogram(
            "latencytrace_time_to_first_token_seconds",
            "From a request's start to its first output token.",
            _COHORT,
            DURATION_BUCKETS,
        )
        self.time_per_output_token = self._histogram(
            "latencytrace_time_per_output_token_seconds",
            "Mean time between output tokens after the first.",
            _COHORT,
            TOKEN_BUCKETS,
        )
        self.requests = self._counter(
            "latencytrace_requests", "Requests by how they ended.", (*_COHORT, "status")
        )
        self.tokens = self._counter(
            "latencytrace_tokens", "Tokens read and written.", (*_COHORT, "direction")
        )

    def _of_the_service(self) -> None:
        prefix = "latencytrace_service"
        self.spans_received = self._counter(f"{prefix}_spans_received", "Spans that were kept.")
        self.spans_rejected = self._counter(
            f"{prefix}_spans_rejected", "Spans rejected by partial success."
        )
        self.posts_refused = self._counter(
            f"{prefix}_posts_refused", "Posts that were not kept, by HTTP status.", ("code",)
        )
        self.revised = self._counter(
            f"{prefix}_revised", "Requests divided anew because a span came late."
        )
        self.late = self._counter(
            f"{prefix}_late_traces", "Traces whose further spans came too late to be counted."
        )
        self.evicted = self._counter(
            f"{prefix}_evicted_traces", "Traces divided early because too many were open."
        )
        self.overflowed = self._counter(
            f"{prefix}_overflowed_requests", "Requests counted in the cohort `overflow`."
        )
        self.store_errors = self._counter(
            f"{prefix}_store_errors", "Batches of traces that the store could not take; retried."
        )
        self.open_traces = self._gauge(f"{prefix}_open_traces", "Traces whose spans still come.")
        self.waiting_bytes = self._gauge(f"{prefix}_waiting_bytes", "Bytes that wait to be kept.")

    def count(self, requests: Iterable[Request]) -> None:
        """Count requests; of each the first revision only, health routes never."""
        for request in requests:
            if request.revision > 1:
                self.revised.inc()
            elif request.outermost and not request.health:
                self._count(request, self._cohort(request))

    def _count(self, request: Request, cohort: Sequence[str]) -> None:
        exemplar = {"trace_id": request.trace_id}
        self.request_duration.labels(*cohort).observe(request.duration_ns / 1e9, exemplar)
        self.requests.labels(*cohort, request.status.value).inc()
        for stage in Stage:
            stage_ns = request.ledger.get(stage)
            if stage_ns:
                self.stage_duration.labels(*cohort, stage.value).observe(stage_ns / 1e9, exemplar)
        if request.time_to_first_token_ns is not None:
            first_s = request.time_to_first_token_ns / 1e9
            self.time_to_first_token.labels(*cohort).observe(first_s, exemplar)
        if request.time_per_output_token_ns is not None:
            token_s = request.time_per_output_token_ns / 1e9
            self.time_per_output_token.labels(*cohort).observe(token_s, exemplar)
        if request.input_tokens:
            self.tokens.labels(*cohort, "input").inc(request.input_tokens)
        if request.output_tokens:
            self.tokens.labels(*cohort, "output").inc(request.output_tokens)

    def _cohort(self, request: Request) -> tuple[str, str, str]:
        cohort = (request.service, request.route, request.model or "")
        if cohort in self._cohorts:
            return cohort
        if len(self._cohorts) >= self._max_cohorts:
            self.overflowed.inc()
            return (OVERFLOW, OVERFLOW, OVERFLOW)
        self._cohorts.add(cohort)
        return cohort

    def _histogram(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)
