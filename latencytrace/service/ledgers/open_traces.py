"""Open traces and their spans, behind one lock."""

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
    """Limits of what is kept in memory."""

    open: int = MAX_OPEN  # traces; beyond it the oldest are attributed at once
    closed: int = MAX_CLOSED  # ids of traces that were attributed
    held_bytes: int = MAX_BYTES  # of spans


USUAL: Final = Bounds()


class OpenTraces:
    """The `Assembler` and the `Posts`, safe for several threads.

    Args:
        now_ns: A monotonic clock.
        bounds: Limits of what is kept in memory.
    """

    def __init__(self, now_ns: Callable[[], int], bounds: Bounds = USUAL) -> None:
        self._posts = Posts(bounds.held_bytes)
        self._assembler = Assembler(
            now_ns, max_open=bounds.open, max_closed=bounds.closed, posts=self._posts
        )
        self._seen = SeenTraces()
        self._lock = threading.Lock()  # guards all of the above

    def arrived(self, requests: Iterable[CheckedRequest]) -> None:
        """Note that the spans of these posts arrived and wait to be stored."""
        with self._lock:
            for checked in requests:
                if let_go := self._posts.add(checked.columns, checked.rows):
                    self._seen.add(ids_of(let_go))
                self._assembler.arrived(checked.span_counts, checked.rooted)

    def in_journal(self, request: CheckedRequest) -> None:
        """Note that a post is durable, so that it can wait for the ledgers of its traces."""
        with self._lock:
            self._posts.in_journal(request.columns)

    def begin(self, block: SpanBlock) -> SpanBlock | None:
        """Begin to commit a post: return the part that is not stored; None: it has to wait."""
        with self._lock:
            rows = self._posts.begin(block, self._assembler.being_attributed)
        return None if rows is None else part_of(block, rows)

    def ended(self, requests: Iterable[CheckedRequest], outcome: Outcome) -> None:
        """Note how the commit of posts ended."""
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
        """Return the posts that must be committed soon, since the last call."""
        with self._lock:
            return self._posts.take_urgent()

    def take_written(self) -> Sequence[SpanBlock]:
        """Return the posts that attributions stored completely since the last call."""
        with self._lock:
            return self._posts.take_written()

    def claimed(self, trace_ids: Iterable[str]) -> Sequence[SpanBlock]:
        """Return the spans that the attribution of these traces has to store, as blocks."""
        with self._lock:
            found = list(self._posts.claimed(trace_ids))
        return [part_of(block, rows) for block, rows in found]

    def written(self, trace_ids: Iterable[str]) -> None:
        """Note that the attribution of traces has stored their claimed spans."""
        with self._lock:
            self._posts.written(trace_ids)

    def known(self, halves: NDArray[np.uint64]) -> None:
        """Note that the store may have ledgers or spans of traces.

        Args:
            halves: High and low half of each trace id (n, 2).
        """
        with self._lock:
            self._seen.add(mixed(halves))

    def left(self, trace_ids: Collection[str]) -> None:
        """Open traces whose spans are in the store and need a ledger, or a new revision."""
        if trace_ids:
            with self._lock:
                self._seen.add(ids_of(trace_ids))
                self._assembler.left(trace_ids)

    def is_due(self) -> bool:
        """Return whether a trace may be due."""
        with self._lock:
            return self._assembler.is_due()

    def due(self, limit: int) -> list[str]:
        """Take traces that are due (`Assembler.due`).

        A trace that the store may know already is not taken with claimed spans: it is due again
        once the store has all of them.
        """
        with self._lock:
            due = self._assembler.due(limit)
            known = self._known_of(due)
            self._from_store(known)
            due = [one for one in due if one not in known]
            self._posts.take(due)
            return due

    def close_all(self) -> list[str]:
        """Take every trace that has its root, at the end of the service."""
        with self._lock:
            return self._assembler.close_all()

    def held(self, taken: Sequence[str]) -> dict[str, Parts]:
        """Return the spans of those taken traces that are completely in memory.

        The store has no ledger of these.
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
        """Return how many spans of taken traces the store does not show, where it lacks some."""
        with self._lock:
            return self._assembler.short(shown)

    def missed(self, short: Counts) -> set[str]:
        """Note which spans the store does not show; return the traces that are tried again."""
        with self._lock:
            return {one for one, by in short.items() if self._assembler.missed(one, by)}

    def doubt(self, trace_ids: Collection[str]) -> None:
        """Note that ledgers of these traces may be in the store: a failed write may leave some."""
        if trace_ids:
            with self._lock:
                self._seen.add(ids_of(trace_ids))

    def attributed(self, trace_ids: Collection[str]) -> None:
        """Give back traces whose ledgers are written. `doubt` must have been called before."""
        with self._lock:
            self._posts.give_back(trace_ids, accounted=True)
            self._assembler.attributed(trace_ids)
            self._posts.release(trace_ids)

    def without(self, trace_ids: Collection[str], reasons: Mapping[str, Without]) -> None:
        """Give back traces that end without a ledger.

        Args:
            trace_ids: Traces to give back.
            reasons: Why, by trace; a trace without a reason waits for its root.
        """
        with self._lock:
            self._posts.give_back(trace_ids, accounted=True)
            for trace_id in trace_ids:
                reason = reasons.get(trace_id)
                self._assembler.without([trace_id], reason)
                if reason is not None:
                    self._release([trace_id])
            self._release(self._assembler.take_forgotten())

    def again(self, trace_ids: Collection[str]) -> None:
        """Give back traces that could not be attributed for now: they are open again."""
        with self._lock:
            self._posts.give_back(trace_ids, accounted=False)
            self._assembler.again(trace_ids)

    def being_attributed(self, trace_ids: Iterable[str]) -> list[str]:
        """Return those of the traces that were taken and not given back.

        A trace that may have got a ledger meanwhile is given back, to be read from the store.
        """
        with self._lock:
            left = self._assembler.being_attributed(trace_ids)
            known = self._known_of(left)
            self._from_store(known)
            return [one for one in left if one not in known]

    def state(self, trace_id: str) -> TraceState:
        """Return the state of a trace."""
        with self._lock:
            return self._assembler.state(trace_id)

    def is_open(self, trace_id: str) -> bool:
        """Return whether a trace has spans that are not attributed yet."""
        with self._lock:
            return self._assembler.state(trace_id).is_open

    def open_because(self, trace_id: str) -> str | None:
        """Return what an open trace waits for, as people read it; None: it is not open."""
        with self._lock:
            return self._assembler.open_because(trace_id)

    def is_old(self, trace_id: str) -> bool:
        """Return whether the root of a trace is not expected any more."""
        return self._assembler.is_old(trace_id)

    @property
    def is_overfull(self) -> bool:
        """Whether so many traces are open that new spans must be refused."""
        return self._assembler.is_overfull

    @property
    def count(self) -> int:
        """How many traces are open."""
        return self._assembler.open_count

    @property
    def counts(self) -> AssemblerCounts:
        """Counts for metrics and for admission; they change as it works."""
        return self._assembler.counts

    @property
    def work(self) -> int:
        """How many spans wait to be attributed: those of traces with their root."""
        return self._assembler.account.open - self._assembler.counts.awaiting_root

    @property
    def held_bytes(self) -> int:
        """Memory of the spans of open traces, in bytes."""
        return self._posts.bytes

    @property
    def let_go(self) -> int:
        """How many spans left memory because it was full."""
        return self._posts.let_go

    def account(self) -> Account:
        """Return a copy of the account of all spans."""
        with self._lock:
            account = self._assembler.account
            return replace(account, without=account.without.copy())

    def _is_whole(self, trace_id: str) -> bool:
        count = self._posts.count(trace_id)
        return bool(count) and count == self._assembler.expected(trace_id)

    def _known_of(self, trace_ids: Iterable[str]) -> set[str]:
        """Return the claimed traces that the store may have a ledger of."""
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
