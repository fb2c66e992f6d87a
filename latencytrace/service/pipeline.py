"""From committed spans to ledgers: the sentence of the architecture, top to bottom."""

import logging
import threading
from collections.abc import Callable, Sequence

from latencytrace.analysis.requests import requests_of
from latencytrace.errors import StoreError
from latencytrace.model import Request, RequestStatus
from latencytrace.service.assembler import Assembler
from latencytrace.service.committer import Committer
from latencytrace.service.otlp import CheckedRequest
from latencytrace.service.store import Store
from latencytrace.service.telemetry import Telemetry

_log = logging.getLogger(__name__)

BATCH_TRACES = 500
_LONGEST_WAIT_S = 0.25
_RETRY_S = 1.0


class Pipeline:
    """Keeps what arrives, divides each trace once it is complete, keeps the ledgers.

    Args:
        store: Where spans and requests are kept.
        telemetry: Counts them.
        now_ns: The clock.
        keep_spans_ratio: The share of ordinary requests whose spans are kept; those of
            failed ones always are.
    """

    def __init__(
        self,
        store: Store,
        telemetry: Telemetry,
        now_ns: Callable[[], int],
        keep_spans_ratio: float = 1.0,
    ) -> None:
        self._store = store
        self._telemetry = telemetry
        self._keep_below = round(keep_spans_ratio * 0xFFFFFFFF)
        self._assembler = Assembler(now_ns)
        self._changed = threading.Condition()
        self._stopping = False
        self._counted = (0, 0)  # evicted and late, as far as the metrics know
        self.committer = Committer(store, on_commit=self._arrived, now_ns=now_ns)
        self._thread = threading.Thread(
            target=self._run, name="latencytrace-assemble", daemon=True
        )

    def start(self) -> None:
        """Take up what an earlier process left, and begin."""
        left = self._store.unassembled()
        if left:
            _log.info("%d traces of an earlier run are divided now", len(left))
            self._assembler.arrived(left, frozenset(left))
        self.committer.start()
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether arrivals are being divided."""
        return self._thread.is_alive()

    def is_open(self, trace_id: str) -> bool:
        """Whether spans of a trace have arrived that are not divided yet."""
        with self._changed:
            return self._assembler.is_open(trace_id)

    def close(self) -> None:
        """Commit what is queued, divide what has its root, and stop."""
        self.committer.close()
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _arrived(self, committed: list[CheckedRequest]) -> None:
        with self._changed:
            for request in committed:
                self._telemetry.spans_received.inc(request.span_count)
                self._assembler.arrived(request.trace_ids, request.rooted)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                stopping = self._stopping
                due = self._assembler.close_all() if stopping else self._due()
            for start in range(0, len(due), BATCH_TRACES):
                self._divide(due[start : start + BATCH_TRACES])
            if stopping:
                return

    def _due(self) -> list[str]:
        """The traces that are due; waits a little where none is."""
        due = self._assembler.due(BATCH_TRACES)
        if not due:
            wait_ns = self._assembler.next_due_in_ns()
            self._changed.wait(
                _LONGEST_WAIT_S if wait_ns is None else min(wait_ns / 1e9 + 0.001, _LONGEST_WAIT_S)
            )
        counts = self._assembler.counts
        evicted, late = self._counted
        self._telemetry.evicted.inc(counts.evicted - evicted)
        self._telemetry.late.inc(counts.late - late)
        self._counted = (counts.evicted, counts.late)
        self._telemetry.open_traces.set(self._assembler.open_count)
        self._telemetry.waiting_bytes.set(self.committer.waiting_bytes)
        return due

    def _divide(self, trace_ids: Sequence[str]) -> None:
        """Read the spans of traces back, divide their requests, and keep the ledgers."""
        try:
            arrived = self._store.arrived(trace_ids)
            revisions = self._store.revisions(trace_ids)
            requests = [
                request for spans in arrived.values() for request in requests_of(spans, revisions)
            ]
            self._store.write(requests, self._kept(requests))
        except StoreError as error:
            self._telemetry.store_errors.inc()
            _log.error("%d traces are divided later: %s", len(trace_ids), error)
            with self._changed:
                if not self._stopping:
                    self._assembler.again(trace_ids)
                    self._changed.wait(_RETRY_S)
            return
        self._telemetry.count(requests)

    def _kept(self, requests: Sequence[Request]) -> set[str]:
        """The traces whose spans are kept."""
        return {
            request.trace_id
            for request in requests
            if request.status is not RequestStatus.OK
            or int(request.trace_id[-8:], 16) <= self._keep_below
        }
