"""Group commit: many senders' requests become one insert.

Each is answered once its spans are safe from the death of this process: once the journal holds
them, or after its commit where there is no journal. An insert costs some 10 ms of CPU however
few spans it has, so that rare ones leave the machine to the programs that are traced. What the
journal holds may wait a little longer still: the ledgers that are made meanwhile are written
together with their spans, and there is nothing left to commit (`Committer.release`).
"""

import logging
import threading
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import Protocol

from latencytrace.errors import OtlpError, OverloadedError, PoisonedBlockError, StoreError
from latencytrace.service.ingest.journal import Journal, Segment
from latencytrace.service.otlp.scanner import scanned
from latencytrace.service.otlp.span_block import SpanBlock, is_packed, unpacked
from latencytrace.service.otlp.traces import CheckedRequest

_log = logging.getLogger(__name__)

INTERVAL_NS = 100_000_000  # between the beginnings of two commits, unless one is full
RETRY_NS = 1_000_000_000  # at most, after a commit that the store did not take
BUSY_NS = 200_000_000  # until a request is looked at again of which others store a part
MAX_SPANS = 50_000  # in one commit; more are not waited for
MAX_BYTES = 256 * 1024 * 1024  # waiting and being committed, all together


class Outcome(StrEnum):
    """The end of a request that was submitted."""

    STORED = "stored"
    REFUSED = "refused"  # acknowledged, but the store's engine cannot read it
    FAILED = "failed"  # never acknowledged: its sender got an error
    WAITING = "waiting"  # no end: the store did not take it, and will be asked again


