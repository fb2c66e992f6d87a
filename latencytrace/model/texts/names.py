"""Names that senders left empty, or blank: they have one name that can be seen and asked for."""

import re
from typing import Final

from latencytrace.model.texts.escaped import is_fit

UNNAMED: Final = "unnamed"

_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters that have no shape


def is_blank(text: str) -> bool:
    """Return whether nothing of a text can be seen."""
    return all(one.isspace() or one in _FILLERS or not is_fit(one) for one in text)


def named(text: str) -> str:
    """Return a name, or `UNNAMED` in the place of a blank one."""
    return UNNAMED if is_blank(text) else text


_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def written_trace_id(text: str) -> str:
    """The trace id, or the beginning of one, that was typed; of a `traceparent` its own."""
    written = text.strip().lower()
    parent = _TRACEPARENT.fullmatch(written)
    return parent[1] if parent else written
