"""Takes ended spans off the serving threads and sends them as OTLP.

A bounded queue, one background thread, a kept-alive connection, retries with
back-off; what does not fit is dropped and counted, never waited for.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from opentelemetry.context import Context, attach

from latencytrace.agent.clock import cpu_ns
from latencytrace.agent.context import leave
from latencytrace.agent.guard import OnFault, guarded, logger
from latencytrace.agent.recorded_span import RecordedSpan
from latencytrace.agent.sender import Sender
from latencytrace.agent.tracer import started_here

BATCH_SPANS = 512
_UNBROKEN_SPANS = 64  # that are encoded before a serving thread may have the interpreter
_BREATH_S = 20e-6
_RETRIED = frozenset({408, 429, 502, 503, 504})  # the OTLP specification's, and 408
_FIRST_BACK_OFF_S = 0.5
_LONGEST_BACK_OFF_S = 30.0


@dataclass(slots=True)
class ExportCounts:
    """What became of the spans that were handed in."""

    sent: int = 0
    dropped: int = 0
    in_flight: int = 0
    export_cpu_ns: int = 0
    last_error: str | None = None


def _unhurried(spans: Iterable[RecordedSpan]) -> Iterator[RecordedSpan]:
    """Spans with pauses among them.

    A thread that wants the interpreter meanwhile would otherwise wait until the batch is done
    (5 ms at the most, CPython's switch interval); it gets it at a pause, for nothing less than
    a sleep makes sure that the others come first.
    """
    for number, span in enumerate(spans, 1):
        yield span
        if number % _UNBROKEN_SPANS == 0:
            time.sleep(_BREATH_S)


class _Fate(Enum):
    SENT = "sent"
    REFUSED = "refused"  # for good: it would be refused again
    LATER = "later"  # nobody takes it now


class _Flush:
    """Somebody who waits until what has ended by now is sent."""

    __slots__ = ("done", "sent")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.sent = False


class Exporter:
    """Holds ended spans until a background thread has sent them.

    Args:
        encode: Spans to the bytes of one OTLP request.
        sender: Where they go.
        queue_spans: How many spans may wait; more are dropped and counted.
        interval_s: How long spans wait for company.
        after_round: Called on the background thread after each round of sending.
    """

    def __init__(  # noqa: PLR0913 - what it is told, each by name
        self,
        encode: Callable[[Iterable[RecordedSpan]], bytes],
        sender: Sender,
        *,
        queue_spans: int,
        interval_s: float,
        on_fault: OnFault,
        after_round: Callable[[], None] = lambda: None,
    ) -> None:
        self.counts = ExportCounts()
        self._encode = encode
        self._sender = sender
        self._queue: deque[RecordedSpan] = deque()
        self._bound = queue_spans
        self._interval_s = interval_s
        self._on_fault = on_fault
        self._after_round = after_round
        self._unreachable = False
        self._refusal: str | None = None  # the last that was logged
        self._start_thread()

    def ended(self, span: RecordedSpan) -> None:
        """Take an ended span; called on the serving thread, never waits."""
        if len(self._queue) < self._bound:
            self._queue.append(span)
        else:
            self.counts.dropped += 1

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
            return not self._queue
        flush = _Flush()
        self._flushes.append(flush)
        self._wake.set()
        return flush.done.wait(timeout_s) and flush.sent

    def stop(self, timeout_s: float) -> bool:
        """Send what waits and end the thread."""
        sent = self.flush(timeout_s)
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        return sent

    def reset_after_fork(self, encode: Callable[[Iterable[RecordedSpan]], bytes]) -> None:
        """In a forked child: keep none of the parent's spans, and start a thread anew."""
        self._encode = encode
        self._queue.clear()
        self.counts = ExportCounts()
        self._sender.close()
        self._start_thread()

    def _start_thread(self) -> None:
        self._wake = threading.Event()
        self._flushes: deque[_Flush] = deque()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="latencytrace-export", daemon=True)
        token = attach(Context())  # a hook carries the starter's request into threads: not here
        try:
            self._thread.start()
        finally:
            leave(token)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            self._send_queue()
            with guarded("reporting on the export", self._on_fault):
                self._after_round()
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
        sent = True
        for _ in range(len(self._queue) // BATCH_SPANS + 1):
            taken = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_SPANS))]
            spans = [span for span in taken if started_here(span)]
            if not spans:
                break
            fate = self._send(spans, patient=patient)
            sent = sent and fate is _Fate.SENT
            if fate is _Fate.LATER:
                break
        return sent

    def _send(self, spans: list[RecordedSpan], *, patient: bool) -> "_Fate":
        """Send one batch; a fault of ours on the way drops it, counted."""
        fate = _Fate.REFUSED
        self.counts.in_flight = len(spans)
        began_ns = cpu_ns()
        try:
            spans, body = self._encoded(spans)
            fate = self._deliver(body, patient=patient)
        finally:
            self.counts.export_cpu_ns += cpu_ns() - began_ns
            self._account(spans, fate)
            self.counts.in_flight = 0
        return fate

    def _encoded(self, spans: list[RecordedSpan]) -> tuple[list[RecordedSpan], bytes]:
        """The bytes of a batch, without spans that cannot be encoded; those are dropped."""
        with guarded("encoding spans", self._on_fault):
            return spans, self._encode(_unhurried(spans))
        encodable = []
        for span in spans:
            with guarded("encoding a span", self._on_fault):
                self._encode([span])
                encodable.append(span)
        self.counts.dropped += len(spans) - len(encodable)
        return encodable, self._encode(encodable)

    def _account(self, spans: list[RecordedSpan], fate: "_Fate") -> None:
        match fate:
            case _Fate.SENT:
                self.counts.sent += len(spans)
            case _Fate.REFUSED:
                self.counts.dropped += len(spans)
            case _Fate.LATER:
                self._queue.extendleft(reversed(spans))
            case _:
                assert_never(fate)

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
                self.counts.last_error = f"{answer.status} {answer.reason}"
                if answer.status not in _RETRIED:
                    self._refused_with(self.counts.last_error)
                    return _Fate.REFUSED
                wait_s = answer.retry_after_s or back_off_s
            if self._flushes or self._stopping or not patient:
                return _Fate.LATER
            self._wake.wait(min(wait_s, _LONGEST_BACK_OFF_S))
            back_off_s = min(back_off_s * 2, _LONGEST_BACK_OFF_S)

    def _refused_with(self, error: str) -> None:
        if error != self._refusal:
            self._refusal = error
            logger.warning(
                "latencytrace: %s refused spans, which are lost: %s (logged once)",
                self._sender.url,
                error,
            )

    def _unreachable_at(self, error: str) -> None:
        self.counts.last_error = error
        if not self._unreachable:
            self._unreachable = True
            logger.warning(
                "latencytrace: no receiver answers at %s (%s); up to %d spans are kept and sent "
                "once it does. Start one with `latencytrace serve`, or set "
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                self._sender.url,
                error,
                self._bound,
            )

    def _reached(self) -> None:
        self.counts.last_error = None
        if self._unreachable:
            self._unreachable = False
            logger.warning("latencytrace: the receiver at %s answers again", self._sender.url)
