"""The attributes that the analysis reads, by how columns hold them."""

from latencytrace.model import semconv

COUNTS = frozenset(
    {
        semconv.GEN_AI_USAGE_INPUT_TOKENS,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    }
)
"""Integers that differ from span to span; a value of another type belongs to the shape."""

PACKED = frozenset({semconv.INTERVALS, semconv.TOKEN_TIMES, semconv.RUNTIME_GAPS})
"""Texts and bytes that hold times."""


def is_read(key: str) -> bool:
    """Whether a rule of the analysis reads an attribute of this name, below the root."""
    return bool(key)
