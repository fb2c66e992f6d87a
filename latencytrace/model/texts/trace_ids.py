"""Trace ids as people paste them."""

import re
from typing import Final

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def written_trace_id(text: str) -> str:
    """The trace id, or the beginning of one, that was typed; of a `traceparent` its own."""
    written = text.strip().lower()
    parent = _TRACEPARENT.fullmatch(written)
    return parent[1] if parent else written
