"""Makes batches of the spans that wait: encoded, a few at a time, of one post each."""

from collections.abc import Callable, Sequence
from typing import Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.export.otlp_traces import OtlpEncoder, Part
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import started_here

Saw = Callable[[Sequence[RecordedSpan]], bool]
BATCH_SPANS: Final = 2048
BATCH_BYTES: Final = 4 << 20  # of one post; what a receiver over gRPC takes by default
# So long spans are encoded before a serving thread may have the interpreter, and so few or many.
_UNBROKEN_NS: Final = 200_000
_FEWEST_UNBROKEN: Final = 4
_MOST_UNBROKEN: Final = 128
_BACKLOG_SHARE: Final = 256  # of many that wait, this part at once


class Batch:
    """Spans that are sent in one post; of themselves only their bytes are kept."""

    __slots__ = ("length", "parts", "spans")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.spans = 0
        self.length = 0  # in bytes

    def takes(self, parts: Sequence[Part], spans: int) -> bool:
        """Take so many spans' parts, unless a post would be too long; a single one in any case."""
        length = self.length + sum(len(part) for _, part in parts)
        if length > BATCH_BYTES and self.spans + spans > 1:
            return False
        self.parts += parts
        self.spans += spans
        self.length = length
        return True


class Batches:
    """Takes spans off the queue and encodes them; used by one thread.

    Args:
        now_ns: A monotonic clock.
        saw: Gets the first spans, until it says that it needs no more; may be None.
    """

    def __init__(
        self,
        queue: SpanQueue,
        encoder: OtlpEncoder,
        on_fault: OnFault,
        pause: Callable[[], None],
        now_ns: Callable[[], int] = monotonic_ns,
        saw: Saw | None = None,
    ) -> None:
        self._queue = queue
        self._encoder = encoder
        self._on_fault = on_fault
        self._pause = pause
        self._now_ns = now_ns
        self._unbroken = _FEWEST_UNBROKEN  # spans that take about that long
        self._saw = saw
        self.dropped = 0  # spans that could not be encoded

    def fill(self, batch: Batch, most: int) -> int:
        """Encode spans for the next post, a few at a time.

        A thread that wants the interpreter meanwhile gets it at a pause; releasing many
        spans at once would keep it waiting, too. A program that never waits gives it back
        only after 5 ms, so that the more spans wait, the more are encoded at once.

        Returns:
            How many spans left the queue, of no more than `most`.
        """
        left, most = 0, min(most, BATCH_SPANS)
        while left < most:
            some = max(self._unbroken, len(self._queue) // _BACKLOG_SHARE)
            began_ns = self._now_ns()
            waiting = self._queue.take(min(most - left, some))
            here = [span for span in waiting if started_here(span)]
            if self._saw is not None:
                self._show(self._saw, here)
            added = self._add(here, batch)
            left += len(waiting) - len(here) + added
            if added < len(here) or not waiting:
                break
            self._learn(self._now_ns() - began_ns)
            self._pause()
        return left

    def _show(self, saw: Saw, spans: Sequence[RecordedSpan]) -> None:
        self._saw = None  # unless it wants more; after a fault it gets none
        with guarded("looking at the first spans", self._on_fault):
            if not saw(spans):
                self._saw = saw

    def _learn(self, took_ns: int) -> None:
        """Encode fewer at once from now on, or more, by how long some took."""
        if took_ns > _UNBROKEN_NS:
            self._unbroken = max(self._unbroken // 2, _FEWEST_UNBROKEN)
        elif took_ns < _UNBROKEN_NS // 2:
            self._unbroken = min(self._unbroken * 2, _MOST_UNBROKEN)

    def body(self, batch: Batch) -> bytes:
        return self._encoder.request(batch.parts)

    def _add(self, spans: list[RecordedSpan], batch: Batch) -> int:
        """Encode spans into a batch, as many as fit; the others wait again.

        Returns:
            How many do not wait.
        """
        while spans:
            parts, encoded = self._encoded(spans)
            if batch.takes(parts, encoded):
                self.dropped += len(spans) - encoded
                break
            middle = len(spans) // 2
            self._queue.put_back(spans[middle:])
            spans = spans[:middle]
        return len(spans)

    def _encoded(self, spans: list[RecordedSpan]) -> tuple[list[Part], int]:
        """Return the bytes of the spans that can be encoded, and how many those are."""
        with guarded("encoding spans", self._on_fault):
            return self._encoder.parts(spans), len(spans)
        parts: list[Part] = []
        encoded = 0
        for span in spans:
            with guarded("encoding a span", self._on_fault):
                parts += self._encoder.parts([span])
                encoded += 1
        return parts, encoded
