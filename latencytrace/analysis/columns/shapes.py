"""The shapes of spans: what they have in common apart from ids, times and varying values."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from latencytrace.analysis.columns.keys import (
    COUNTS,
    MOST_VALUES,
    is_read,
    may_vary,
    varies,
)
from latencytrace.model import Span
from latencytrace.model.span_batch import Varying

MOST_SHAPES: Final = 16_384
MOST_KEYS: Final = 1_024  # that values are counted of

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
        self._values: dict[str, set[str]] = defaultdict(set)  # seen, of keys that may vary
        self._learned: set[str] = set()  # those that had many values

    def read(self, span: Span) -> tuple[int, Sequence[Varying]]:
        """The number of a span's shape, -1 if none is left; and what does not belong to it."""
        varying: list[Varying] = []
        reported: list[tuple[str, str]] = []
        for key, value in span.attributes.items():
            if not is_read(key):
                continue
            if varies(key, value, self._learned):
                count = value if key in COUNTS and isinstance(value, int) else None
                varying.append((key, count, value))
                reported.append((key, _VARIES))
            else:
                reported.append((key, repr(value)))
        shape = (
            span.name,
            span.kind,
            span.service,
            span.instance,
            span.host,
            span.version,
            span.scope,
            span.status,
            tuple(reported),
            tuple(event.name for event in span.events),
            bool(span.links),
        )
        number = self._numbers.get(shape, -1)
        if number < 0:
            if len(self.spans) < self._most:
                number = self._numbers[shape] = len(self.spans)
                self.spans.append(span)
            self._learn(reported)
        return number, varying

    def _learn(self, reported: Iterable[tuple[str, str]]) -> None:
        """Note the values of a new shape, so that keys with many vary from the next span on."""
        for key, value in reported:
            if value == _VARIES or key in self._learned or not may_vary(key):
                continue
            if key in self._values or len(self._values) < MOST_KEYS:
                self._values[key].add(value)
            if len(self._values[key]) > MOST_VALUES:
                self._learned.add(key)
                del self._values[key]
