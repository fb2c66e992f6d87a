"""Takes ended spans off the serving threads and sends them as OTLP.

A bounded queue, one background thread, a kept-alive connection, retries with
back-off; what does not fit is dropped and counted, never waited for.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from latencytrace.agent.clock import cpu_ns, monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.export.batches import Batch, Batches, Saw
from latencytrace.agent.export.delivery import Delivery, SendResult
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.export.transport import Sender
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.native import sleep as native_sleep
from latencytrace.agent.process.background import BackgroundThread, background_thread, join
from latencytrace.agent.process.late import Late
from latencytrace.agent.process.wake import Wake

# Lets other threads run while a background thread works through much, at next to no cost.
#
# A thread that wakes waits for the interpreter until it is released, 5 ms at the most (CPython's
# switch interval), or for the processor, if it woke on that of the background thread. Yielding
# the processor with the interpreter released serves both and takes a microsecond where no thread
# waits. A thread that waits on another processor is not there in a microsecond: but
# then the call takes longer, for it wakes him, and only then a sleep is worth its price, some
# twenty times as much.

SLEEP_S = 20e-6
_LONG = 2.5  # times the shortest call: it woke a thread
_LET_IN_NS = 100_000  # in so long a call another thread has run already
_FORGETS = 1.001  # a call: a processor may become slower


def yielding() -> Callable[[], object] | None:
    """Return what yields the processor and releases the interpreter meanwhile; None: nothing.

    `os.sched_yield` keeps the interpreter until Python 3.12.
    """
    if core is not None:
        return cast("Callable[[], object]", core.yield_processor)
    try:
        from ctypes import CDLL  # takes 3 ms, and not everywhere it is there

        call = CDLL(None).sched_yield
        call.argtypes = ()
        call()
    except (ImportError, OSError, AttributeError, TypeError):
        return None
    return call


class GilYield:
    """Pauses of one thread, in which others may run.

    Args:
        yield_: Yields the processor, as `yielding` returns it; None: each pause is a sleep.
    """

    def __init__(
        self,
        yield_: Callable[[], object] | None,
        sleep: Callable[[float], None] = native_sleep,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._yield = yield_
        self._sleep = sleep
        self._now_ns = now_ns
        self._shortest_ns: float = _LET_IN_NS

    def __call__(self) -> None:
        """Let other threads run."""
        if self._yield is None:
            self._sleep(SLEEP_S)
            return
        began_ns = self._now_ns()
        self._yield()
        took_ns = self._now_ns() - began_ns
        if took_ns >= _LET_IN_NS:
            return
        self._shortest_ns = min(self._shortest_ns * _FORGETS, max(took_ns, 1))
        if took_ns > _LONG * self._shortest_ns:
            self._sleep(SLEEP_S)


_WEIGH_EVERY_S: Final = 0.5  # while no receiver takes spans


class ExportCounts(NamedTuple):
    """Spans that were handed in, by what became of them; and the CPU time of that."""

    sent: int = 0
    dropped: int = 0
    in_flight: int = 0
    export_cpu_ns: int = 0  # of which
    encode_cpu_ns: int = 0
    last_error: str | None = None


class _Flush:
    """One call that waits until what has ended by now is sent."""

    __slots__ = ("done", "sent")

    def __init__(self) -> None:
        self.done = Wake()
        self.sent = False


class Exporter:
    """Empties the queue of ended spans on a background thread.

    Args:
        queue: Where spans wait; what finds no place there is dropped and counted.
        interval_s: How long spans wait for company.
        saw: Looks at the first spans; asked for anew in a forked child.
        after_round: Called on the background thread after each round of sending.
        wait: Waits for a call, or for so many seconds.
        now_ns: A monotonic clock, which goes on while it waits.
    """

    def __init__(
        self,
        encoder: OtlpEncoder,
        sender: Sender,
        *,
        queue: SpanQueue,
        interval_s: float,
        on_fault: OnFault,
        saw: Callable[[], Saw | None] = lambda: None,
        after_round: Callable[[], None] = lambda: None,
        wait: Callable[[Wake, float], object] = Wake.wait,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._queue = queue
        self._interval_s = interval_s
        self._on_fault = on_fault
        self._new_saw = saw
        self._after_round = after_round
        self._wait = wait
        self._now_ns = now_ns
        self._gil = Late(lambda: GilYield(yielding()))
        self._delivery = Delivery(sender, self._pause, queue.most_spans)
        self._thread: BackgroundThread | None = None  # None: a child in which no span has ended
        self._begin(encoder)
        self._start()

    @property
    def counts(self) -> ExportCounts:
        """Count what became of the spans so far."""
        batch = self._batch
        return ExportCounts(
            sent=self._sent,
            dropped=self._dropped + self._batches.dropped + self._queue.dropped,
            in_flight=0 if batch is None else batch.spans,
            export_cpu_ns=self._export_cpu_ns,
            encode_cpu_ns=self._encode_cpu_ns,
            last_error=self._delivery.last_error,
        )

    @property
    def queued(self) -> int:
        """Count the spans that wait to be sent."""
        return len(self._queue)

    @property
    def is_hurried(self) -> bool:
        """Return whether a caller waits for the background thread."""
        return bool(self._flushes) or self._stopping

    def flush(self, timeout_s: float, *, reports: bool = True) -> bool:
        """Send what waits now.

        Args:
            timeout_s: How long to wait.
            reports: Wait for a report that is under way, too.

        Returns:
            Whether everything that had ended before the call was sent in time.
        """
        is_empty = not self._queue and self._batch is None
        is_running = self._thread is not None and self._thread.is_alive()
        if not is_running or (is_empty and not reports):
            return is_empty
        flush = _Flush()
        self._flushes.append(flush)
        self._wake.set()
        return flush.done.wait(timeout_s) and flush.sent

    def report(self, *, on: bool) -> None:
        """Report after each round from now on, or begin no report: the process ends."""
        self._reports = on

    def stop(self, timeout_s: float) -> bool:
        """Send what waits and end the thread; one that a receiver holds up ends by itself.

        Returns:
            Whether all was sent, what ended meanwhile too.
        """
        began_ns = monotonic_ns()
        sent = self.flush(timeout_s)
        self._stopping = True
        self._wake.set()
        join(self._thread, max(timeout_s - (monotonic_ns() - began_ns) / 1e9, 0.0))
        return sent and not (self.queued or self.counts.in_flight)

    def reset_after_fork(self, encoder: OtlpEncoder, first: Callable[[], object]) -> None:
        """In a forked child: keep none of the parent's spans, and begin a thread at the first.

        Many children run another program at once, and in some no thread can begin yet.

        Args:
            first: Called where the first span ends, too.
        """

        def begin() -> None:
            first()
            self._start()

        self._thread = None
        self._queue.reset(begin)
        self._delivery.reset_after_fork()
        self._begin(encoder)

    def _begin(self, encoder: OtlpEncoder) -> None:
        self._sent = self._dropped = self._export_cpu_ns = self._encode_cpu_ns = 0
        self._batches = Batches(
            self._queue, encoder, self._on_fault, self._yield, saw=self._new_saw()
        )
        self._batch: Batch | None = None  # on its way, or not taken yet
        self._wake = Wake()
        self._flushes: deque[_Flush] = deque()
        self._stopping = False
        self._reports = True

    def _start(self) -> None:
        with guarded("beginning to export", self._on_fault):
            self._thread = background_thread(self._run, "latencytrace-export")

    def _run(self) -> None:
        afterwards = (
            ("weighing what waits", self._queue.weigh),
            ("reporting on the export", self._after_round),
        )
        while not self._stopping:
            if not self.is_hurried:  # a flush may have cut a pause short
                self._wait(self._wake, self._interval_s)
            # A flush may be the program's last call: what is to be reported is reported first.
            may_end = bool(self._flushes)
            self._send_queue()
            for doing, do in afterwards:
                with guarded(doing, self._on_fault):
                    if not may_end:
                        self._yield()
                    if self._reports:
                        do()
        if self._queue:  # what ended meanwhile, of requests that go on
            self._send_queue()
        self._delivery.close()

    def _send_queue(self) -> None:
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        sent = False
        with guarded("exporting spans", self._on_fault):
            sent = self._send_batches(patient=not flushes)
        for flush in flushes:  # a fault of ours keeps no caller waiting
            flush.sent = sent
            flush.done.set()

    def _send_batches(self, *, patient: bool) -> bool:
        """Send what waits now; tell whether all of it was taken."""
        sent, left = True, len(self._queue)
        while self._batch is not None or (left > 0 and self._queue):
            batch = self._batch
            if batch is None:
                batch = self._batch = Batch()
                left -= self._fill(batch, left)
            result = self._send(batch, patient=patient)
            sent = sent and result is SendResult.SENT
            if result is SendResult.LATER:
                break
        return sent

    def _fill(self, batch: Batch, most: int) -> int:
        """Take spans into a batch; count the spans that left the queue for it."""
        began_ns = cpu_ns()
        try:
            return self._batches.fill(batch, most)
        finally:
            self._encode_cpu_ns += cpu_ns() - began_ns
            self._export_cpu_ns += cpu_ns() - began_ns

    def _send(self, batch: Batch, *, patient: bool) -> SendResult:
        """Send a batch; a fault of ours on the way drops it, counted."""
        result = SendResult.REFUSED if batch.spans else SendResult.SENT
        began_ns = cpu_ns()
        try:
            if batch.spans:
                body = self._batches.body(batch)
                self._yield()
                result = self._delivery.deliver(body, patient=patient)
        finally:
            self._export_cpu_ns += cpu_ns() - began_ns
            if result is not SendResult.LATER:
                self._batch = None
                lost = batch.spans if result is SendResult.REFUSED else 0
                if result is SendResult.PARTLY:
                    lost = min(self._delivery.rejected, batch.spans)
                self._sent += batch.spans - lost
                self._dropped += lost
        return result

    def _yield(self) -> None:
        """Let other threads run."""
        self._gil()()

    def _pause(self, pause_s: float) -> bool:
        """Wait before a batch is sent again, and keep what waits within its bound meanwhile.

        Returns:
            False, without waiting: a flush or the end cannot wait.
        """
        if self.is_hurried:
            return False
        until_ns = self._now_ns() + int(pause_s * 1e9)
        while not self.is_hurried:
            left_s = (until_ns - self._now_ns()) / 1e9
            if left_s <= 0:
                break
            self._queue.weigh()
            self._wait(self._wake, min(left_s, _WEIGH_EVERY_S))
        return True
