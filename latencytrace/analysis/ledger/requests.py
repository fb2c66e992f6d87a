"""From unordered spans to the requests in them, each with its ledger."""

from collections.abc import Iterable, Mapping

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.calls.waits import with_waits
from latencytrace.analysis.gpu.shared_steps import without_steps
from latencytrace.analysis.ledger.after_answer import after_answer
from latencytrace.analysis.ledger.circumstances import circumstances
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.metric_attributes import metric_attributes
from latencytrace.analysis.ledger.processor_waits import with_processor_waits
from latencytrace.analysis.ledger.runtime_gaps import with_runtime
from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.analysis.tail.cohort_attributes import cohort_attributes
from latencytrace.analysis.tokens.latency import token_latency
from latencytrace.analysis.trace.error_types import FIRST_SERVER_ERROR, http_code, is_refused
from latencytrace.analysis.trace.routes import is_health, route_of
from latencytrace.analysis.trace.weight import MOST, weight_of
from latencytrace.model import (
    AttributeValue,
    Request,
    RequestStatus,
    Segment,
    Span,
    StatusCode,
    Trace,
    semconv,
)
from latencytrace.model.detail import detail_named
from latencytrace.model.request import ledger_of

_STATUSES = {
    408: RequestStatus.TIMEOUT,
    429: RequestStatus.REJECTED,
    499: RequestStatus.CANCELLED,
    503: RequestStatus.REJECTED,
    504: RequestStatus.TIMEOUT,
}
_RPC_STATUSES = {  # of gRPC, by name and, in older conventions, by number
    "CANCELLED": RequestStatus.CANCELLED,
    1: RequestStatus.CANCELLED,
    "DEADLINE_EXCEEDED": RequestStatus.TIMEOUT,
    4: RequestStatus.TIMEOUT,
    "RESOURCE_EXHAUSTED": RequestStatus.REJECTED,
    8: RequestStatus.REJECTED,
    "UNAVAILABLE": RequestStatus.REJECTED,
    14: RequestStatus.REJECTED,
}


def requests_of(
    spans: Iterable[Span],
    revisions: Mapping[tuple[str, str], int],
    *,
    rootless: bool = False,
) -> tuple[Request, ...]:
    """Attribute every request of one trace to stages.

    Args:
        spans: Spans of one trace id, in any order.
        revisions: The highest revision written so far, by trace id and request span id.
        rootless: The root, if it is not among the spans, will not come any more.

    Returns:
        The outermost requests first, then the inner ones, each in order of start. The
        ledger of each sums to exactly its duration.
    """
    return tuple(
        request_of(trace, critical_path(trace), revisions)
        for trace in build_traces(spans, rootless=rootless)
    )


def request_of(
    trace: Trace,
    segments: tuple[Segment, ...],
    revisions: Mapping[tuple[str, str], int],
    max_weight: int = MOST,
    longest_ns: int = WEEK_NS,
) -> Request:
    """One request and its ledger.

    Args:
        segments: Critical path of the request.
        revisions: The highest revision written so far, by trace id and request span id.
        max_weight: The largest weight that is believed.
        longest_ns: What ended so long after it had a clock that was not set.
    """
    root = trace.root
    tokens = token_latency(trace)
    attributes, attributes_left_out = cohort_attributes(trace)
    status = status_of(root)
    met = circumstances(trace)
    segments = with_runtime(trace, with_waits(trace, without_steps(trace, segments)))
    segments = with_processor_waits(trace, segments)
    return Request(
        trace_id=root.trace_id,
        span_id=root.span_id,
        outermost=trace.outermost,
        service=root.service,
        instance=root.instance,
        route=route_of(root),
        model=tokens.model,
        version=root.version,
        status=status,
        start_ns=root.start_ns,
        duration_ns=root.end_ns - root.start_ns,
        revision=revisions.get((root.trace_id, root.span_id), 0) + 1,
        time_to_first_token_ns=tokens.time_to_first_token_ns,
        time_to_first_token_of=tokens.time_to_first_token_of,
        model_time_to_first_token_ns=tokens.model_time_to_first_token_ns,
        time_per_output_token_ns=tokens.time_per_output_token_ns,
        input_tokens=tokens.input_tokens,
        cached_input_tokens=tokens.cached_input_tokens,
        output_tokens=tokens.output_tokens,
        finish_reason=tokens.finish_reason,
        batch_size=tokens.batch_size,
        queue_depth=met.queue_depth,
        concurrency=met.concurrency,
        preemptions=met.preemptions,
        cold_start=met.cold_start,
        health=is_health(root) or not trace.is_timed,
        detail=detail_named(root.attributes.get(semconv.DETAIL)),
        weight=weight_of(root.trace_id, root.trace_state, root.attributes, max_weight),
        ledger=ledger_of(segments),
        segments=segments,
        after=after_answer(trace, longest_ns),
        repairs=trace.repairs,
        attributes=attributes,
        attributes_left_out=attributes_left_out,
        metric_attributes=metric_attributes(root, tokens, status),
    )


def status_of(root: Span) -> RequestStatus:
    if root.attributes.get(semconv.CANCELLED) is True:
        return RequestStatus.CANCELLED
    code = http_code(root)
    if code in _STATUSES:
        return _STATUSES[code]
    rpc_code = _either(root, semconv.RPC_RESPONSE_STATUS_CODE, semconv.RPC_GRPC_STATUS_CODE_OLD)
    if isinstance(rpc_code, str | int) and rpc_code in _RPC_STATUSES:
        return _RPC_STATUSES[rpc_code]
    if "timeout" in str(root.attributes.get(semconv.ERROR_TYPE, "")).lower():
        return RequestStatus.TIMEOUT
    if code >= FIRST_SERVER_ERROR or (root.status is StatusCode.ERROR and not is_refused(root)):
        return RequestStatus.ERROR
    return RequestStatus.OK


def _either(span: Span, key: str, old_key: str) -> AttributeValue:
    value = span.attributes.get(key)
    return span.attributes.get(old_key) if value is None else value
