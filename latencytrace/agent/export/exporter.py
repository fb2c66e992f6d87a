"""Takes ended spans off the serving threads and sends them as OTLP.

A bounded queue, one background thread, a kept-alive connection, retries with
back-off; what does not fit is dropped and counted, never waited for.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from latencytrace.agent.clock import cpu_ns, monotonic_ns
from latencytrace.agent.export.gil_yield import Breath, yielding
from latencytrace.agent.export.otlp_traces import OtlpEncoder, Part
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.export.transport import Sender
from latencytrace.agent.guard import OnFault, guarded, logger
from latencytrace.agent.process.background import background_thread, join
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import started_here

BATCH_SPANS = 2048
BATCH_BYTES = 4 << 20  # of one post; what a receiver over gRPC takes unless told otherwise
_UNBROKEN_SPANS = 12  # that are encoded before a serving thread may have the interpreter
_BACKLOG_SHARE = 256  # of many that wait, this part at once; see `_gather`
_RETRIED = frozenset({408, 429, 502, 503, 504})  # the OTLP specification's, and 408
_FIRST_BACK_OFF_S = 0.5
_LONGEST_BACK_OFF_S = 30.0
_WEIGH_EVERY_S = 0.5  # while nobody takes spans


@dataclass(slots=True)
class ExportCounts:
    """What became of the spans that were handed in."""

    sent: int = 0
    dropped: int = 0
    in_flight: int = 0
    export_cpu_ns: int = 0  # of which
    encode_cpu_ns: int = 0
    last_error: str | None = None


class _Fate(Enum):
    SENT = "sent"
    REFUSED = "refused"  # for good: it would be refused again
    LATER = "later"  # nobody takes it now


@dataclass(slots=True)
class _Batch:
    """Spans that are sent in one post; of themselves only their bytes are kept."""

    parts: list[Part] = field(default_factory=list)
    spans: int = 0
    length: int = 0  # in bytes

    def takes(self, parts: Sequence[Part], spans: int) -> bool:
        """Take so many spans' parts, unless a post would be too long; a single one in any case."""
        length = self.length + sum(len(part) for _, part in parts)
        if length > BATCH_BYTES and self.spans + spans > 1:
            return False
        self.parts += parts
        self.spans += spans
        self.length = length
        return True


class _Flush:
    """Somebody who waits until what has ended by now is sent."""

    __slots__ = ("done", "sent")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.sent = False


