"""Langfuse: model, tokens and the time of the first token, written as JSON in attributes."""

import json
from datetime import UTC, datetime, timedelta

from latencytrace.analysis.dialects.engine import Engine, Generation
from latencytrace.model import Span, semconv

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_INPUT = ("input", "prompt_tokens", "input_tokens")
_OUTPUT = ("output", "completion_tokens", "output_tokens")
_CACHED = ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read")


def _knows(span: Span) -> bool:
    return semconv.LANGFUSE_TYPE in span.attributes


def _generation(span: Span) -> Generation:
    usage = _json(span, semconv.LANGFUSE_USAGE)
    counts = usage if isinstance(usage, dict) else {}
    model = span.attributes.get(semconv.LANGFUSE_MODEL)
    return Generation(
        first_token_ns=_first_token(span),
        model=model if isinstance(model, str) else None,
        input_tokens=_count(counts, _INPUT),
        cached_input_tokens=_count(counts, _CACHED),
        output_tokens=_count(counts, _OUTPUT),
    )


def _json(span: Span, key: str) -> object:
    text = span.attributes.get(key)
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _count(counts: dict[str, object], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        count = counts.get(key)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None


def _first_token(span: Span) -> int | None:
    text = _json(span, semconv.LANGFUSE_GENERATION_BEGAN)
    if text is None:  # some write it bare
        text = span.attributes.get(semconv.LANGFUSE_GENERATION_BEGAN)
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if at is None or at.tzinfo is None:
        return None
    return (at - _EPOCH) // _MICROSECOND * 1_000 - span.start_ns


ENGINE = Engine(name="Langfuse", scopes=("langfuse",), knows=_knows, generation=_generation)
