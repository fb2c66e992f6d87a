"""Traits of requests as people say them."""

from typing import Final

from latencytrace.model import semconv

_NAMED: Final = frozenset(
    {
        "input_tokens", "cached_input_tokens", "output_tokens", "batch_size", "queue_depth",
        "finish_reason",
    }
)  # fmt: skip


def trait_text(key: str, value: str) -> str:
    """A trait in words: `input tokens over 882`; what a user named, by that name."""
    if key == "cold_start":
        return "a cold start"
    if key == semconv.BATCH_SIZE:
        return f"batch size {value}"
    is_ours = key in _NAMED or key.startswith("engine_")
    return f"{key.replace('_', ' ') if is_ours else key} {value}"
