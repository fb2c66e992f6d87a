"""Langfuse: model, tokens and the time of the first token, written as JSON in attributes."""

from latencytrace.analysis.dialects.engine import Engine, Generation, count_of, json_of, text_of
from latencytrace.analysis.dialects.engine_times import Reading
from latencytrace.model import Span, semconv

_INPUT = ("input", "prompt_tokens", "input_tokens")
_OUTPUT = ("output", "completion_tokens", "output_tokens")
_CACHED = ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read")


def _knows(span: Span) -> bool:
    return semconv.LANGFUSE_TYPE in span.attributes


def _generation(span: Span) -> Generation:
    usage = json_of(span, semconv.LANGFUSE_USAGE)
    counts = usage if isinstance(usage, dict) else {}
    return Generation(
        first_token_ns=Reading(span).moment(semconv.LANGFUSE_GENERATION_BEGAN),
        model=text_of(span.attributes, semconv.LANGFUSE_MODEL),
        input_tokens=count_of(counts, *_INPUT),
        cached_input_tokens=count_of(counts, *_CACHED),
        output_tokens=count_of(counts, *_OUTPUT),
    )


ENGINE = Engine(
    name="Langfuse",
    scopes=("langfuse",),
    knows=_knows,
    generation=_generation,
    reported_in=frozenset(
        {semconv.LANGFUSE_USAGE, semconv.LANGFUSE_MODEL, semconv.LANGFUSE_GENERATION_BEGAN}
    ),
)
