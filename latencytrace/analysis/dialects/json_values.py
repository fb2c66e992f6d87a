"""Values that senders write as JSON into texts."""

import json
from collections.abc import Mapping

from latencytrace.model import Span


def json_of(span: Span, key: str) -> object:
    """The value of an attribute that is JSON; None: it is none."""
    text = span.attributes.get(key)
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def count_of(counts: Mapping[str, object], keys: tuple[str, ...]) -> int | None:
    """The first number of some keys that is a count."""
    for key in keys:
        count = counts.get(key)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None
