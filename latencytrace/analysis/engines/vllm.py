"""vLLM, with `--otlp-traces-endpoint`: one span a request, and times in its attributes.

The span is made when the request has finished, from its arrival on (before its prompt is
tokenized) to its last output. Queue, prefill and decode are measured by the engine's core
and have no gap between them; what remains is the API server's: templates, tokenizing, the
way to the core and back, detokenizing. The first token is timed by the API server.
"""

from collections.abc import Sequence

from latencytrace.analysis.dialects.engine import Engine, Generation, Times
from latencytrace.analysis.dialects.engine_times import Reading, laid_out
from latencytrace.model import Span, SpanKind, Stage, semconv

_REQUEST = "llm_request"


def _knows(span: Span) -> bool:
    return bool(span.scope) or semconv.LATENCY_IN_PREFILL in span.attributes


def _stage(span: Span) -> Stage | None:
    """All but the span of a request are of starting up: weights, compilation, warm-up."""
    return Stage.LOAD if span.kind is SpanKind.INTERNAL else None


def _times(span: Span, _: Sequence[Span]) -> Times:
    if span.name != _REQUEST:
        return Times()
    reading = Reading(span)
    queue_ns = reading.seconds(semconv.LATENCY_IN_QUEUE)
    prefill_ns = reading.seconds(semconv.LATENCY_IN_PREFILL)
    decode_ns = reading.seconds(semconv.LATENCY_IN_DECODE)
    first_token_ns = reading.seconds(semconv.LATENCY_TO_FIRST)
    before_ns = (queue_ns or 0) + (prefill_ns or 0)
    if first_token_ns is None:
        start_ns = span.end_ns - before_ns - (decode_ns or 0)
    else:
        start_ns = span.start_ns + first_token_ns - before_ns
    parts = (
        (Stage.QUEUE, queue_ns),
        (Stage.PREFILL, prefill_ns),
        (Stage.DECODE, decode_ns),
    )
    return laid_out(span, parts, start_ns=start_ns, faults=reading.faults)


def _generation(span: Span) -> Generation:
    return Generation(decode_ns=Reading(span).seconds(semconv.LATENCY_IN_DECODE))


ENGINE = Engine(
    name="vLLM",
    scopes=("vllm",),
    knows=_knows,
    stages={_REQUEST: Stage.UNATTRIBUTED},
    stage=_stage,
    times=_times,
    generation=_generation,
    reported_in=frozenset(
        {
            semconv.LATENCY_IN_QUEUE,
            semconv.LATENCY_IN_PREFILL,
            semconv.LATENCY_IN_DECODE,
            semconv.LATENCY_TO_FIRST,
        }
    ),
)
