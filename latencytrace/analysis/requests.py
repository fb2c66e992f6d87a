"""From a heap of spans to the requests in it, each with its ledger."""

from collections.abc import Iterable, Mapping

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.critical_path import critical_path
from latencytrace.analysis.token_latency import token_latency
from latencytrace.model import Request, RequestStatus, Span, StatusCode, Trace, semconv
from latencytrace.model.ledger import ledger_of

_HEALTH = frozenset(
    {
        "/health", "/healthz", "/healthcheck", "/livez", "/live", "/liveness", "/readyz",
        "/ready", "/readiness", "/ping", "/metrics", "/v1/health", "/v2/health/live",
        "/v2/health/ready", "/_health", "/api/health", "/status",
    }
)  # fmt: skip
_STATUSES = {
    408: RequestStatus.TIMEOUT,
    429: RequestStatus.REJECTED,
    499: RequestStatus.CANCELLED,
    503: RequestStatus.REJECTED,
    504: RequestStatus.TIMEOUT,
}
_FIRST_SERVER_ERROR = 500


def requests_of(
    spans: Iterable[Span], revisions: Mapping[tuple[str, str], int]
) -> tuple[Request, ...]:
    """Divide every request of one trace into stages.

    Args:
        spans: Any heap of spans of one trace id, in any order.
        revisions: The highest revision written so far, by trace id and request span id.

    Returns:
        The outermost requests first, then the inner ones, each in order of start. The
        ledger of each sums to exactly its duration.
    """
    return tuple(
        _request(trace, revisions.get((trace.root.trace_id, trace.root.span_id), 0) + 1)
        for trace in build_traces(spans)
    )


def _request(trace: Trace, revision: int) -> Request:
    root = trace.root
    segments = critical_path(trace)
    tokens = token_latency(trace)
    return Request(
        trace_id=root.trace_id,
        span_id=root.span_id,
        outermost=trace.outermost,
        service=root.service,
        instance=root.instance,
        route=_route(root),
        model=_text(trace, (semconv.GEN_AI_RESPONSE_MODEL, semconv.GEN_AI_REQUEST_MODEL)),
        version=root.version,
        status=_status(root),
        start_ns=root.start_ns,
        duration_ns=root.end_ns - root.start_ns,
        revision=revision,
        time_to_first_token_ns=tokens.time_to_first_token_ns,
        time_per_output_token_ns=tokens.time_per_output_token_ns,
        input_tokens=tokens.input_tokens,
        cached_input_tokens=tokens.cached_input_tokens,
        output_tokens=tokens.output_tokens,
        finish_reason=_text(trace, (semconv.GEN_AI_RESPONSE_FINISH_REASONS,)),
        batch_size=None,
        health=_is_health(root),
        ledger=ledger_of(segments),
        segments=segments,
        repairs=trace.repairs,
    )


def _route(root: Span) -> str:
    """`POST /chat` from the template of the route; else the span's own name."""
    route = root.attributes.get(semconv.HTTP_ROUTE)
    method = root.attributes.get(semconv.HTTP_REQUEST_METHOD) or root.attributes.get(
        semconv.HTTP_METHOD_OLD
    )
    return f"{method!s} {route!s}" if route and method else root.name


def _is_health(root: Span) -> bool:
    path = root.attributes.get(semconv.HTTP_ROUTE) or root.attributes.get(semconv.URL_PATH)
    return str(path or "").rstrip("/").lower() in _HEALTH


def _status(root: Span) -> RequestStatus:
    attributes = root.attributes
    if attributes.get(semconv.CANCELLED) is True:
        return RequestStatus.CANCELLED
    code = attributes.get(semconv.HTTP_RESPONSE_STATUS_CODE) or attributes.get(
        semconv.HTTP_STATUS_CODE_OLD
    )
    if isinstance(code, int) and code in _STATUSES:
        return _STATUSES[code]
    if "timeout" in str(attributes.get(semconv.ERROR_TYPE, "")).lower():
        return RequestStatus.TIMEOUT
    failed = isinstance(code, int) and code >= _FIRST_SERVER_ERROR
    if failed or root.status is StatusCode.ERROR:
        return RequestStatus.ERROR
    return RequestStatus.OK


def _text(trace: Trace, keys: tuple[str, ...]) -> str | None:
    """The first of these attributes on the spans of a request, the earliest span first."""
    spans = sorted(trace.spans.values(), key=lambda span: (span.start_ns, span.span_id))
    for key in keys:
        for span in spans:
            value = span.attributes.get(key)
            if isinstance(value, tuple):
                value = value[0] if value else None
            if value:
                return str(value)
    return None
