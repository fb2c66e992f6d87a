"""TensorRT-LLM, with `trtllm-serve --otlp_traces_endpoint`: one span a request.

Its times are counted from the request's arrival, where the span begins: the queue ends
with the first schedule, the prefill with the first token. -1 stands for unknown. In
disaggregated serving the KV cache arrives between two events.
"""

from collections.abc import Sequence
from dataclasses import replace

from latencytrace.analysis.dialects.engine import Engine, Generation, Times
from latencytrace.analysis.dialects.engine_times import Reading, between, laid_out
from latencytrace.model import Interval, Span, Stage, semconv

_REQUEST = "llm_request"
_DISAGGREGATED = "disaggregated_request"
_TIMES = (
    semconv.LATENCY_IN_QUEUE,
    semconv.LATENCY_TO_FIRST,
    semconv.LATENCY_E2E,
)
_UNKNOWN_S = -1


def _knows(span: Span) -> bool:
    if span.scope:
        return True
    return span.name == _DISAGGREGATED or (
        span.name == _REQUEST and semconv.LATENCY_IN_PREFILL not in span.attributes
    )


def _known(span: Span) -> Span:
    """The span without the times that it says it does not know."""
    unknown = [key for key in _TIMES if span.attributes.get(key) == _UNKNOWN_S]
    if not unknown:
        return span
    known = {key: value for key, value in span.attributes.items() if key not in unknown}
    return replace(span, attributes=known)


def _times(span: Span, _: Sequence[Span]) -> Times:
    if span.name != _REQUEST:
        return Times()
    reading = Reading(_known(span))
    queue_ns = reading.seconds(semconv.LATENCY_IN_QUEUE)
    first_token_ns = reading.seconds(semconv.LATENCY_TO_FIRST)
    whole_ns = reading.seconds(semconv.LATENCY_E2E)
    parts: list[tuple[Stage, int | None]] = []
    start_ns = span.start_ns
    if queue_ns is not None:
        prefill_ns = None if first_token_ns is None else max(first_token_ns - queue_ns, 0)
        parts = [(Stage.QUEUE, queue_ns), (Stage.PREFILL, prefill_ns)]
    elif first_token_ns is not None:
        start_ns += first_token_ns  # what came before it is not split
    if first_token_ns is not None and whole_ns is not None:
        parts.append((Stage.DECODE, max(whole_ns - max(first_token_ns, queue_ns or 0), 0)))
    times = laid_out(span, parts, start_ns=start_ns, faults=reading.faults)
    transfers = between(span, Stage.TRANSFER, "kv_cache_transfer_start", "kv_cache_transfer_end")
    if not transfers:
        return times
    return Times(
        intervals=(*transfers, *_without(times.intervals, transfers[0])), faults=times.faults
    )


def _without(intervals: Sequence[Interval], hole: Interval) -> list[Interval]:
    """Return what intervals leave of themselves around another."""
    left = []
    for interval in intervals:
        before = interval._replace(end_ns=min(interval.end_ns, hole.start_ns))
        after = interval._replace(start_ns=max(interval.start_ns, hole.end_ns))
        left += [part for part in (before, after) if part.end_ns > part.start_ns]
    return left


def _generation(span: Span) -> Generation:
    reading = Reading(_known(span))
    first_token_ns = reading.seconds(semconv.LATENCY_TO_FIRST)
    whole_ns = reading.seconds(semconv.LATENCY_E2E)
    if first_token_ns is None or whole_ns is None or whole_ns < first_token_ns:
        return Generation()
    return Generation(decode_ns=whole_ns - first_token_ns)


ENGINE = Engine(
    name="TensorRT-LLM",
    scopes=("trt.llm", "tensorrt_llm"),
    knows=_knows,
    stages={_REQUEST: Stage.UNATTRIBUTED, _DISAGGREGATED: Stage.UNATTRIBUTED},
    times=_times,
    generation=_generation,
    reported_in=frozenset(_TIMES),
)
