"""The numbers of shapes (see `model.span_batch`) by hash, for compiled code to look up."""

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.keys import COUNTS, MOST_VALUES, PACKED, is_read, may_vary
from latencytrace.analysis.columns.shapes import MOST_KEYS, MOST_SHAPES
from latencytrace.model import Attributes, AttributeValue, Span
from latencytrace.service.otlp.span_block import NO_SHAPE

MOST_NEW_SHAPES: Final = 256  # of one block: what has more has a key whose values all differ
RENEWED_AFTER_SPANS: Final = 1_000_000  # to find out about all shapes anew takes some seconds
_SLOTS: Final = 1 << 18  # for hashes: a shape has one for each order of its attributes
_MOST_HASHES: Final = _SLOTS // 4

VARYING: Final = (*sorted(COUNTS), *sorted(PACKED))
_CODES: Final[Mapping[bytes, int]] = {
    key.encode(): code for code, key in enumerate(VARYING, start=1)
}


class Tables(NamedTuple):
    """The numbers of one generation, for compiled code."""

    generation: int
    known: NDArray[np.int64]  # hashes; 0: free
    numbers: NDArray[np.int32]  # and one; 0: another processor sees the hash first

    @classmethod
    def empty(cls, generation: int) -> Self:
        """Tables that nothing is in."""
        return cls(generation, np.zeros(_SLOTS, np.int64), np.zeros(_SLOTS, np.int32))


class Shapes:
    """Numbers shapes in the order in which they come, up to a bound.

    Once so many spans found none left, all are forgotten, and another generation begins: numbers
    of one mean nothing in the next.
    """

    def __init__(self, most: int = MOST_SHAPES) -> None:
        self.spans: list[Span] = []
        self.learned: frozenset[str] = frozenset()  # keys that had many values; another set each
        self.varying = list(VARYING)  # by code, less one
        self._values: dict[str, set[object]] = defaultdict(set)
        self.tables = Tables.empty(0)
        self._most = most
        self._hashes = 0
        self._places: dict[object, int] = {}
        self._left_out = 0  # spans
        self._lock = threading.Lock()

    @property
    def generation(self) -> int:
        """The generation of the numbers that are handed out."""
        return self.tables.generation

    def renew(self, left_out: int) -> None:
        """Begin another generation if it is time; called by who works with the numbers.

        Args:
            left_out: Spans that found none left, since this was called last.
        """
        with self._lock:
            self._left_out += left_out
            if self._left_out < RENEWED_AFTER_SPANS or not self.is_full:
                return
            self.tables = Tables.empty(self.generation + 1)
            self.spans = []
            self._values.clear()
            self._places = {}
            self._hashes = self._left_out = 0

    @property
    def is_full(self) -> bool:
        """Return whether no new shape gets a number."""
        return len(self.spans) >= self._most or self._hashes >= _MOST_HASHES

    def number(self, span: Span, learned: frozenset[str], generation: int) -> int:
        """The number of a span's shape; -1: none is left.

        Args:
            span: Any.
            learned: The keys that vary in its block, as they were known when that was decoded.
            generation: Of the other numbers in its block.
        """
        shape = shape_of(span, learned)
        with self._lock:
            if generation != self.generation:
                return NO_SHAPE
            number = self._places.get(shape, NO_SHAPE)
            if number == NO_SHAPE and len(self.spans) < self._most:
                number = self._places[shape] = len(self.spans)
                self.spans.append(span)
                self._learn(span)
            return number

    def code(self, key: bytes, learned: frozenset[str]) -> int:
        """The code of a key that varies; 0 of all others."""
        code = _CODES.get(key, 0)
        if code or not learned:
            return code
        text = key.decode()
        return self.varying.index(text) + 1 if text in learned else 0

    def _learn(self, span: Span) -> None:
        """Note the values of a new shape, so that keys with many vary from the next block on."""
        for key, value in span.attributes.items():
            if key in PACKED or key in self.learned or not may_vary(key):
                continue
            if key in self._values or len(self._values) < MOST_KEYS:
                self._values[key].add(_attribute(key, value, frozenset()))
            if len(self._values[key]) > MOST_VALUES:
                self.varying.append(key)  # before it is known to vary
                self.learned |= {key}
                del self._values[key]

    def add(self, found: int, number: int, generation: int) -> None:
        """Remember under which hash compiled code finds a number."""
        if number == NO_SHAPE:
            return
        with self._lock:
            if generation != self.generation:
                return
            known = self.tables.known
            mask = _SLOTS - 1
            place = (found >> 20) & mask
            while known[place] not in (0, found):
                place = (place + 1) & mask
            if self._hashes < _MOST_HASHES and not known[place]:
                self._hashes += 1
                self.tables.numbers[place] = number + 1
                known[place] = found


def shape_of(span: Span, learned: frozenset[str] = frozenset()) -> object:
    """The part of a span that belongs to its shape, to be compared."""
    return (
        span.name, span.kind, span.service, span.instance, span.host, span.version, span.scope,
        span.status,
        _read(span.attributes, learned),
        tuple((event.name, _read(event.attributes, learned)) for event in span.events),
        tuple(_read(link.attributes, learned) for link in span.links),
    )  # fmt: skip


def _read(attributes: Attributes, learned: frozenset[str]) -> tuple[object, ...]:
    return tuple(
        _attribute(key, value, learned) for key, value in attributes.items() if is_read(key)
    )


def _attribute(key: str, value: AttributeValue, learned: frozenset[str]) -> object:
    if key in COUNTS and type(value) is int:
        return (key, int)
    if (key in PACKED or key in learned) and type(value) in _PACKED_TYPES:
        return (key, type(value))
    # As text: True is no 1, and NaN is itself.
    return (key, value) if type(value) is str else (key, type(value), repr(value))


_PACKED_TYPES = frozenset({str, bytes, int, float})

SHAPES: Final = Shapes()
"""Those of this process."""
