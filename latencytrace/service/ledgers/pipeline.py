"""From received spans to counted requests: the order of the calls in the service.

    receiver → submit → journal → committer → store
                  ↓ arrived           ↓ stored, if it is not attributed soon
                  open traces → attributor → store → settling → telemetry, objectives

A trace is attributed once it is complete. Its spans are in memory since they arrived, and in the
journal; they are stored with the ledger. Spans that wait for longer than `HOLD_S` are stored
alone. If memory does not hold all spans of a trace (after a restart, for late spans, or when
memory was full), the trace is read from the store. A trace is attributed at least once: work
interrupted by a crash is done again at the next start, and written under the same keys. Every
span is accounted for, and the store is checked against the account from time to time.

The traced programs run on the same machine, so the service runs at a low priority. An insert
costs the same for few spans as for many, so there is about one a second.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import groupby
from operator import itemgetter

from latencytrace.errors import OverloadedError, StoreError
from latencytrace.service.clock import now_ns as time_of_day_ns
from latencytrace.service.ingest.admission import Admission
from latencytrace.service.ingest.committer import Committer, Outcome
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.ledgers.attributor import Attributor
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.missing_ledgers import MissingLedgers
from latencytrace.service.ledgers.open_traces import OpenTraces
from latencytrace.service.ledgers.priority import FreedMemory, UnusedCode, yield_to_others
from latencytrace.service.metrics.settling import Settled, Settling
from latencytrace.service.metrics.telemetry import Custody, Telemetry
from latencytrace.service.otlp.traces import CheckedRequest
from latencytrace.service.store import Store

_log = logging.getLogger(__name__)

BATCH_TRACES = 500
LARGE_SPANS = 5000  # so many spans suffice to estimate throughput
BATCH_COLUMNS = 4000  # traces of a batch on the column path
PACE_S = 1.0  # between two batches, and between two inserts
ROUND_SPANS = 40_000  # with more spans a second, batches follow sooner
HOLD_S = 10.0  # spans wait so long for their ledgers before they are stored alone
SHORT_PACE_S = 0.1  # between two batches while posts wait
KEEP_PACE_S = 60.0  # between two copies of spans that are kept


class Pipeline:
    """Stores received spans, attributes complete traces, and counts settled requests.

    Args:
        telemetry: The service's own metrics, and those of requests.
        now_ns: A monotonic clock.
        context: Settings and callbacks; None: the defaults.
        journal: Makes spans durable before they are stored; None: there is none, and spans are
            stored within 100 ms.
        traces: Open traces; None: new ones.
    """

    def __init__(
        self,
        store: Store,
        telemetry: Telemetry,
        now_ns: Callable[[], int],
        context: PipelineContext | None = None,
        journal: Journal | None = None,
        traces: OpenTraces | None = None,
    ) -> None:
        self._store = store
        self._now_ns = now_ns
        self._telemetry = telemetry
        self._context = context = context or PipelineContext()
        self._traces = traces = traces or OpenTraces(now_ns)
        self._committer = Committer(
            store,
            on_settled=traces.ended,
            now_ns=now_ns,
            begin=traces.begin,
            journal=journal,
        )
        self._settling = settling = Settling(now_ns, round(context.settle_s * 1e9))
        self._missing = missing = MissingLedgers(store, now_ns, time_of_day_ns)
        self._attributor = Attributor(
            store, traces, settling, telemetry, now_ns, context, missing.split.rootless
        )
        self._kept_ns: int | None = None  # time of the last copy of kept spans
        self._has_failed_to_keep = False  # at the last copy
        self._left: list[str] = []  # traces to be read from the store
        self._admission = Admission(now_ns)
        self._freed, self._code = FreedMemory(), UnusedCode()
        self._has_taken_up = False  # the work of an earlier process is done
        self.left_fault: StoreError | None = None  # why that failed, or the end
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-ledger", daemon=True)
        telemetry.watch(
            open_traces=lambda: traces.count,
            evicted=lambda: traces.counts.evicted,
            late=lambda: traces.counts.late,
            split=lambda: missing.split.count,
            held_bytes=lambda: traces.held_bytes,
            let_go=lambda: traces.let_go,
            waiting_bytes=lambda: self._committer.waiting_bytes,
            custody=self._custody,
        )

    def start(self) -> None:
        """Begin to receive spans, and to finish the work of an earlier process."""
        self.resume()
        self._committer.start()
        self._thread.start()

    def resume(self) -> None:
        """Store the spans that an earlier process acknowledged and did not store."""
        self._committer.set_interval(round(PACE_S * 1e9), round(HOLD_S * 1e9))
        resumed = self._committer.resume()
        if resumed:
            _log.info("%d requests of an earlier run are stored now", len(resumed))
            self._traces.arrived(resumed)
            for one in resumed:
                self._traces.in_journal(one)
                self._missing.split.rootless(one.rows.keys() if self._store.is_shared else ())
            self._telemetry.spans_received.inc(sum(one.span_count for one in resumed))

    @property
    def fault(self) -> str | None:
        """Why spans cannot be stored or attributed for now; None: no problem is known."""
        if not (self._thread.is_alive() and self._committer.is_running):
            return "spans are not being attributed: see the log, and start the service again"
        if (fault := self._store_fault) is not None:
            return f"spans are not stored, and wait in the journal as far as it goes: {fault}"
        if self.left_fault is not None:
            return f"what an earlier run left cannot be read: {self.left_fault}"
        return None

    @property
    def _store_fault(self) -> StoreError | None:
        """The last error of the store, if it still fails."""
        return self._committer.fault or self._attributor.fault

    def submit(self, checked: CheckedRequest) -> Future[None]:
        """Store the spans of a post.

        Returns:
            A future that is done once the spans are durable.

        Raises:
            OverloadedError: Too much waits to be stored, or to be attributed.
            StoreError: The service is shutting down.
        """
        self.require_room()
        return self.keep(checked)

    def keep(self, checked: CheckedRequest) -> Future[None]:
        """Store the spans of a post without asking `require_room`: it was asked before."""
        self._traces.arrived([checked])  # before `submit`, which may store them at once
        try:
            submitted = self._committer.submit(checked)
        except (OverloadedError, StoreError):
            self._traces.ended([checked], Outcome.FAILED)
            raise
        if self._committer.holds:
            self._traces.in_journal(checked)
        submitted.add_done_callback(partial(self._acknowledged, checked.span_count))
        return submitted

    def require_room(self) -> None:
        """Refuse new spans if there are too many.

        Raises:
            OverloadedError: Too much waits to be attributed.
        """
        if self._traces.is_overfull or not self._has_room:
            raise OverloadedError(
                f"{self._traces.count} traces wait to be attributed: send again in a second"
            )

    def is_open(self, trace_id: str) -> bool:
        """Return whether a trace has spans that are not attributed yet."""
        return self._traces.is_open(trace_id)

    def open_because(self, trace_id: str) -> str | None:
        """Return what an open trace waits for, as people read it; None: it is not open."""
        return self._traces.open_because(trace_id)

    def close(self) -> None:
        """Store what is queued, attribute traces with a root, and stop."""
        self._committer.close()
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.left_fault = self.left_fault or self._store_fault

    def step(self, *, ahead: bool = False) -> int:
        """Attribute a batch of traces that are due, and count settled requests.

        Args:
            ahead: Write a large batch while the next one is attributed.

        Returns:
            How many traces; 0: the store failed.
        """
        due = self._traces.due(self._batch_traces)
        self._committer.hasten(self._traces.take_urgent())
        is_large = ahead and 2 * len(due) >= self._batch_traces
        has_taken = (self._attributor.go_on if is_large else self._attributor.attribute)(due)
        self._committer.release(self._traces.take_written())
        self.settle()
        return len(due) if has_taken else 0

    def settle(self) -> None:
        """Count the requests that have settled."""
        _count(self._settling.settled(), self._telemetry, self._context.on_settled)

    def check(self) -> None:
        """Find traces in the store without a ledger, of which there should be none."""
        try:
            found = self._missing.found(self.is_open)
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("the store is asked later what has no ledger: %s", error)
            return
        left = (*found.without_ledger, *found.lost_ledger, *found.split)
        self._left.extend(left)
        self._traces.left(left)
        self._attributor.recovering.update(found.without_ledger)
        self._attributor.counted_before.update(found.lost_ledger)

    def keep_noted(self) -> None:
        """Copy the spans that are kept to their table, once in `KEEP_PACE_S`."""
        now_ns = self._now_ns()
        if self._kept_ns is not None and now_ns - self._kept_ns < KEEP_PACE_S * 1e9:
            return
        self._kept_ns = now_ns
        is_done = self._is_done(self._store.keep_noted, "spans are kept later")
        self._has_failed_to_keep = not is_done

    def look_after(self) -> None:
        """Do the periodic work; each part has its own interval."""
        self.keep_noted()
        self.check()
        while self._left and not self.is_open(self._left[-1]):
            self._left.pop()
        # Nothing is dropped while traces have to be read from the store.
        if not (self._left or self._has_failed_to_keep or self._attributor.fault):
            self._context.tidy()
        self._committer.probe()
        self._is_done(self._store.roll_up, "requests are rolled up later")

    def _is_done(self, work: Callable[[], None], otherwise: str) -> bool:
        """Call the store; log its error and return False if it fails."""
        try:
            work()
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("%s: %s", otherwise, error)
            return False
        return True

    def _take_up(self) -> None:
        """Find the unfinished work of an earlier process. No trace is attributed before that.

        It takes longer the more is stored; meanwhile spans are received.
        """
        left = self._missing.start()
        for ids in self._store.known_traces():
            self._traces.known(ids)
        if left:
            _log.info("%d traces of an earlier run are attributed now", len(left))
            self._left.extend(left)
            self._traces.left(left)
        if (until_ns := self._context.counted_until_ns) is not None:
            uncounted = self._store.uncounted(until_ns)
            for written_ns, together in groupby(uncounted, key=itemgetter(0)):
                table = LedgerTable.of(request for _, request in together)
                self._settling.add([table.countable()], written_ns)

    def look_back(self) -> bool:
        """Find the unfinished work of an earlier process; False: the store fails."""
        try:
            self._take_up()
        except StoreError as error:
            self._telemetry.store_errors.inc()
            self.left_fault = error
            _log.error("what an earlier run left is looked for again: %s", error)
            return False
        self.left_fault = None
        return True

    def _run(self) -> None:
        yield_to_others()
        while not self.look_back():
            if self._stopping.wait(PACE_S):
                return
        pause_s, last_ns = PACE_S, self._now_ns()
        while not self._stopping.wait(pause_s):
            began_ns, before = self._now_ns(), self._traces.account().ended
            round_s, last_ns = (began_ns - last_ns) / 1e9, began_ns
            while self._has_more_after_step() and not self._stopping.is_set():
                self.look_after()
                self._has_taken_up |= not self._left
            self._attributor.finish()
            self._has_taken_up = True
            self.look_after()
            self._admission.rest()
            spans = self._traces.account().ended - before
            self._freed.after(spans)
            self._code.look()
            pace_s = min(PACE_S, round_s * ROUND_SPANS / max(spans, 1))
            took_s = (self._now_ns() - began_ns) / 1e9
            pause_s = max(min(pace_s, PACE_S if self._has_room else SHORT_PACE_S) - took_s, 0.0)
            if self._store_fault:  # the next try may take as long
                pause_s = max(PACE_S, took_s)
        self._attributor.attribute_all(self._traces.close_all(), BATCH_TRACES)
        self.settle()

    def _has_more_after_step(self) -> bool:
        """Attribute a batch and measure its throughput; return whether it was a full one."""
        before, full = self._traces.account().ended, self._batch_traces
        self._admission.begin()
        attributed = self.step(ahead=self._attributor.by_columns)
        ended = max(self._traces.account().ended - before, 0)
        is_large = ended >= LARGE_SPANS or (ended > 0 and attributed >= BATCH_TRACES)
        self._admission.end(ended, is_large=is_large)
        return 2 * attributed >= full  # some of a full batch may wait for the store

    @property
    def _batch_traces(self) -> int:
        """The largest number of traces in a batch."""
        return BATCH_COLUMNS if self._attributor.by_columns else BATCH_TRACES

    @property
    def _has_room(self) -> bool:
        """Whether new spans would be attributed soon."""
        held_bytes = self._traces.held_bytes
        if self._store_fault or not self._has_taken_up:
            return True  # the journal takes them as long as it can
        return self._admission.has_room(self._traces.work, held_bytes, self._traces.counts.late_ns)

    def _acknowledged(self, span_count: int, submitted: Future[None]) -> None:
        if not submitted.cancelled() and submitted.exception() is None:
            self._telemetry.spans_received.inc(span_count)

    def _custody(self) -> Custody:
        files, parts = self._committer.damaged_files, self._missing.damaged_parts
        failing, account = self._store_fault is not None, self._traces.account()
        return Custody(account=account, damaged_files=files, damaged_parts=parts, failing=failing)


def _count(settled: Settled, telemetry: Telemetry, on_settled: Callable[[Settled], None]) -> None:
    """Count requests for metrics and objectives; an error there costs only its batch."""
    if settled.until_ns is None:
        return
    tables = [partial(telemetry.counted.count, table) for table in settled.tables]
    for count in (*tables, partial(on_settled, settled)):
        try:
            count()
        except Exception:  # noqa: BLE001 - no thread but this one attributes
            telemetry.faulty_batches.inc()
            _log.exception("metrics or objectives miss requests, please report this")
