"""The shapes of spans: what they have in common apart from ids, times and varying values."""

from collections.abc import Iterator
from typing import Final

from latencytrace.analysis.columns.keys import COUNTS, is_read, varies
from latencytrace.model import AttributeValue, Span

MOST_SHAPES: Final = 16_384

_Shape = tuple[object, ...]
_VARIES = ""  # in the place of a value, which is written as `repr` does


class Shapes:
    """Numbers shapes from 0 on, always the same for the same one.

    Args:
        most: How many; spans of further ones have none.
    """

    def __init__(self, most: int = MOST_SHAPES) -> None:
        self.spans: list[Span] = []
        self._most = most
        self._numbers: dict[_Shape, int] = {}

    def number(self, span: Span) -> int:
        """The number of a span's shape; -1: none is left."""
        shape = _shape(span)
        number = self._numbers.get(shape, -1)
        if number < 0 and len(self.spans) < self._most:
            number = self._numbers[shape] = len(self.spans)
            self.spans.append(span)
        return number

    def varying(self, span: Span) -> Iterator[tuple[str, int | None, AttributeValue]]:
        """The attributes that do not belong to a span's shape: key, count, or else value."""
        for key, value in span.attributes.items():
            if is_read(key) and varies(key, value):
                count = value if key in COUNTS and isinstance(value, int) else None
                yield key, count, value


def _shape(span: Span) -> _Shape:
    return (
        span.name,
        span.kind,
        span.service,
        span.instance,
        span.host,
        span.version,
        span.scope,
        span.status,
        tuple(
            (key, _VARIES if varies(key, value) else repr(value))
            for key, value in span.attributes.items()
            if is_read(key)
        ),
        tuple(event.name for event in span.events),
        bool(span.links),
    )
