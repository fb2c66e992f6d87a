"""Ended spans that wait to be sent: bounded in number and in bytes, drops counted.

Speed is the point here: a span that ends costs one comparison and one append. While few
wait, their bytes are counted by the background thread, whenever it looks; beyond, each is
weighed where it ends.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final

from latencytrace.agent.compiled.core import core, quicker
from latencytrace.agent.native import RLock
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.spans.span import RecordedSpan

UNWEIGHED_SPANS: Final = 4096  # that may wait before each is weighed where it ends
_SPAN: Final = 500  # bytes, about, as the next
_VALUE: Final = 60


class SpanQueue:
    """Filled by any thread, emptied by one.

    Args:
        most_spans: How many may wait.
        most_bytes: About how many bytes they may hold.
    """

    __slots__ = (
        "_bytes",
        "_drops",
        "_first",
        "_free",
        "_lock",
        "_most_bytes",
        "_reads",
        "_spans",
        "_weights",
        "most_spans",
    )

    def __init__(self, most_spans: int, most_bytes: int) -> None:
        self.most_spans = most_spans
        self._most_bytes = most_bytes
        self._spans: deque[RecordedSpan] = deque()
        self._free = min(UNWEIGHED_SPANS, most_spans)
        self._bytes = 0  # of the spans that were weighed
        self._weights: dict[int, int] = {}  # by the span's identity
        # Reentrant: a signal or the garbage collector may end a span in the middle of any of this.
        self._lock = RLock()
        self._drops = count()
        self._reads = 0  # of the number of drops, each of which draws one, too
        self._first: Callable[[], object] | None = None  # None: called already, or none is set

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def dropped(self) -> int:
        """Count the spans that found no place."""
        with self._lock:
            self._reads += 1
            return next(self._drops) - self._reads + 1

    @property
    def weighed_bytes(self) -> int:
        """Return about how many bytes wait, as far as they were counted."""
        return self._bytes

    @quicker("queue_on_end")
    def on_end(self, span: RecordedSpan) -> None:
        """Take an ended span, or drop and count it; never waits for the receiver."""
        if len(self._spans) < self._free:
            self._spans.append(span)
        else:
            self._put_weighed(span)

    def some(self, most: int) -> list[RecordedSpan]:
        """Return a few spans that wait; for the thread that empties the queue."""
        return [self._spans[number] for number in range(min(len(self._spans), most))]

    def take(self, most: int) -> list[RecordedSpan]:
        """Return the oldest spans, no more than so many."""
        taken = [self._spans.popleft() for _ in range(min(len(self._spans), most))]
        if self._weights:
            with self._lock:
                for span in taken:
                    self._bytes -= self._weights.pop(id(span), 0)
        return taken

    def put_back(self, spans: Sequence[RecordedSpan]) -> None:
        """Let spans that were taken wait again, before all others."""
        self._spans.extendleft(reversed(spans))

    def weigh(self) -> None:
        """Count the bytes of what waits; if they are too many, the next spans are dropped."""
        for number in range(min(len(self._spans), UNWEIGHED_SPANS)):
            span = self._spans[number]
            if id(span) not in self._weights:
                self._count(span, weight_of(span))
        if not self._weights:
            self._bytes = 0
        full = self._bytes >= self._most_bytes
        self._free = 0 if full else min(UNWEIGHED_SPANS, self.most_spans)

    def reset(self, first: Callable[[], object]) -> None:
        """In a forked child: nothing waits, and nothing was dropped.

        Args:
            first: Called where the first span ends.
        """
        self.__init__(self.most_spans, self._most_bytes)  # type: ignore[misc]  # as it was made
        self._first, self._free = first, 0

    def _put_weighed(self, span: RecordedSpan) -> None:
        if self._first is not None:
            self._call_first()
        weight = weight_of(span)
        fits = len(self._spans) < self.most_spans and self._bytes + weight <= self._most_bytes
        if not fits:
            next(self._drops)  # which no other thread can come in between of
            return
        self._count(span, weight)
        self._spans.append(span)

    def _call_first(self) -> None:
        with self._lock:
            first, self._first = self._first, None
            if first is not None:
                self._free = min(UNWEIGHED_SPANS, self.most_spans)
                first()

    def _count(self, span: RecordedSpan, weight: int) -> None:
        with self._lock:
            self._weights[id(span)] = weight
            self._bytes += weight


if core is not None:
    core.bind_queue(SpanQueue)


def weight_of(span: RecordedSpan) -> int:
    """Return about how many bytes an ended span keeps in memory; texts count in full."""
    weight = _SPAN
    if span.raw_attributes:
        weight += _mapping(span.raw_attributes)
    if span.details is not None:
        weight += sum(_SPAN + _mapping(attributes) for _, _, attributes in span.details.events)
        weight += sum(_SPAN + _mapping(attributes) for _, attributes in span.details.links)
    return weight


def _mapping(attributes: Mapping[str, object]) -> int:
    weight = _VALUE * len(attributes)
    for value in attributes.values():
        if type(value) is str or type(value) is bytes:
            weight += len(value)
        elif type(value) is tuple or type(value) is dict:
            weight += _container(value)
        elif type(value) is Deferred:
            weight += value.weight
    return weight


def _container(value: object) -> int:
    match value:
        case str() | bytes():
            return _VALUE + len(value)
        case tuple():
            return _VALUE + sum(map(_container, value))
        case dict():
            return _VALUE + sum(map(_container, value)) + sum(map(_container, value.values()))
        case _:
            return _VALUE
