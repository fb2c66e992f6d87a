"""When a request's first token came, and how fast the others followed."""

from dataclasses import dataclass

from latencytrace.model import Span, Stage, Trace, semconv

_INPUT = (semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_INPUT_TOKENS_OLD)
_OUTPUT = (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, semconv.GEN_AI_USAGE_OUTPUT_TOKENS_OLD)
_CACHED = (semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLatency:
    """Token times and counts of one request; None: unknown."""

    time_to_first_token_ns: int | None
    time_per_output_token_ns: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None


def token_latency(trace: Trace) -> TokenLatency:
    """Read token times off a request's prefill and decode spans.

    Returns:
        Time to first token: the end of the first prefill to end, less the request's
        start; without a prefill, the `gen_ai.response.time_to_first_chunk` of a span,
        from that span's start. Time per output token: the duration of the decode
        spans over the tokens that they made after the first one each. Tokens: those
        of the generations (spans with output tokens, the outer ones only).
    """
    generations = _generations(trace)
    return TokenLatency(
        time_to_first_token_ns=_first_token(trace),
        time_per_output_token_ns=_per_token(trace),
        input_tokens=_total(generations, _INPUT),
        cached_input_tokens=_total(generations, _CACHED),
        output_tokens=_total(generations, _OUTPUT),
    )


def _of_stage(trace: Trace, stage: Stage) -> list[Span]:
    return [span for span_id, span in trace.spans.items() if trace.stages[span_id] is stage]


def _first_token(trace: Trace) -> int | None:
    start_ns = trace.root.start_ns
    prefills = _of_stage(trace, Stage.PREFILL)
    if prefills:
        return min(span.end_ns for span in prefills) - start_ns
    chunks = []
    for span in trace.spans.values():
        seconds = span.attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
        if isinstance(seconds, (int, float)) and seconds >= 0:
            chunks.append(span.start_ns + round(seconds * 1e9))
    return max(min(chunks) - start_ns, 0) if chunks else None


def _per_token(trace: Trace) -> int | None:
    duration_ns = followers = 0
    for span in _of_stage(trace, Stage.DECODE):
        tokens = _count(span, _OUTPUT)
        sequences = _count(span, (semconv.BATCH_SIZE,)) or 1
        if tokens is not None and tokens // sequences > 1:
            duration_ns += span.end_ns - span.start_ns
            followers += tokens // sequences - 1
    return round(duration_ns / followers) if followers else None


def _generations(trace: Trace) -> list[Span]:
    """The spans with output tokens that lie below no other one of these."""
    found: list[Span] = []
    pending = [trace.root]
    while pending:
        span = pending.pop()
        if _count(span, _OUTPUT) is not None:
            found.append(span)
        else:
            pending.extend(trace.children.get(span.span_id, ()))
    return found


def _total(spans: list[Span], keys: tuple[str, ...]) -> int | None:
    counts = [count for count in (_count(span, keys) for span in spans) if count is not None]
    return sum(counts) if counts else None


def _count(span: Span, keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = span.attributes.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
