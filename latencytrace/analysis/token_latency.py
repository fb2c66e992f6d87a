"""When a request's first token came, and how fast the others followed."""

from collections.abc import Iterable
from dataclasses import dataclass

from latencytrace.model import AttributeValue, Span, Stage, Trace, semconv

_NS_PER_S = 1_000_000_000

# New names first, then old ones and those of OpenInference.
_INPUT = (
    semconv.GEN_AI_USAGE_INPUT_TOKENS,
    semconv.GEN_AI_USAGE_INPUT_TOKENS_OLD,
    semconv.OPENINFERENCE_INPUT_TOKENS,
)
_OUTPUT = (
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS_OLD,
    semconv.OPENINFERENCE_OUTPUT_TOKENS,
)
_CACHED = (
    semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS,
    semconv.OPENINFERENCE_CACHED_INPUT_TOKENS,
)
_MODEL = (
    semconv.GEN_AI_REQUEST_MODEL,
    semconv.GEN_AI_RESPONSE_MODEL,
    semconv.OPENINFERENCE_MODEL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLatency:
    """Token times and counts of one request; None: unknown."""

    model: str | None
    time_to_first_token_ns: int | None
    time_per_output_token_ns: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    batch_size: int | None


def token_latency(trace: Trace) -> TokenLatency:
    """Read token times and counts off a request's model calls.

    The model calls are the spans with output tokens, or, where there are none, those
    with input tokens; of several inside each other the outer one, whose counts the
    inner ones repeat.

    Returns:
        Time to first token: the `gen_ai.response.time_to_first_chunk` of the request's own
        span, which is when the first token left for the caller; without one, the end of
        the first prefill to end, less the request's start; without a prefill, the first
        such attribute of any span, counted from its span's start. Time per output token:
        the duration of the decode spans (of one alone: from the first token's leaving to
        its end) over the tokens that each of their sequences got after its first.
        Tokens: the sums over the model calls. Model, finish reason and batch size: of
        the model call that ended last; without model calls, of any span.
    """
    calls = _outermost_with(trace, _OUTPUT) or _outermost_with(trace, _INPUT)
    told_by = calls or tuple(trace.spans.values())
    model = _of_last(told_by, _MODEL)
    finish_reason = _of_last(told_by, (semconv.GEN_AI_RESPONSE_FINISH_REASONS,))
    batch_size = _of_last(told_by, (semconv.BATCH_SIZE,))
    return TokenLatency(
        model=None if model is None else str(model),
        time_to_first_token_ns=_first_token(trace),
        time_per_output_token_ns=_per_token(trace),
        input_tokens=_total(calls, _INPUT),
        cached_input_tokens=_total(calls, _CACHED),
        output_tokens=_total(calls, _OUTPUT),
        finish_reason=None if finish_reason is None else str(finish_reason),
        batch_size=batch_size if isinstance(batch_size, int) else None,
    )


def _outermost_with(trace: Trace, keys: tuple[str, ...]) -> tuple[Span, ...]:
    """The spans with one of these counts that lie below no other such span."""
    found = []
    pending = [trace.root]
    while pending:
        span = pending.pop()
        if _count(span, keys) is not None:
            found.append(span)
        else:
            pending.extend(trace.children.get(span.span_id, ()))
    return tuple(found)


def _of_last(spans: Iterable[Span], keys: tuple[str, ...]) -> AttributeValue:
    """The attribute, or its first element, of the span that ended last of those that have it."""
    told = [(span, value) for span in spans if (value := _value(span, keys)) is not None]
    if not told:
        return None
    last = max(told, key=lambda pair: (pair[0].end_ns, pair[0].start_ns, pair[0].span_id))
    return last[1]


def _value(span: Span, keys: tuple[str, ...]) -> AttributeValue:
    for key in keys:
        value = span.attributes.get(key)
        if isinstance(value, tuple):
            value = value[0] if value else None
        if value is not None and value != "":
            return value
    return None


def _first_token(trace: Trace) -> int | None:
    left_ns = _first_chunk(trace.root)
    if left_ns is not None:
        return left_ns - trace.root.start_ns
    first_ns = min(
        (
            span.end_ns
            for span_id, span in trace.spans.items()
            if trace.stages[span_id] is Stage.PREFILL
        ),
        default=None,
    )
    if first_ns is None:
        chunks_ns = (_first_chunk(span) for span in trace.spans.values())
        first_ns = min((time_ns for time_ns in chunks_ns if time_ns is not None), default=None)
    return None if first_ns is None else first_ns - trace.root.start_ns


def _first_chunk(span: Span) -> int | None:
    """When a span's first chunk came; None also for a time outside the span, for it is wrong."""
    seconds = span.attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    after_ns = seconds * _NS_PER_S
    if not 0 <= after_ns <= span.end_ns - span.start_ns:
        return None
    return span.start_ns + round(after_ns)


def _per_token(trace: Trace) -> int | None:
    """Decode time over the tokens after the first; None where no decode span tells its tokens."""
    decodes: list[Span] = []
    tellers: dict[str, Span] = {}  # one span may tell the tokens of several decode spans
    for span_id, span in trace.spans.items():
        if trace.stages[span_id] is Stage.DECODE:
            parent = trace.spans.get(span.parent_id or "")
            teller = span if parent is None or _count(span, _OUTPUT) is not None else parent
            if _count(teller, _OUTPUT):
                tellers[teller.span_id] = teller
                decodes.append(span)
    following = sum(_following_tokens(span) for span in tellers.values())
    return round(_decoded_ns(trace, decodes) / following) if following else None


def _decoded_ns(trace: Trace, decodes: list[Span]) -> int:
    """How long decode spans took; of one alone, from when its first token left for the caller."""
    left_ns = _first_chunk(trace.root)
    if len(decodes) == 1 and left_ns is not None and left_ns < decodes[0].end_ns:
        return decodes[0].end_ns - left_ns
    return sum(span.end_ns - span.start_ns for span in decodes)


def _following_tokens(span: Span) -> int:
    """Tokens after the first one, of each sequence: those of a batch are made together."""
    tokens = _count(span, _OUTPUT) or 0
    sequences = _count(span, (semconv.BATCH_SIZE,)) or 1
    return max(tokens // sequences - 1, 0)


def _total(spans: Iterable[Span], keys: tuple[str, ...]) -> int | None:
    counts = [count for count in (_count(span, keys) for span in spans) if count is not None]
    return sum(counts) if counts else None


def _count(span: Span, keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = span.attributes.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