OnSettled = Callable[[Sequence[CheckedRequest], Outcome], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiting:
    """A request and the sender's claim to hear what became of it."""

    request: CheckedRequest
    part: SpanBlock | None = None  # what of it is to be committed; None: all
    due_ns: int = 0  # not before
    segment: Segment | None = None  # of the journal that holds it: it was acknowledged
    future: Future[None] = field(default_factory=Future)


class BlockTaker(Protocol):
    """The part of a `Store` that a committer needs."""

    def insert(self, blocks: Sequence[SpanBlock]) -> None: ...


def _due_ns(waiting: Waiting) -> int:
    return waiting.due_ns


class CommitQueue:
    """Requests that wait for a commit, and the rule when it is due. No threads in it."""

    def __init__(self, *, max_spans: int = MAX_SPANS) -> None:
        self.interval_ns = INTERVAL_NS
        self._max_spans = max_spans
        self._waiting: list[Waiting] = []
        self._span_count = 0
        self._last_ns: int | None = None  # when the last commit began
        self.is_retry = False  # what is first could not be committed before

    def add(self, waiting: Waiting) -> None:
        """Put a request behind all that are due no later."""
        insort(self._waiting, waiting, key=_due_ns)
        self._span_count += waiting.request.span_count

    def is_alone(self, waiting: Waiting) -> bool:
        """Tell whether a request is the first one."""
        return self._waiting[0] is waiting

    def put_back(self, taken: Sequence[Waiting]) -> None:
        """Put requests first that could not be committed; full or not, they wait an interval."""
        self._waiting[:0] = [replace(waiting, due_ns=0) for waiting in taken]
        self._span_count += sum(waiting.request.span_count for waiting in taken)
        self.is_retry = True

    def due_in_ns(self, now_ns: int) -> int | None:
        """Return how long the next commit can wait for company.

        Returns:
            0 when nothing was committed lately or a commit is full; None when
            nothing waits.
        """
        if not self._waiting:
            return None
        held_ns = max(self._waiting[0].due_ns - now_ns, 0)
        is_full = not (held_ns or self.is_retry) and self._is_full(now_ns)
        if self._last_ns is None or is_full:
            return held_ns
        # A clock that was set back must not hold up a post for longer than the interval.
        since_ns = max(now_ns - self._last_ns, 0)
        interval_ns = min(self.interval_ns, RETRY_NS) if self.is_retry else self.interval_ns
        return max(interval_ns - since_ns, held_ns, 0)

    def _is_full(self, now_ns: int) -> bool:
        """Tell whether so many spans are due that more are not waited for."""
        if self._span_count < self._max_spans:
            return False
        due = takewhile(lambda one: one.due_ns <= now_ns, self._waiting)
        return sum(one.request.span_count for one in due) >= self._max_spans

    def remove(self, columns: Iterable[SpanBlock]) -> list[Waiting]:
        """Remove the requests with these spans."""
        gone = set(map(id, columns))
        removed = [one for one in self._waiting if id(one.request.columns) in gone]
        self._waiting = [one for one in self._waiting if id(one.request.columns) not in gone]
        self._span_count -= sum(waiting.request.span_count for waiting in removed)
        return removed

    def take(self, now_ns: int, *, early: bool = False) -> list[Waiting]:
        """Remove what goes into one commit that begins now, at least one request.

        Args:
            early: Those, too, that may still wait.
        """
        spans = 0
        count = 0
        for waiting in self._waiting:
            if count and not early and waiting.due_ns > now_ns:
                break
            spans += waiting.request.span_count
            count += 1
            if spans >= self._max_spans:
                break
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._span_count -= spans
        self._last_ns = now_ns
        self.is_retry = False
        return taken


class Committer:
    """Commits requests to a store from one thread.

    A request is committed at once when the last commit is long past, otherwise with all that
    came within an interval, or up to a `flush`. A future resolves once the journal holds it;
    without a journal, after its commit.

    Args:
        on_settled: Takes the end of each request, in the committing thread, before the
            futures resolve.
        begin: Tells what of a request's columns is to be committed; None: nothing for now.
        max_bytes: How much may wait before `submit` refuses.
        journal: Holds what was acknowledged; None: every post waits for the commit.
    """

    def __init__(
        self,
        store: BlockTaker,
        *,
        on_settled: OnSettled,
        now_ns: Callable[[], int],
        begin: Callable[[SpanBlock], SpanBlock | None] = lambda columns: columns,
        max_bytes: int = MAX_BYTES,
        journal: Journal | None = None,
    ) -> None:
        self._store = store
        self._on_settled = on_settled
        self._now_ns = now_ns
        self._begin = begin
        self._max_bytes = max_bytes
        self._journal = journal
        self._hold_ns = 0
        self._queue = CommitQueue()
        self._bytes = 0
        self._open = True
        self._ended = False  # the thread does nothing more
        self._submitted = 0  # requests, in the order of their commits
        self._settled = 0  # of these; committed, or refused
        self._wanted = 0  # of these; `flush` waits for them
        self._fault: StoreError | None = None  # of the last commit
        self._journal_fault: StoreError | None = None  # of the last request
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="latencytrace-commit", daemon=True)

    def resume(self) -> list[CheckedRequest]:
        """Queue what an earlier process acknowledged and did not commit.

        Returns:
            It.
        """
        with self._changed:
            left = [] if self._journal is None else list(_left(self._journal))
            for request, segment in left:
                self._add(request, segment)
        return [request for request, _ in left]

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def set_interval(self, interval_ns: int, hold_ns: int = 0) -> None:
        """Commit as rarely as this, and what came so long ago, where there is a journal."""
        if self._journal is not None:
            self._queue.interval_ns, self._hold_ns = interval_ns, hold_ns

    @property
    def holds(self) -> bool:
        """Return whether requests wait for a while for their ledgers."""
        return bool(self._hold_ns)

    def hasten(self, columns: Collection[SpanBlock]) -> None:
        """Commit requests with these spans with the next ones."""
        if columns:
            with self._changed:
                for waiting in self._queue.remove(columns):
                    self._queue.add(replace(waiting, due_ns=0))
                self._changed.notify_all()

    def release(self, columns: Collection[SpanBlock]) -> None:
        """Let go of requests with these spans, for others have stored all of them."""
        if not columns:
            return
        with self._changed:
            released = self._queue.remove(columns)
            self._let_go(released)
            self._fault, self._queue.is_retry = None, False  # the store takes spans
            if self._journal is not None:
                self._journal.rotate()
            self._changed.notify_all()

    def submit(self, request: CheckedRequest) -> Future[None]:
        """Queue a request.

        Returns:
            Resolves once its spans are safe from the death of this process. It
            fails with `OtlpError` when the store's engine cannot read this
            request, with `StoreError` when the store fails.

        Raises:
            OverloadedError: Too much waits already.
            StoreError: The committer is closed, or the journal cannot be written.
        """
        if not request.span_count:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        with self._changed:
            if not self._open:
                raise StoreError("the service is shutting down: send the spans again later")
            if self._bytes and self._bytes + request.columns.nbytes > self._max_bytes:
                raise OverloadedError(
                    f"{self._bytes} bytes of spans wait to be stored: send again in a second"
                )
            if self._journal is None:
                waiting = self._add(request)
            else:
                waiting = self._add(request, self._noted(self._journal, request))
                waiting.future.set_result(None)
            if self._queue.is_alone(waiting) or not self._hold_ns:
                self._changed.notify_all()
        return waiting.future

    def flush(self) -> None:
        """Commit all that was submitted, now.

        Raises:
            StoreError: The store fails, and will be asked again.
        """
        with self._changed:
            if self._ended or not self._thread.is_alive():
                return
            last = self._wanted = self._submitted
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._settled >= last or self._wanted < last or self._ended
            )
            if self._settled < last and self._fault is not None:
                raise self._fault

    @property
    def is_running(self) -> bool:
        """Return whether requests are being committed."""
        return self._thread.is_alive()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait or are being committed."""
        return self._bytes

    @property
    def fault(self) -> StoreError | None:
        """Return why nothing can be kept for now; None: it can, as far as is known."""
        return self._journal_fault or self._fault

    @property
    def damaged_files(self) -> Mapping[str, int]:
        """The files of the journal that are damaged, and in how many places."""
        return {} if self._journal is None else self._journal.damaged_files

    def probe(self) -> None:
        """Look whether the journal can be written again."""
        with self._changed:
            if self._journal_fault is not None and self._journal is not None:
                with suppress(StoreError):
                    self._journal.probe()
                    self._journal_fault = None

    def close(self) -> None:
        """Commit what is queued, then stop; later requests are refused."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _noted(self, journal: Journal, request: CheckedRequest) -> Segment:
        try:
            segment = journal.append(request.columns.packed())
        except StoreError as error:
            self._journal_fault = error
            raise
        self._journal_fault = None
        return segment

    def _run(self) -> None:
        try:
            while taken := self._next():
                done = False
                try:
                    if ready := self._begun(taken):
                        self._settle(ready, self._commit(ready))
                    done = True
                finally:
                    if not done:  # a fault of ours ends this thread: no caller must wait for it
                        self._fail(taken, StoreError("the service has failed: see its log"))
        finally:
            self._abandon()

    def _next(self) -> list[Waiting]:
        """Wait until a commit is due; empty: closed and nothing left."""
        with self._changed:
            while True:
                due_in_ns = self._queue.due_in_ns(self._now_ns())
                if due_in_ns is None and not self._open:
                    return []
                # What could not be committed waits for the interval in any case.
                is_wanted = self._wanted > self._settled and not self._queue.is_retry
                is_wanted |= not self._open
                if due_in_ns is not None and (due_in_ns == 0 or is_wanted):
                    if self._journal is not None:
                        self._journal.rotate()
                    return self._queue.take(self._now_ns(), early=is_wanted)
                self._changed.wait(None if due_in_ns is None else due_in_ns / 1e9)

    def _begun(self, taken: Sequence[Waiting]) -> list[Waiting]:
        """The posts that can be committed now; the others wait on."""
        parts = [(one, self._begin(one.request.columns)) for one in taken]
        ready = [replace(one, part=part) for one, part in parts if part is not None]
        if len(ready) < len(taken):
            with self._changed:
                for busy in (one for one, part in parts if part is None):
                    self._queue.add(replace(busy, due_ns=self._now_ns() + BUSY_NS))
                if not ready:  # wait for the thread that has the rest
                    self._changed.wait(BUSY_NS / 1e9)
        return ready

    def _add(self, request: CheckedRequest, segment: Segment | None = None) -> Waiting:
        due_ns = self._now_ns() + self._hold_ns if self._hold_ns else 0
        waiting = Waiting(request=request, due_ns=due_ns, segment=segment)
        self._bytes += request.columns.nbytes
        self._submitted += 1
        self._queue.add(waiting)
        return waiting

    def _settle(self, taken: Sequence[Waiting], fault: StoreError | None) -> None:
        """Let go of what was committed or refused; keep what was acknowledged and was not."""
        with self._changed:
            self._fault = fault
            # At the end the journal alone keeps it, for the next start.
            gone = taken
            if fault is not None and self._open:
                self._queue.put_back([one for one in taken if one.segment])
                gone = [one for one in taken if not one.segment]
            self._let_go(gone, stored=fault is None)
            if fault is not None:
                self._wanted = self._settled
            self._changed.notify_all()

    def _let_go(self, gone: Sequence[Waiting], *, stored: bool = True) -> None:
        """Forget requests, and where they are stored delete them from the journal."""
        if stored and self._journal is not None:
            for segment in (one.segment for one in gone if one.segment):
                self._journal.committed(segment)
        self._settled += len(gone)
        self._bytes -= sum(waiting.request.columns.nbytes for waiting in gone)

    def _abandon(self) -> None:
        """Wake every caller that waits for a thread that is gone."""
        with self._changed:
            self._open = False
            self._ended = True
            while left := self._queue.take(self._now_ns()):
                self._fail(left, StoreError("the service is shutting down: send them again"))
            if self._journal is not None:
                self._journal.rotate()
            self._wanted = 0
            self._changed.notify_all()

    def _commit(self, taken: Sequence[Waiting]) -> StoreError | None:
        try:
            refused = _inserted(self._store, taken)
        except StoreError as error:
            _log.error("%d requests were not stored: %s", len(taken), error)
            self._fail([one for one in taken if one.segment is None], error)
            self._end([one for one in taken if one.segment], Outcome.WAITING)
            return error
        stored = [one for one in taken if id(one) not in refused]
        self._end(stored, Outcome.STORED)
        self._end([one for one in taken if id(one) in refused and one.segment], Outcome.REFUSED)
        _answer([one for one in stored if one.segment is None])
        for waiting in taken:
            if waiting.segment is None and id(waiting) in refused:
                self._fail([waiting], refused[id(waiting)])
        return None

    def _fail(self, waiting: Sequence[Waiting], error: StoreError | OtlpError) -> None:
        """Tell senders that their spans are not kept; those of the journal are."""
        failed = [one for one in waiting if one.segment is None]
        self._end(failed, Outcome.FAILED)
        _answer(failed, error)

    def _end(self, waiting: Sequence[Waiting], outcome: Outcome) -> None:
        if waiting:
            self._on_settled([one.request for one in waiting], outcome)


