"""The facts of a generation that a span reports, under any convention or in its engine's words."""

import json
from dataclasses import dataclass

from latencytrace.analysis.dialects.engine import Generation
from latencytrace.analysis.trace.known_engines import generation_of, may_be_of_engine
from latencytrace.model import AttributeValue, Span, semconv

_NS_PER_S = 1_000_000_000
_MOST = 1 << 40  # of what a span counts; the sums of all spans of a trace fit a column


@dataclass(frozen=True, slots=True)
class Said:
    """A thing that spans say: its attributes, and its place in what engines tell."""

    keys: tuple[str, ...]  # new names first, then old ones and those of OpenInference
    reported: str | None = None  # the field of `Generation`


INPUT = Said(
    (
        semconv.GEN_AI_USAGE_INPUT_TOKENS,
        semconv.GEN_AI_USAGE_INPUT_TOKENS_OLD,
        semconv.OPENINFERENCE_INPUT_TOKENS,
    ),
    "input_tokens",
)
OUTPUT = Said(
    (
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS_OLD,
        semconv.OPENINFERENCE_OUTPUT_TOKENS,
    ),
    "output_tokens",
)
CACHED = Said(
    (
        semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS,
        semconv.GEN_AI_USAGE_CACHE_READ_TOKENS_OLD,
        semconv.GEN_AI_USAGE_CACHED_TOKENS_OLD,
        semconv.OPENINFERENCE_CACHED_INPUT_TOKENS,
    ),
    "cached_input_tokens",
)
MODEL = Said(
    (
        semconv.GEN_AI_REQUEST_MODEL,
        semconv.GEN_AI_RESPONSE_MODEL,
        semconv.OPENINFERENCE_MODEL,
        semconv.OPENINFERENCE_EMBEDDING_MODEL,
        semconv.TRITON_MODEL_NAME,
    ),
    "model",
)
FINISH_REASON = Said(
    (semconv.GEN_AI_RESPONSE_FINISH_REASONS, semconv.OPENINFERENCE_FINISH_REASON),
    "finish_reason",
)
BATCH_SIZE = Said((semconv.BATCH_SIZE,), "batch_size")
SEQUENCES = Said((semconv.BATCH_SIZE, semconv.GEN_AI_REQUEST_CHOICES, semconv.GEN_AI_REQUEST_N))

TELLING = frozenset(
    (
        *(
            key
            for said in (INPUT, OUTPUT, CACHED, MODEL, FINISH_REASON, SEQUENCES)
            for key in said.keys
        ),
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        semconv.LATENCY_TO_FIRST,
    )
)
FIRST_TOKEN_EVENTS = frozenset(
    {
        "First Token Stream Event",  # OpenInference
        "gen_ai.content.completion.chunk",  # OpenLLMetry, one a chunk
        "llm.content.completion.chunk",  # the same by its old name
    }
)


def tells(span: Span) -> bool:
    """Return whether a span may say anything of a generation; most do not."""
    return bool(span.events) or not TELLING.isdisjoint(span.attributes) or may_be_of_engine(span)


def value(span: Span, said: Said, generation: Generation | None = None) -> AttributeValue:
    """Return what a span says, of a list the first; None: nothing.

    Args:
        generation: What `generation_of` says of the span, where the caller has it.
    """
    for key in said.keys:
        found = meant(span.attributes.get(key))
        if found is not None:
            return found
    return _reported(span, said, generation)


def meant(found: AttributeValue) -> AttributeValue:
    """Return what one attribute says, of a list its first item; None: nothing."""
    if isinstance(found, str) and found[:1] in {"[", '"'}:
        found = _first_of_json(found)
    if isinstance(found, tuple):
        found = found[0] if found else None
    return None if found == "" else found


def count(span: Span, said: Said, generation: Generation | None = None) -> int | None:
    """The number that a span says, read by `value`; None also for one that cannot be."""
    for key in said.keys:
        found = count_in(span.attributes.get(key))
        if found is not None:
            return found
    return count_in(_reported(span, said, generation))


def count_in(found: AttributeValue) -> int | None:
    """The number that a value is; None: it is none, or one that cannot be."""
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST
    return found if is_count and isinstance(found, int) else None


def first_token(span: Span) -> int | None:
    """Return the time of a span's first token; None also for one outside it, which is wrong."""
    return _within(span, _first_token_after(span))


def reported_first_token(span: Span) -> int | None:
    """Return when the first token came in the words of the engine or the instrumentation."""
    return _within(span, generation_of(span).first_token_ns)


def callers_first_token(span: Span) -> int | None:
    """Return when the first token left for the caller of a span; None also where it is wrong."""
    after_ns = _seconds(span, semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
    if after_ns is None:
        after_ns = after_events(span)
    return _within(span, after_ns)


def first_body(span: Span) -> int | None:
    """Return when the first body that was not empty left, of an answer of unknown form."""
    after_ns = span.attributes.get(semconv.STREAMED_FIRST_BODY)
    return _within(span, after_ns) if type(after_ns) is int else None


def engines_first_token(span: Span) -> int | None:
    """Return when the first token came as the engine itself says, not its caller."""
    return _within(span, _seconds(span, semconv.LATENCY_TO_FIRST))


def _within(span: Span, after_ns: int | None) -> int | None:
    if after_ns is None or not 0 <= after_ns <= span.end_ns - span.start_ns:
        return None
    return span.start_ns + after_ns


def _reported(span: Span, said: Said, generation: Generation | None) -> AttributeValue:
    if said.reported is None:
        return None
    found: AttributeValue = getattr(generation or generation_of(span), said.reported)
    return found


def _first_of_json(text: str) -> AttributeValue:
    """Of a list that was written as JSON its first text; SGLang and LiteLLM do so."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(found, list):
        found = found[0] if found else None
    return found if isinstance(found, str) else None


def _first_token_after(span: Span) -> int | None:
    for key in (
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        semconv.LATENCY_TO_FIRST,
    ):
        after_ns = _seconds(span, key)
        if after_ns is not None:
            return after_ns
    after_ns = after_events(span)
    return generation_of(span).first_token_ns if after_ns is None else after_ns


def after_events(span: Span) -> int | None:
    """Return how long after a span's start its events say that the first token came."""
    times_ns = [event.time_ns for event in span.events if event.name in FIRST_TOKEN_EVENTS]
    return min(times_ns) - span.start_ns if times_ns else None


def _seconds(span: Span, key: str) -> int | None:
    return in_ns(span.attributes.get(key))


def in_ns(seconds: AttributeValue) -> int | None:
    """A number of seconds in ns; None: it is none, or more than there is time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    after_ns = seconds * _NS_PER_S
    return round(after_ns) if abs(after_ns) < 1 << 63 else None  # neither infinite nor no number
