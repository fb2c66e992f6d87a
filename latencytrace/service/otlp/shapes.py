"""The numbers of shapes (see `model.span_batch`) by hash, for compiled code to look up."""

import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.keys import COUNTS, PACKED, is_read
from latencytrace.model import AttributeValue, Span
from latencytrace.service.otlp.span_block import NO_SHAPE

MOST_SHAPES: Final = 1 << 14
_SLOTS: Final = 1 << 18  # for hashes: a shape has one for each order of its attributes
_MOST_HASHES: Final = _SLOTS // 4


class Shapes:
    """Numbers shapes in the order in which they come, up to a bound."""

    def __init__(self, most: int = MOST_SHAPES) -> None:
        self.spans: list[Span] = []
        self.known = np.zeros(_SLOTS, np.int64)  # hashes; 0: free
        self.numbers: NDArray[np.int32] = np.zeros(_SLOTS, np.int32)
        self._most = most
        self._hashes = 0
        self._places: dict[object, int] = {}
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether no new shape gets a number."""
        return len(self.spans) >= self._most or self._hashes >= _MOST_HASHES

    def number(self, span: Span) -> int:
        """The number of a span's shape; -1: none is left."""
        shape = shape_of(span)
        with self._lock:
            number = self._places.get(shape, NO_SHAPE)
            if number == NO_SHAPE and len(self.spans) < self._most:
                number = self._places[shape] = len(self.spans)
                self.spans.append(span)
            return number

    def add(self, found: int, number: int) -> None:
        """Remember under which hash compiled code finds a number."""
        if number == NO_SHAPE:
            return
        with self._lock:
            mask = _SLOTS - 1
            place = (found >> 20) & mask
            while self.known[place] not in (0, found):
                place = (place + 1) & mask
            if self._hashes < _MOST_HASHES and not self.known[place]:
                self._hashes += 1
                self.numbers[place] = number  # before its hash can be found
                self.known[place] = found


def shape_of(span: Span) -> object:
    """The part of a span that belongs to its shape, to be compared."""
    return (
        span.name, span.kind, span.service, span.instance, span.host, span.version, span.scope,
        span.status,
        tuple(_attribute(*pair) for pair in span.attributes.items() if is_read(pair[0])),
        tuple(
            (event.name, tuple(_attribute(*pair) for pair in event.attributes.items()))
            for event in span.events
        ),
        tuple(tuple(map(repr, link.attributes.items())) for link in span.links),
    )  # fmt: skip


def _attribute(key: str, value: AttributeValue) -> object:
    if key in COUNTS and type(value) is int:
        return (key, int)
    if key in PACKED and type(value) in _PACKED_TYPES:
        return (key, type(value))
    # As text: True is no 1, and NaN is itself.
    return (key, value) if type(value) is str else (key, type(value), repr(value))


_PACKED_TYPES = frozenset({str, bytes, int, float})

SHAPES: Final = Shapes()
"""Those of this process."""