def _columns(block: bytes) -> SpanBlock:
    """The spans of a block of the journal; those of earlier versions are protobuf.

    Raises:
        OtlpError: The block holds no spans.
    """
    if not is_packed(block):
        # What is to be taken out was taken out before it was written.
        return scanned(block, capture_content=True)
    try:
        return unpacked(block)
    except ValueError as error:
        raise OtlpError(str(error)) from None


def _left(journal: Journal) -> Iterator[tuple[CheckedRequest, Segment]]:
    """The requests that an earlier process acknowledged and did not commit."""
    for block, segment in journal.left():
        try:
            yield CheckedRequest.of(_columns(block)), segment
        except OtlpError as error:
            segment.refuse(error)


def _inserted(store: BlockTaker, taken: Sequence[Waiting]) -> dict[int, OtlpError]:
    """Insert requests as one block; halve it where the engine refuses it.

    Returns:
        What is wrong with each request that could not be kept, by its `id()`.
    """
    try:
        store.insert([one.part or one.request.columns for one in taken])
    except PoisonedBlockError as error:
        if len(taken) > 1:
            middle = len(taken) // 2
            return _inserted(store, taken[:middle]) | _inserted(store, taken[middle:])
        _log.warning("a request of %d spans is refused: %s", taken[0].request.span_count, error)
        return {id(taken[0]): OtlpError(f"the request cannot be stored: {error}")}
    return {}


def _answer(waiting: Iterable[Waiting], error: StoreError | OtlpError | None = None) -> None:
    """Tell senders that their spans are kept, or why not."""
    for one in waiting:
        # A sender that hung up has cancelled its future.
        if one.future.set_running_or_notify_cancel():
            if error is None:
                one.future.set_result(None)
            else:
                one.future.set_exception(error)