class Exporter:
    """Holds ended spans until a background thread has sent them.

    Args:
        encoder: Makes OTLP of them.
        sender: Where they go.
        queue: Where spans wait; what finds no place there is dropped and counted.
        interval_s: How long spans wait for company.
        after_round: Called on the background thread after each round of sending.
        wait: Waits for an event, or for so many seconds.
        now_ns: A monotonic clock, which goes on while it waits.
    """

    def __init__(  # noqa: PLR0913 - what it is told, each by name
        self,
        encoder: OtlpEncoder,
        sender: Sender,
        *,
        queue: SpanQueue,
        interval_s: float,
        on_fault: OnFault,
        after_round: Callable[[], None] = lambda: None,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._counts = ExportCounts()
        self._encoder = encoder
        self._sender = sender
        self._queue = queue
        self.ended = queue.put  # takes an ended span, on the serving thread
        self._interval_s = interval_s
        self._on_fault = on_fault
        self._after_round = after_round
        self._wait = wait
        self._now_ns = now_ns
        self._breathe = Breath(yielding())
        self._batch: _Batch | None = None  # on its way, or taken by nobody yet
        self._unreachable = False
        self._refusal: str | None = None  # the last that was logged
        self._start_thread()

    @property
    def counts(self) -> ExportCounts:
        """What became of the spans so far."""
        return replace(self._counts, dropped=self._counts.dropped + self._queue.dropped)

    @property
    def queued(self) -> int:
        """How many spans wait to be sent."""
        return len(self._queue)

    def flush(self, timeout_s: float) -> bool:
        """Send what waits now.

        Returns:
            Whether everything that had ended before the call was sent in time.
        """
        if not self._thread.is_alive():
            return not self._queue and self._batch is None
        flush = _Flush()
        self._flushes.append(flush)
        self._wake.set()
        return flush.done.wait(timeout_s) and flush.sent

    def stop(self, timeout_s: float) -> bool:
        """Send what waits and end the thread."""
        sent = self.flush(timeout_s)
        self._stopping = True
        self._wake.set()
        join(self._thread, timeout_s)
        return sent

    def reset_after_fork(self, encoder: OtlpEncoder) -> None:
        """In a forked child: keep none of the parent's spans, and start a thread anew."""
        self._encoder = encoder
        self._batch = None
        self._queue.reset()
        self._counts = ExportCounts()
        self._sender.close()
        self._start_thread()

    def _start_thread(self) -> None:
        self._wake = threading.Event()
        self._flushes: deque[_Flush] = deque()
        self._stopping = False
        self._thread = background_thread(self._run, "latencytrace-export")

    def _run(self) -> None:
        rest = (
            ("weighing what waits", self._queue.weigh),
            ("reporting on the export", self._after_round),
        )
        while not self._stopping:
            self._wait(self._wake, self._interval_s)
            self._wake.clear()
            # Who flushes may end the program next: what is to be told is told first.
            may_end = bool(self._flushes)
            self._send_queue()
            for doing, do in rest:
                with guarded(doing, self._on_fault):
                    if not may_end:
                        self._breathe()
                    do()
        self._sender.close()

    def _send_queue(self) -> None:
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        sent = False
        with guarded("exporting spans", self._on_fault):
            sent = self._send_batches(patient=not flushes)
        for flush in flushes:  # nobody waits longer for a fault of ours
            flush.sent = sent
            flush.done.set()

    def _send_batches(self, *, patient: bool) -> bool:
        """Send what waits now; whether all of it was taken."""
        sent, left = True, len(self._queue)
        while self._batch is not None or (left > 0 and self._queue):
            if self._batch is None:
                self._batch = _Batch()
                left -= self._gather(self._batch, min(left, BATCH_SPANS))
            fate = self._send(self._batch, patient=patient)
            sent = sent and fate is _Fate.SENT
            if fate is _Fate.LATER:
                break
        return sent

    def _gather(self, batch: _Batch, most: int) -> int:
        """Encode spans for the next post, a few at a time.

        A thread that wants the interpreter meanwhile gets it at a pause; letting go of many
        spans at once would keep it waiting, too. A program that never waits gives it back
        only after 5 ms, so that the more spans wait, the more are encoded at once.

        Returns:
            How many spans left the queue.
        """
        began_ns, left, added = cpu_ns(), 0, 0
        try:
            while left < most:
                some = max(_UNBROKEN_SPANS, len(self._queue) // _BACKLOG_SHARE)
                taken = self._queue.take(min(most - left, some))
                here = [span for span in taken if started_here(span)]
                added = self._add(here, batch)
                left += len(taken) - len(here) + added
                self._counts.in_flight = batch.spans
                if added < len(here) or not taken:
                    break
                self._breathe()
        finally:
            self._counts.encode_cpu_ns += cpu_ns() - began_ns
            self._counts.export_cpu_ns += cpu_ns() - began_ns
        return left

    def _add(self, spans: list[RecordedSpan], batch: _Batch) -> int:
        """Encode spans into a batch, as many as fit; the others wait again.

        Returns:
            How many do not wait.
        """
        while spans:
            parts, encoded = self._encoded(spans)
            if batch.takes(parts, encoded):
                self._counts.dropped += len(spans) - encoded
                break
            middle = len(spans) // 2
            self._queue.put_back(spans[middle:])
            spans = spans[:middle]
        return len(spans)

    def _encoded(self, spans: list[RecordedSpan]) -> tuple[list[Part], int]:
        """The bytes of spans, without those that cannot be encoded; of how many they are."""
        with guarded("encoding spans", self._on_fault):
            return self._encoder.parts(spans), len(spans)
        parts: list[Part] = []
        encoded = 0
        for span in spans:
            with guarded("encoding a span", self._on_fault):
                parts += self._encoder.parts([span])
                encoded += 1
        return parts, encoded

    def _send(self, batch: _Batch, *, patient: bool) -> "_Fate":
        """Post a batch; a fault of ours on the way drops it, counted."""
        fate = _Fate.REFUSED if batch.spans else _Fate.SENT
        began_ns = cpu_ns()
        try:
            if batch.spans:
                body = self._encoder.request(batch.parts)
                self._breathe()
                fate = self._deliver(body, patient=patient)
        finally:
            self._counts.export_cpu_ns += cpu_ns() - began_ns
            self._account(batch, fate)
        return fate

    def _account(self, batch: _Batch, fate: "_Fate") -> None:
        match fate:
            case _Fate.SENT:
                self._counts.sent += batch.spans
            case _Fate.REFUSED:
                self._counts.dropped += batch.spans
            case _Fate.LATER:
                return
            case _:
                assert_never(fate)
        self._batch = None
        self._counts.in_flight = 0

    def _deliver(self, body: bytes, *, patient: bool) -> "_Fate":
        """Post until somebody takes it; a flush or the end cuts the waiting short."""
        back_off_s = _FIRST_BACK_OFF_S
        while True:
            try:
                answer = self._sender.post(body)
            except OSError as error:
                wait_s = back_off_s
                self._unreachable_at(str(error) or type(error).__name__)
            else:
                if 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's successes
                    self._reached()
                    return _Fate.SENT
                self._counts.last_error = f"{answer.status} {answer.reason}"
                if answer.status not in _RETRIED:
                    self._refused_with(self._counts.last_error)
                    return _Fate.REFUSED
                wait_s = answer.retry_after_s or back_off_s
            if self._flushes or self._stopping or not patient:
                return _Fate.LATER
            self._pause(min(wait_s, _LONGEST_BACK_OFF_S))
            back_off_s = min(back_off_s * 2, _LONGEST_BACK_OFF_S)

    def _pause(self, pause_s: float) -> None:
        """Wait, but see to it meanwhile that what waits stays within its bound."""
        until_ns = self._now_ns() + int(pause_s * 1e9)
        while not self._wake.is_set():
            left_s = (until_ns - self._now_ns()) / 1e9
            if left_s <= 0:
                return
            self._queue.weigh()
            self._wait(self._wake, min(left_s, _WEIGH_EVERY_S))

    def _refused_with(self, error: str) -> None:
        if error != self._refusal:
            self._refusal = error
            logger.warning(
                "latencytrace: %s refused spans, which are lost: %s (logged once)",
                self._sender.url,
                error,
            )

    def _unreachable_at(self, error: str) -> None:
        self._counts.last_error = error
        if not self._unreachable:
            self._unreachable = True
            logger.warning(
                "latencytrace: no receiver answers at %s (%s); up to %d spans are kept and sent "
                "once it does. Start one with `latencytrace serve`, or set "
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                self._sender.url,
                error,
                self._queue.most_spans,
            )

    def _reached(self) -> None:
        self._counts.last_error = None
        if self._unreachable:
            self._unreachable = False
            logger.warning("latencytrace: the receiver at %s answers again", self._sender.url)
