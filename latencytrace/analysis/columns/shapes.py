"""The numbers of shapes: of what rules decide by."""

from typing import Final

from latencytrace.analysis.columns.ruled import ruled
from latencytrace.model import Span

MOST_SHAPES: Final = 16_384
NO_SHAPE: Final = -1


class Shapes:
    """Numbers shapes from 0 on, always the same for the same one.

    Args:
        most: How many; spans of further ones have none.
    """

    def __init__(self, most: int = MOST_SHAPES) -> None:
        self.spans: list[Span] = []  # by number, one of each
        self._most = most
        self._numbers: dict[str, int] = {}

    def number(self, span: Span) -> int:
        """The number of a span's shape; `NO_SHAPE`: none is left."""
        found = ruled(span)
        # As text: True is no 1, and NaN is itself.
        shape = repr(found)
        number = self._numbers.get(shape, NO_SHAPE)
        if number == NO_SHAPE and len(self.spans) < self._most:
            number = self._numbers[shape] = len(self.spans)
            self.spans.append(found)
        return number
