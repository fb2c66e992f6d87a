"""From committed spans to ledgers: the sentence of the architecture, top to bottom.

    receiver → submit → journal → committer → store
                  ↓ arrived
              assembler → divide → store, telemetry

A trace is divided at least once: what a crash cut off between two of these steps is
taken up at the next start, and written again under the same keys.

An insert and a division cost about the same however little there is to do, so that the
service does them the more rarely the longer they take, and a piece at a time, as long as
nobody asks: it shares the machine with the programs that are traced.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, zip_longest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.critical_path import critical_path
from latencytrace.analysis.is_request import is_shared
from latencytrace.analysis.requests import request_of
from latencytrace.errors import OverloadedError, StoreError
from latencytrace.model import Request, Span, Trace
from latencytrace.service.assembler import Assembler
from latencytrace.service.committer import Committer
from latencytrace.service.journal import Journal
from latencytrace.service.kernels import CriticalPaths
from latencytrace.service.otlp import CheckedRequest
from latencytrace.service.resent import apart_from_resent, grown
from latencytrace.service.rests import Rests
from latencytrace.service.span_keeping import SpanKeeping
from latencytrace.service.store import Revisions, Store
from latencytrace.service.telemetry import Telemetry

_log = logging.getLogger(__name__)

BATCH_TRACES = 500
PIECE_TRACES = 25  # are divided without a rest, some 5 ms
PACE_S = 0.5  # between two looks at what is due; one division serves all that is
SLOWEST_PACE_S = 5.0
PATIENCE_S = 1.0  # of who asks, while others divide
KEEP_PACE_S = 60.0  # between two copies of spans that are kept, unless there are many
REST = 30  # times the duration of work: so much of the time it lets the machine alone

# What a broken promise between our own functions raises. The analysis accepts any heap of
# spans, so that each of these is a fault of ours: one trace must not stop the others for it.
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


class Pipeline:
    """Keeps what arrives, divides each trace once it is complete, keeps the ledgers.

    Args:
        store: Where spans and requests are kept.
        telemetry: Counts them.
        now_ns: A clock that is never set back.
        keep_spans_ratio: The share of ordinary requests whose spans are kept.
        on_divided: Told of requests once they are written; objectives count them.
        breaks: Whether a request breaks a promise, so that its spans are kept.
        on_spans: Told of the spans of each trace that is divided.
        journal: Holds what is not stored yet; None: everything is stored within 100 ms.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        store: Store,
        telemetry: Telemetry,
        now_ns: Callable[[], int],
        keep_spans_ratio: float = 1.0,
        on_divided: Callable[[Sequence[Request]], None] = lambda _: None,
        on_spans: Callable[[Iterable[Span]], None] = lambda _: None,
        breaks: Callable[[Request], bool] = lambda _: False,
        journal: Journal | None = None,
    ) -> None:
        self._store = store
        self._now_ns = now_ns
        self._telemetry = telemetry
        self._span_keeping = SpanKeeping(keep_spans_ratio)
        self._on_divided = on_divided
        self._on_spans = on_spans
        self._breaks = breaks
        self._critical_paths = CriticalPaths()
        self._committer = Committer(
            store,
            on_commit=self._count_spans,
            now_ns=now_ns,
            journal=journal,
            on_refused=telemetry.spans_rejected.inc,
        )
        self._assembler = Assembler(now_ns)
        self._assembler_lock = threading.Lock()
        self._dividing = threading.Lock()
        self._rests = Rests(REST, now_ns)
        self._looked_ns = 0  # when it was last looked at what is due
        self._kept_ns: int | None = None  # when spans were last copied
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencytrace-divide", daemon=True)
        telemetry.watch(
            open_traces=lambda: self._assembler.open_count,
            evicted=lambda: self._assembler.counts.evicted,
            late=lambda: self._assembler.counts.late,
            waiting_bytes=lambda: self._committer.waiting_bytes,
        )

    def start(self) -> None:
        """Take up what an earlier process left, and begin."""
        left = self._store.unassembled()
        if left:
            _log.info("%d traces of an earlier run are divided now", len(left))
            self._assembler.arrived(left, frozenset(left))
        resumed = self._committer.resume()
        if resumed:
            _log.info("%d requests of an earlier run are stored now", len(resumed))
            self.arrived(resumed)
        self._committer.start()
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether arrivals are being divided."""
        return self._thread.is_alive()

    def submit(self, checked: CheckedRequest) -> Future[None]:
        """Keep the spans of a request.

        Returns:
            See `Committer.submit`.

        Raises:
            OverloadedError: Too much waits to be stored, or to be divided.
            StoreError: The service is shutting down.
        """
        if self._assembler.is_overfull:
            raise OverloadedError(
                f"{self._assembler.open_count} traces wait to be divided: send again in a second"
            )
        submitted = self._committer.submit(checked)
        self.arrived([checked])
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
        """Note that the spans of these requests are kept, or will be before they are divided."""
        with self._assembler_lock:
            for checked in requests:
                self._assembler.arrived(checked.trace_ids, checked.rooted)

    def step(self) -> int:
        """Divide the traces that are due, at most one batch of them.

        Returns:
            How many there were.
        """
        with self._assembler_lock:
            due = self._assembler.due(BATCH_TRACES)
        if due:
            self._divide(due)
        return len(due)

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
            self.keep_noted()
            self._committer.rest(round((took_s + 2 * PACE_S) * 1e9))
        with self._assembler_lock:
            left = self._assembler.close_all()
        for start in range(0, len(left), BATCH_TRACES):
            self._divide(left[start : start + BATCH_TRACES])

    def _cycle(self) -> float:
        """Store what waits, if a trace is due, and divide all that are, with rests.

        Returns:
            How many seconds it took; 0.0 where nothing was due.
        """
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

    def _count_spans(self, committed: Sequence[CheckedRequest]) -> None:
        self._telemetry.spans_received.inc(sum(checked.span_count for checked in committed))

    def _divide(self, trace_ids: Sequence[str]) -> None:
        """Read the spans of traces back, divide their requests, and keep the ledgers."""
        try:
            read_ns = self._now_ns()
            arrived = self._store.arrived(trace_ids)
            self._rests.rest()
            self._on_spans(chain.from_iterable(arrived.values()))
            revisions = self._store.revisions(trace_ids)
            self._rests.rest()
            divided, withdrawn = self._divided(arrived, revisions)
            requests, resent = apart_from_resent(divided, self._store)
            kept = {
                request.trace_id
                for request in requests
                if self._span_keeping.keeps(request) or self._breaks(request)
            }
            kept |= self._kept_steps(arrived.keys() - {one.trace_id for one in divided}, arrived)
            # What was sent again is written again too, or the next start would divide it again.
            kept |= grown(resent, arrived, self._store)
            self._store.write([*requests, *resent], kept, withdrawn, self._now_ns() - read_ns)
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("%d traces are divided later: %s", len(trace_ids), error)
            with self._assembler_lock:
                self._assembler.again(trace_ids)
            return
        with self._assembler_lock:
            self._assembler.forget(set(trace_ids) - {request.trace_id for request in divided})
        self._telemetry.withdrawn.inc(len(withdrawn))
        self._telemetry.count(requests)
        self._on_divided(requests)  # at once: what is written and not counted a kill would lose
        self._rests.rest()

    def _kept_steps(
        self, requestless: Iterable[str], arrived: Mapping[str, Sequence[Span]]
    ) -> set[str]:
        """The traces of shared steps, which hold no request, whose spans are kept."""
        return {
            trace_id
            for trace_id in requestless
            for span in arrived[trace_id]
            if is_shared(span) and self._span_keeping.keeps_step(span)
        }

    def _divided(
        self, arrived: Mapping[str, Sequence[Span]], revisions: Revisions
    ) -> tuple[list[Request], Revisions]:
        """The requests of each trace that can be divided, and those that are none any more."""
        before: dict[str, set[str]] = {}
        for trace_id, span_id in revisions:
            before.setdefault(trace_id, set()).add(span_id)
        requests: list[Request] = []
        traces: list[Trace] = []
        withdrawn: dict[tuple[str, str], int] = {}
        for trace_id, spans in arrived.items():
            if len(traces) >= PIECE_TRACES:
                requests += self._requests(traces, revisions)
                traces = []
                self._rests.rest()
            known = before.get(trace_id, set())
            if not known <= {span.span_id for span in spans}:
                # Its arrivals are no longer kept: what is left would replace a whole ledger.
                self._telemetry.outdated.inc()
                continue
            if not known:  # later revisions would count their spans again
                self._telemetry.content_removed.inc(sum(span.content_removed for span in spans))
            try:
                found = build_traces(spans)
            except _FAULTS:
                self._set_aside(trace_id)
                continue
            traces += found
            for span_id in known - {trace.root.span_id for trace in found}:
                withdrawn[trace_id, span_id] = revisions[trace_id, span_id]
        requests += self._requests(traces, revisions)
        return requests, withdrawn

    def _requests(self, traces: Sequence[Trace], revisions: Revisions) -> list[Request]:
        try:
            paths = self._critical_paths(traces)
        except _FAULTS:
            _log.exception("a batch is divided trace by trace, please report this")
            paths = []
        requests = []
        for trace, path in zip_longest(traces, paths):
            try:
                requests.append(request_of(trace, path or critical_path(trace), revisions))
            except _FAULTS:
                self._set_aside(trace.root.trace_id)
        return requests

    def _set_aside(self, trace_id: str) -> None:
        """Count a trace that a fault of ours stops."""
        self._telemetry.faulty.inc()
        _log.exception("trace %s is set aside, please report this", trace_id)
