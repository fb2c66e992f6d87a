"""Open traces: what came of them, what became of it, and where their spans are."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.service.ingest.committer import Outcome
from latencytrace.service.ledgers.assembler import (
    MAX_CLOSED,
    MAX_OPEN,
    Assembler,
    AssemblerCounts,
    Counts,
    TraceState,
)
from latencytrace.service.ledgers.posts import MAX_BYTES, Posts
from latencytrace.service.ledgers.seen_traces import SeenTraces, ids_of, mixed
from latencytrace.service.ledgers.span_parts import Parts, part_of
from latencytrace.service.metrics.span_account import Account, Without
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.otlp.traces import CheckedRequest

_ENDS = {
    Outcome.STORED: Assembler.stored,
    Outcome.REFUSED: Assembler.refused,
    Outcome.FAILED: Assembler.withdrawn,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that is remembered of traces."""

    open: int = MAX_OPEN  # traces; the oldest of more are attributed at once
    closed: int = MAX_CLOSED  # traces that were attributed, or hold no request
    held_bytes: int = MAX_BYTES  # of the spans of open traces, in memory


USUAL: Final = Bounds()


class OpenTraces:
    """The assembler with the spans of its traces, for several threads.

    Args:
        now_ns: A clock that is never set back.
        bounds: How much is remembered.
    """

    def __init__(self, now_ns: Callable[[], int], bounds: Bounds = USUAL) -> None:
        self._posts = Posts(bounds.held_bytes)
        self._assembler = Assembler(
            now_ns, max_open=bounds.open, max_closed=bounds.closed, posts=self._posts
        )
        self._seen = SeenTraces()
        self._lock = threading.Lock()  # of all of these

    def arrived(self, requests: Iterable[CheckedRequest]) -> None:
        """Note that the spans of these requests came, and wait to be stored."""
        with self._lock:
            for checked in requests:
                if let_go := self._posts.add(checked.columns, checked.rows):
                    self._seen.add(ids_of(let_go))
                self._assembler.arrived(checked.span_counts, checked.rooted)

    def in_journal(self, request: CheckedRequest) -> None:
        """See `Posts.in_journal`."""
        with self._lock:
            self._posts.in_journal(request.columns)

    def begin(self, block: SpanBlock) -> SpanBlock | None:
        """Begin to commit a request: what of it is not stored; None: nothing for now."""
        with self._lock:
            rows = self._posts.begin(block)
        return None if rows is None else part_of(block, rows)

    def ended(self, requests: Iterable[CheckedRequest], outcome: Outcome) -> None:
        """Take what became of requests that came."""
        with self._lock:
            for checked in requests:
                if outcome is Outcome.WAITING:
                    self._posts.again(checked.columns)
                    continue
                if outcome is not Outcome.STORED:
                    self._posts.remove(checked.columns)
                _ENDS[outcome](self._assembler, self._posts.end(checked.columns))
                self._release(self._assembler.take_forgotten())

    def take_urgent(self) -> Sequence[SpanBlock]:
        """See `Posts.take_urgent`."""
        with self._lock:
            return self._posts.take_urgent()

    def take_written(self) -> Sequence[SpanBlock]:
        """See `Posts.take_written`."""
        with self._lock:
            return self._posts.take_written()

    def claimed(self, trace_ids: Iterable[str]) -> Sequence[SpanBlock]:
        """The spans of traces that their attribution has to store, as blocks."""
        with self._lock:
            found = list(self._posts.claimed(trace_ids))
        return [part_of(block, rows) for block, rows in found]

    def written(self, trace_ids: Iterable[str]) -> None:
        """See `Posts.written`."""
        with self._lock:
            self._posts.written(trace_ids)

    def known(self, halves: NDArray[np.uint64]) -> None:
        """Note the traces of which the store has something, by the halves of their ids (n, 2)."""
        with self._lock:
            self._seen.add(mixed(halves))

    def left(self, trace_ids: Collection[str]) -> None:
        """Open traces whose spans are in the store and have no ledger, or need another one."""
        if trace_ids:
            with self._lock:
                self._seen.add(ids_of(trace_ids))
                self._assembler.left(trace_ids)

    def is_due(self) -> bool:
        """Whether a trace may be due."""
        with self._lock:
            return self._assembler.is_due()

    def due(self, limit: int) -> list[str]:
        """See `Assembler.due`; of traces that the store may know, it must have all."""
        with self._lock:
            due = self._assembler.due(limit)
            known = self._known_of(due)
            self._from_store(known)
            due = [one for one in due if one not in known]
            self._posts.take(due)
            return due

    def close_all(self) -> list[str]:
        """See `Assembler.close_all`."""
        with self._lock:
            return self._assembler.close_all()

    def held(self, taken: Sequence[str]) -> dict[str, Parts]:
        """Of traces that were taken, those that memory holds whole: where their spans are.

        The store knows nothing of these, and has none of their requests.
        """
        with self._lock:
            unseen = ~self._seen.may_hold(ids_of(taken))
            found: dict[str, Parts] = {}
            for trace_id, is_unseen in zip(taken, unseen.tolist(), strict=True):
                parts = self._posts.taken(trace_id)
                if parts is None and is_unseen and self._is_whole(trace_id):
                    parts = self._posts.parts(trace_id)
                if parts is not None:
                    found[trace_id] = parts
            return found

    def short(self, shown: Counts) -> Counts:
        """See `Assembler.short`."""
        with self._lock:
            return self._assembler.short(shown)

    def missed(self, short: Counts) -> set[str]:
        """Those of the traces that are open again, for the store may show all of them later."""
        with self._lock:
            return {one for one, by in short.items() if self._assembler.missed(one, by)}

    def doubt(self, trace_ids: Collection[str]) -> None:
        """Note that ledgers of these traces are written now: a failure may leave some of them."""
        if trace_ids:
            with self._lock:
                self._seen.add(ids_of(trace_ids))

    def attributed(self, trace_ids: Collection[str]) -> None:
        """Give back traces that have their ledgers, after `doubt`."""
        with self._lock:
            self._posts.give_back(trace_ids, accounted=True)
            self._assembler.attributed(trace_ids)
            self._posts.release(trace_ids)

    def without(self, trace_ids: Collection[str], reasons: Mapping[str, Without]) -> None:
        """Give back traces that have no ledger; those without a reason still hold no request."""
        with self._lock:
            self._posts.give_back(trace_ids, accounted=True)
            for trace_id in trace_ids:
                reason = reasons.get(trace_id)
                self._assembler.without([trace_id], reason)
                if reason is not None:
                    self._release([trace_id])
            self._release(self._assembler.take_forgotten())

    def again(self, trace_ids: Collection[str]) -> None:
        """See `Assembler.again`."""
        with self._lock:
            self._posts.give_back(trace_ids, accounted=False)
            self._assembler.again(trace_ids)

    def being_attributed(self, trace_ids: Iterable[str]) -> list[str]:
        """Those of the traces that were taken and not given back.

        Those that may have a ledger since they were taken are due once they are stored.
        """
        with self._lock:
            left = self._assembler.being_attributed(trace_ids)
            known = self._known_of(left)
            self._from_store(known)
            return [one for one in left if one not in known]

    def state(self, trace_id: str) -> TraceState:
        """See `Assembler.state`."""
        with self._lock:
            return self._assembler.state(trace_id)

    def is_open(self, trace_id: str) -> bool:
        """Whether spans of a trace have arrived that have no ledger yet."""
        with self._lock:
            return self._assembler.is_open(trace_id)

    def is_old(self, trace_id: str) -> bool:
        """See `Assembler.is_old`."""
        return self._assembler.is_old(trace_id)

    @property
    def is_overfull(self) -> bool:
        """Whether traces come faster than they are taken: no more should be let in."""
        return self._assembler.is_overfull

    @property
    def count(self) -> int:
        """How many traces are open."""
        return self._assembler.open_count

    @property
    def counts(self) -> AssemblerCounts:
        """Counts of what the bounds cost, as they change."""
        return self._assembler.counts

    @property
    def work(self) -> int:
        """How many spans can be attributed soon: those of traces with their root."""
        return self._assembler.account.open - self._assembler.counts.awaiting_root

    @property
    def held_bytes(self) -> int:
        """Memory that the spans of open traces take."""
        return self._posts.bytes

    @property
    def let_go(self) -> int:
        """Spans that memory had no room for."""
        return self._posts.let_go

    def account(self) -> Account:
        """The account of all spans, as it stands."""
        with self._lock:
            account = self._assembler.account
            return replace(account, without=account.without.copy())

    def _is_whole(self, trace_id: str) -> bool:
        count = self._posts.count(trace_id)
        return bool(count) and count == self._assembler.expected(trace_id)

    def _known_of(self, trace_ids: Iterable[str]) -> set[str]:
        """Of traces, those whose spans were claimed and which the store may know."""
        claimed = [one for one in trace_ids if self._posts.is_claimed(one)]
        if not claimed:
            return set()
        return set(compress(claimed, self._seen.may_hold(ids_of(claimed)).tolist()))

    def _from_store(self, trace_ids: Collection[str]) -> None:
        self._posts.give_back(trace_ids, accounted=False)
        self._assembler.from_store(trace_ids)
        for trace_id in trace_ids:
            self._posts.urge(trace_id)

    def _release(self, trace_ids: Collection[str]) -> None:
        if trace_ids:
            self._posts.release(trace_ids)
            self._seen.add(ids_of(trace_ids))
