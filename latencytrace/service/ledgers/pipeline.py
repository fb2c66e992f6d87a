"""From committed spans to ledgers: the sentence of the architecture, top to bottom.

    receiver → submit → journal → committer → store
                  ↓ arrived           ↓ stored
                  assembler → divide → store → settling → telemetry, objectives

A trace is divided once every span of it that was acknowledged can be read. It is divided at
least once: what a crash cut off between two of these steps is taken up at the next start, and
written again under the same keys. The assembler keeps an account of every span, and once in a
while the store is asked whether it agrees.

An insert and a division cost about the same however little there is to do, so that the
service does them the more rarely the longer they take, and a piece at a time, as long as
nobody asks: it shares the machine with the programs that are traced.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

from latencytrace.errors import OverloadedError, PoisonedBlockError, StoreError
from latencytrace.model import Request, Span
from latencytrace.service.clock import now_ns as time_of_day_ns
from latencytrace.service.ingest.committer import Committer, Outcome
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledgers.assembler import Assembler
from latencytrace.service.ledgers.attribution import FAULTS, Attribution
from latencytrace.service.ledgers.missing_ledgers import MissingLedgers
from latencytrace.service.ledgers.pacing import Rests
from latencytrace.service.ledgers.redelivery import apart_from_resent, grown
from latencytrace.service.ledgers.retention import SpanKeeping
from latencytrace.service.metrics.settling import Settled, Settling
from latencytrace.service.metrics.span_account import Without
from latencytrace.service.metrics.telemetry import Custody, Telemetry
from latencytrace.service.otlp.traces import CheckedRequest
from latencytrace.service.store import Revisions, Store

_log = logging.getLogger(__name__)

BATCH_TRACES = 500
PACE_S = 0.5  # between two looks at what is due; one division serves all that is
SLOWEST_PACE_S = 5.0
PATIENCE_S = 1.0  # of who asks, while others divide
KEEP_PACE_S = 60.0  # between two copies of spans that are kept, unless there are many
REST = 30  # times the duration of work: so much of the time it lets the machine alone

_ENDS = {
    Outcome.STORED: Assembler.stored,
    Outcome.REFUSED: Assembler.refused,
    Outcome.FAILED: Assembler.withdrawn,
}


class Pipeline:
    """Keeps what arrives, divides each trace once it is complete, keeps the ledgers.

    Args:
        store: Where spans and requests are kept.
        telemetry: Counts them.
        now_ns: A clock that is never set back.
        keep_spans_ratio: The share of ordinary requests whose spans are kept.
        on_settled: Takes requests that nothing has come for in a while; objectives count them.
        breaks: Whether a request breaks a promise, so that its spans are kept.
        on_spans: Told of the spans of each trace that is divided.
        journal: Holds what is not stored yet; None: everything is stored within 100 ms.
        settle_s: How long nothing must come for a request before it is counted.
        counted_until_ns: Up to which moment of writing an earlier process counted requests;
            None: nothing is known of one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        store: Store,
        telemetry: Telemetry,
        now_ns: Callable[[], int],
        keep_spans_ratio: float = 1.0,
        on_settled: Callable[[Settled], None] = lambda _: None,
        on_spans: Callable[[Iterable[Span]], None] = lambda _: None,
        breaks: Callable[[Request], bool] = lambda _: False,
        journal: Journal | None = None,
        settle_s: float = 0.0,
        counted_until_ns: int | None = None,
    ) -> None:
        self._store = store
        self._now_ns = now_ns
        self._telemetry = telemetry
        self._span_keeping = SpanKeeping(keep_spans_ratio)
        self._on_settled = on_settled
        self._on_spans = on_spans
        self._breaks = breaks
        self._committer = Committer(
            store, on_settled=self._settled, now_ns=now_ns, journal=journal
        )
        self._settling = Settling(now_ns, round(settle_s * 1e9))
        self._counted_until_ns = counted_until_ns
        self._missing = MissingLedgers(store, now_ns, time_of_day_ns)
        self._recovering: set[str] = set()  # traces that had no ledger
        self._counted_before: set[str] = set()  # traces whose ledgers were lost
        self._assembler = Assembler(now_ns)
        self._assembler_lock = threading.Lock()
        self._dividing = threading.Lock()
        self._rests = Rests(REST, now_ns)
        is_old, known = self._assembler.is_old, store.instances
        self._attribution = Attribution(telemetry, self._rests.rest, is_old, known)
        self._looked_ns = 0  # when it was last looked at what is due
        self._kept_ns: int | None = None  # when spans were last copied
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-divide", daemon=True)
        telemetry.watch(
            open_traces=lambda: self._assembler.open_count,
            evicted=lambda: self._assembler.counts.evicted,
            late=lambda: self._assembler.counts.late,
            waiting_bytes=lambda: self._committer.waiting_bytes,
            custody=self._custody,
        )

    def start(self) -> None:
        """Take up what an earlier process left, and begin."""
        left = self._missing.start()
        if left:
            _log.info("%d traces of an earlier run are divided now", len(left))
            self._assembler.left(left)
        resumed = self._committer.resume()
        if resumed:
            _log.info("%d requests of an earlier run are stored now", len(resumed))
            self.arrived(resumed)
            self._telemetry.spans_received.inc(sum(one.span_count for one in resumed))
        if self._counted_until_ns is not None:
            for written_ns, request in self._store.uncounted(self._counted_until_ns):
                self._settling.add([request], written_ns)
        self._committer.start()
        self._thread.start()

    @property
    def fault(self) -> str | None:
        """Why spans cannot be kept or divided for now; None: they can, as far as is known."""
        if not (self._thread.is_alive() and self._committer.is_running):
            return "spans are not being divided: see the log, and start the service again"
        if self._committer.fault is not None:
            return f"spans cannot be kept, and senders are told so: {self._committer.fault}"
        return None

    def submit(self, checked: CheckedRequest) -> Future[None]:
        """Keep the spans of a request; see `Committer.submit`.

        Raises:
            OverloadedError: Too much waits to be stored, or to be divided.
            StoreError: The service is shutting down.
        """
        if self._assembler.is_overfull:
            raise OverloadedError(
                f"{self._assembler.open_count} traces wait to be divided: send again in a second"
            )
        self.arrived([checked])  # first, for they may be stored before `submit` returns
        try:
            submitted = self._committer.submit(checked)
        except (OverloadedError, StoreError):
            self._settled([checked], Outcome.FAILED)
            raise
        submitted.add_done_callback(partial(self._acknowledged, checked.span_count))
        return submitted

    def catch_up(self) -> None:
        """Store and divide what is due, unless that was done lately: somebody wants to see it."""
        with self._rests.hurried():
            if not self._dividing.acquire(timeout=PATIENCE_S):
                return  # so much is being divided that nobody should wait for it
            try:
                now_ns = self._now_ns()
                if now_ns - self._looked_ns < PACE_S * 1e9 or self._stopping.is_set():
                    return
                self._looked_ns = now_ns
                self._rests.begin(0)
                with suppress(StoreError):  # the committer has said so
                    self._committer.flush()
                    self.step()
            finally:
                self._dividing.release()

    def is_open(self, trace_id: str) -> bool:
        """Whether spans of a trace have arrived that are not divided yet."""
        with self._assembler_lock:
            return self._assembler.is_open(trace_id)

    def close(self) -> None:
        """Commit what is queued, divide what has its root, and stop."""
        self._committer.close()
        self._stopping.set()
        self._rests.end()
        if self._thread.is_alive():
            self._thread.join()

    def arrived(self, requests: Sequence[CheckedRequest]) -> None:
        """Note that the spans of these requests came, and wait to be stored."""
        with self._assembler_lock:
            for checked in requests:
                self._assembler.arrived(checked.span_counts, checked.rooted)

    def step(self) -> int:
        """Divide one batch of the traces that are due; how many. Count what has settled."""
        with self._assembler_lock:
            due = self._assembler.due(BATCH_TRACES)
        divided = len(due) if due and self._divide(due) else 0
        self.settle()
        return divided

    def settle(self) -> None:
        """Count the requests that nothing has come for in a while."""
        settled = self._settling.settled()
        if settled.until_ns is not None:
            self._telemetry.count(settled.requests)
            self._on_settled(settled)

    def check(self) -> None:
        """Ask the store for arrivals without a ledger, and divide them; there should be none."""
        try:
            found = self._missing.found(self.is_open)
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("the store is asked later what has no ledger: %s", error)
            return
        with self._assembler_lock:
            self._assembler.left((*found.without_ledger, *found.lost_ledger))
        self._recovering.update(found.without_ledger)
        self._counted_before.update(found.lost_ledger)

    def keep_noted(self) -> None:
        """Copy the spans that are kept, unless that was done lately."""
        now_ns = self._now_ns()
        if self._kept_ns is not None and now_ns - self._kept_ns < KEEP_PACE_S * 1e9:
            return
        self._kept_ns = now_ns
        try:
            self._store.keep_noted()
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("spans are kept later: %s", error)

    def _run(self) -> None:
        while not self._stopping.wait(PACE_S):
            with self._dividing:
                took_s = self._cycle()
                self.settle()
            self.keep_noted()
            self.check()
            self._committer.probe()
            self._committer.rest(round((took_s + 2 * PACE_S) * 1e9))
        with self._dividing:
            with self._assembler_lock:
                left = self._assembler.close_all()
            for start in range(0, len(left), BATCH_TRACES):
                self._divide(left[start : start + BATCH_TRACES])
            self.settle()

    def _cycle(self) -> float:
        """Store what waits, if a trace is due, and divide all that are; the seconds it took."""
        began_ns = self._looked_ns = self._now_ns()
        with self._assembler_lock:
            is_due = self._assembler.is_due()
        if not is_due:
            return 0.0
        self._rests.begin(SLOWEST_PACE_S)
        try:
            self._committer.flush()  # a part of a trace may wait in there
        except StoreError:  # the committer has said so
            return 0.0
        self._rests.rest()
        while self.step() == BATCH_TRACES and not self._stopping.is_set():
            pass
        return (self._now_ns() - began_ns) / 1e9

    def _acknowledged(self, span_count: int, submitted: Future[None]) -> None:
        if not submitted.cancelled() and submitted.exception() is None:
            self._telemetry.spans_received.inc(span_count)

    def _settled(self, requests: Sequence[CheckedRequest], outcome: Outcome) -> None:
        """Take what became of requests that were submitted."""
        with self._assembler_lock:
            for checked in requests:
                _ENDS[outcome](self._assembler, checked.span_counts)

    def _custody(self) -> Custody:
        with self._assembler_lock:
            account = self._assembler.account
            account = replace(account, without=account.without.copy())
        return Custody(
            account=account,
            damaged_files=self._committer.damaged_files,
            damaged_parts=self._missing.damaged_parts,
            failing=self._committer.fault is not None,
        )

    def _divide(self, taken: Sequence[str]) -> bool:
        """Divide traces, later if the store fails; whether it took them.

        What stops a batch is looked for by halves, and costs its own trace alone.
        """
        left = set(taken)  # to be given back to the assembler
        halves: tuple[Sequence[str], ...] = ()
        try:
            left -= self._divide_read(taken)
        except (PoisonedBlockError, *FAULTS):
            halves, left = self._halves(taken), set()
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("%d traces are divided later: %s", len(left), error)
            return False
        finally:
            with self._assembler_lock:
                self._assembler.again(left)
        self._rests.rest()
        return sum(self._divide(half) for half in halves) == len(halves)

    def _halves(self, taken: Sequence[str]) -> tuple[Sequence[str], ...]:
        """Part a batch that cannot be divided; a trace alone is set aside."""
        with self._assembler_lock:
            left = self._assembler.being_divided(taken)  # others are open again
            if len(left) == 1:
                self._assembler.without(left, Without.FAULT)
        if len(left) > 1:
            return left[: len(left) // 2], left[len(left) // 2 :]
        self._telemetry.faulty.inc(len(left))
        _log.exception("%s is set aside, please report this", left)
        return ()

    def _divide_read(self, taken: Sequence[str]) -> set[str]:
        """Divide traces; those that are done with, or open again."""
        read_ns = self._now_ns()
        arrived = self._store.arrived(taken)
        self._rests.rest()
        reopened = self._reopened(taken, arrived)
        trace_ids = [trace_id for trace_id in taken if trace_id not in reopened]
        arrived = {one: arrived[one] for one in trace_ids if one in arrived}
        self._on_spans(chain.from_iterable(arrived.values()))
        revisions = self._store.revisions(trace_ids)
        self._rests.rest()
        found = self._attribution.attributed(arrived, revisions)
        with_request = found.with_request
        requests, resent = apart_from_resent(found.requests, self._store)
        kept = {
            request.trace_id
            for request in requests
            if self._span_keeping.keeps(request) or self._breaks(request)
        }
        for trace_id, steps in found.steps.items():
            kept.update(trace_id for step in steps if self._span_keeping.keeps_step(step))
        # What was sent again is written again too, or the next start would divide it again.
        kept |= grown(resent, arrived, self._store)
        self._write(requests, resent, kept, found.withdrawn, read_ns)
        with self._assembler_lock:
            self._assembler.attributed(with_request)
            self._assembler.left(found.starts)
            for trace_id in set(trace_ids) - with_request:
                self._assembler.without([trace_id], found.reasons.get(trace_id))
        self._telemetry.recovered.inc(len(self._recovering & with_request))
        self._recovering.difference_update(trace_ids)
        self._counted_before.difference_update(trace_ids)
        return set(taken)

    def _reopened(self, taken: Iterable[str], arrived: Mapping[str, Sequence[Span]]) -> set[str]:
        """Open traces again of which the store does not show all spans that it took."""
        shown = {trace_id: len(arrived.get(trace_id, ())) for trace_id in taken}
        with self._assembler_lock:
            short = self._assembler.short(shown)
        if not short:
            return set()
        counts = self._store.arrived_counts(short)  # what came twice is one span, two arrivals
        with self._assembler_lock:
            short = self._assembler.short({one: counts.get(one, 0) for one in short})
            reopened = {one for one, by in short.items() if self._assembler.missed(one, by)}
        if reopened:
            _log.error("of %d traces the store does not show all spans yet", len(reopened))
        return reopened

    def _write(
        self,
        requests: Sequence[Request],
        resent: Sequence[Request],
        kept: Collection[str],
        withdrawn: Revisions,
        read_ns: int,
    ) -> None:
        """Keep ledgers, and hold them until they have settled."""
        known = [*(request for request in requests if request.revision > 1), *resent]
        # What was lost with a part of the store was counted, unless it still waits for that.
        known += [one for one in requests if one.trace_id in self._counted_before]
        counted = self._settling.counted(known)
        age_ns = self._now_ns() - read_ns
        written = [*requests, *resent]
        done = self._store.write(written, kept, withdrawn, age_ns, counted)
        self._settling.withdraw(withdrawn)
        uncounted = [one for one in written if (one.trace_id, one.span_id) not in counted]
        self._settling.add(uncounted, done.at_ns)
        self._telemetry.withdrawn.inc(done.withdrawn)
        revised = [one for one in requests if (one.trace_id, one.span_id) in counted]
        self._telemetry.revised.inc(len(revised))
