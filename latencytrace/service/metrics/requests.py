"""Times of requests, as metrics of OpenTelemetry's conventions, and times of their stages.

A request is recorded after it ended, from its spans. The context of each measurement has the
request's own span, so that exemplars lead to the trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from latencytrace.model import Request, Stage, semconv
from latencytrace.service.metrics.cohorts import MAX_COHORTS, OVERFLOWED, RequestCohorts
from latencytrace.service.metrics.counted_requests import STAGE_BUCKETS

# As the conventions advise.
HTTP_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
GEN_AI_BUCKETS: Final = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
FIRST_TOKEN_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
TOKEN_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
)  # fmt: skip
MAX_SETS: Final = 2000  # of attributes, for one kind of metric; as many as the SDKs keep
_OVERFLOW: Final = ((semconv.METRIC_OVERFLOW, True),)
_NS_PER_S: Final = 1_000_000_000

Pairs = tuple[tuple[str, str | int], ...]


class RequestMetrics:
    """Records requests on a meter.

    Points carry the service of their request as `service.name`, which `metrics_sender` makes
    the resource of. The number of cohorts is bounded as in `Telemetry`.

    Args:
        max_cohorts: How many combinations of service, route and model there may be.
        max_sets: How many combinations of attributes.
    """

    def __init__(
        self, meter: Meter, max_cohorts: int = MAX_COHORTS, max_sets: int = MAX_SETS
    ) -> None:
        self._cohorts = RequestCohorts(max_cohorts)
        self._of_http = _AttributeSets(max_sets)
        self._of_gen_ai = _AttributeSets(max_sets)
        self._of_stages = _AttributeSets(max_cohorts * (len(Stage) + 1))

        def histogram(name: str, described: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, "s", described, explicit_bucket_boundaries_advisory=buckets
            )

        self._http = histogram(
            "http.server.request.duration", "Duration of HTTP server requests.", HTTP_BUCKETS
        )
        self._gen_ai = histogram(
            "gen_ai.server.request.duration",
            "From a request's start to its last output token.",
            GEN_AI_BUCKETS,
        )
        self._first_token = histogram(
            "gen_ai.server.time_to_first_token",
            "From a request's start to its first output token.",
            FIRST_TOKEN_BUCKETS,
        )
        self._token = histogram(
            "gen_ai.server.time_per_output_token",
            "Mean time between output tokens after the first.",
            TOKEN_BUCKETS,
        )
        self._stage = histogram(
            "latencytrace.request.stage.duration",
            "Critical-path time of a request in one stage.",
            STAGE_BUCKETS,
        )

    def count(self, requests: Iterable[Request]) -> None:
        """Record requests; of each the first revision only, health routes never."""
        for request in requests:
            if request.revision == 1 and request.counts:
                self._count(request)

    def _count(self, request: Request) -> None:
        context = _context(request)
        cohort = self._cohorts.of(request)
        reported = request.metric_attributes
        http, gen_ai = reported.http, reported.gen_ai
        if cohort is OVERFLOWED:
            http, gen_ai = http and _OVERFLOW, gen_ai and _OVERFLOW
        elif reported.error_type:
            error = ((semconv.ERROR_TYPE, reported.error_type),)
            http, gen_ai = http and http + error, gen_ai and gen_ai + error
        duration_s = request.duration_ns / _NS_PER_S
        if http:
            self._http.record(duration_s, self._of_http.get(cohort[0], http), context)
        if gen_ai:
            attributes = self._of_gen_ai.get(cohort[0], gen_ai)
            self._gen_ai.record(duration_s, attributes, context)
            if not reported.error_type:  # the conventions count requests that succeed
                self._count_tokens(request, attributes, context)
        self._count_stages(request, cohort, context)

    def _count_tokens(
        self, request: Request, attributes: Mapping[str, str | int], context: Context
    ) -> None:
        first_ns, token_ns = request.time_to_first_token_ns, request.time_per_output_token_ns
        if first_ns is not None:
            self._first_token.record(first_ns / _NS_PER_S, attributes, context)
        if token_ns is not None:
            self._token.record(token_ns / _NS_PER_S, attributes, context)

    def _count_stages(
        self, request: Request, cohort: tuple[str, str, str], context: Context
    ) -> None:
        service, route, model = cohort
        pairs: Pairs = _OVERFLOW if cohort is OVERFLOWED else ((semconv.ROUTE, route),)
        if model and cohort is not OVERFLOWED:
            pairs += ((semconv.GEN_AI_REQUEST_MODEL, model),)
        for stage, stage_ns in request.ledger.items():
            if stage_ns:
                attributes = self._of_stages.get(service, (*pairs, (semconv.STAGE, stage.value)))
                self._stage.record(stage_ns / _NS_PER_S, attributes, context)


class _AttributeSets:
    """Attributes as the SDK takes them, made once a combination."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[str, Pairs], Mapping[str, str | int]] = {}

    def get(self, service: str, pairs: Pairs) -> Mapping[str, str | int]:
        """Return the attributes of a service; beyond `most` sets, its overflow attributes."""
        known = self._known.get((service, pairs))
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return {semconv.SERVICE_NAME: _clean(service), **dict(_OVERFLOW)}
        made = {semconv.SERVICE_NAME: _clean(service)}
        made |= {key: _clean(value) for key, value in pairs}
        self._known[service, pairs] = made
        return made


def _clean(value: str | int) -> str | int:
    """Replace what UTF-8 cannot encode in a text."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _context(request: Request) -> Context:
    """A context as if the request's own span were current."""
    span = SpanContext(
        int(request.trace_id, 16),
        int(request.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())
