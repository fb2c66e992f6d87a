"""Group commit: many senders' requests become one insert, and each is answered after it."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from latencytrace.errors import OtlpError, OverloadedError, PoisonedBlockError, StoreError
from latencytrace.service.otlp import CheckedRequest, without_unknown_fields

_log = logging.getLogger(__name__)

OnCommit = Callable[[list[CheckedRequest]], None]

INTERVAL_NS = 100_000_000  # between the beginnings of two commits, unless one is full
MAX_SPANS = 50_000  # in one commit; more are not waited for
MAX_BYTES = 256 * 1024 * 1024  # waiting and being committed, all together


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A request and the sender's claim to hear what became of it."""

    request: CheckedRequest
    future: Future[None] = field(default_factory=Future)


class BlockTaker(Protocol):
    """What a committer needs of a `Store`."""

    def insert_otlp(self, block: bytes) -> None:
        """See `Store.insert_otlp`."""
        ...


class CommitQueue:
    """Requests that wait for a commit, and the rule when it is due. No threads in it."""

    def __init__(self, *, interval_ns: int = INTERVAL_NS, max_spans: int = MAX_SPANS) -> None:
        self._interval_ns = interval_ns
        self._max_spans = max_spans
        self._waiting: list[Waiting] = []
        self._span_count = 0
        self._last_ns: int | None = None  # when the last commit began

    def add(self, waiting: Waiting) -> None:
        """Put a request at the end."""
        self._waiting.append(waiting)
        self._span_count += waiting.request.span_count

    def due_in_ns(self, now_ns: int) -> int | None:
        """How long the next commit can wait for company.

        Returns:
            0 when nothing was committed lately or a commit is full; None when
            nothing waits.
        """
        if not self._waiting:
            return None
        if self._last_ns is None or self._span_count >= self._max_spans:
            return 0
        # A clock that was set back must not hold up anybody for longer than the interval.
        since_ns = max(now_ns - self._last_ns, 0)
        return max(self._interval_ns - since_ns, 0)

    def take(self, now_ns: int) -> list[Waiting]:
        """Remove what goes into one commit that begins now, at least one request."""
        spans = 0
        count = 0
        for waiting in self._waiting:
            spans += waiting.request.span_count
            count += 1
            if spans >= self._max_spans:
                break
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._span_count -= spans
        self._last_ns = now_ns
        return taken


class Committer:
    """Commits requests to a store from one thread.

    A request is committed at once when the last commit is long past, otherwise
    with all that came within an interval. A future resolves after its commit.

    Args:
        store: Takes the blocks.
        on_commit: Told what was committed, in the committing thread, before the
            futures resolve.
        now_ns: The clock.
        max_bytes: How much may wait before `submit` refuses.
    """

    def __init__(
        self,
        store: BlockTaker,
        *,
        on_commit: OnCommit,
        now_ns: Callable[[], int],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._store = store
        self._on_commit = on_commit
        self._now_ns = now_ns
        self._max_bytes = max_bytes
        self._queue = CommitQueue()
        self._bytes = 0
        self._open = True
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="latencytrace-commit", daemon=True)

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def submit(self, request: CheckedRequest) -> Future[None]:
        """Queue a request.

        Returns:
            Resolves once its spans are safe from the death of this process. It
            fails with `OtlpError` when the store's engine cannot read this
            request, with `StoreError` when the store fails.

        Raises:
            OverloadedError: Too much waits already.
            StoreError: The committer is closed.
        """
        waiting = Waiting(request=request)
        if not request.span_count:
            waiting.future.set_result(None)
            return waiting.future
        with self._changed:
            if not self._open:
                raise StoreError("the service is shutting down: send the spans again later")
            if self._bytes and self._bytes + len(request.block) > self._max_bytes:
                raise OverloadedError(
                    f"{self._bytes} bytes of spans wait to be stored: send again in a second"
                )
            self._bytes += len(request.block)
            self._queue.add(waiting)
            self._changed.notify()
        return waiting.future

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait or are being committed."""
        return self._bytes

    def close(self) -> None:
        """Commit what is queued, then stop; later requests are refused."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while taken := self._next():
                self._commit(taken)
                with self._changed:
                    self._bytes -= sum(len(waiting.request.block) for waiting in taken)
        finally:
            self._abandon()

    def _next(self) -> list[Waiting]:
        """Wait until a commit is due; empty: closed and nothing left."""
        with self._changed:
            while True:
                due_in_ns = self._queue.due_in_ns(self._now_ns())
                if due_in_ns is None and not self._open:
                    return []
                if due_in_ns is not None and (due_in_ns == 0 or not self._open):
                    return self._queue.take(self._now_ns())
                self._changed.wait(None if due_in_ns is None else due_in_ns / 1e9)

    def _abandon(self) -> None:
        """Leave nobody waiting for a thread that is gone."""
        with self._changed:
            self._open = False
            while left := self._queue.take(self._now_ns()):
                _fail(left, StoreError("the service is shutting down: send the spans again"))

    def _commit(self, taken: Sequence[Waiting]) -> None:
        # A sender that hung up has cancelled its future; its spans are kept all the same.
        answered = [waiting for waiting in taken if waiting.future.set_running_or_notify_cancel()]
        try:
            refused = self._insert(taken)
        except StoreError as error:
            _log.error("%d requests were not stored: %s", len(taken), error)
            _fail(answered, error)
            return
        committed = [waiting for waiting in taken if id(waiting) not in refused]
        if committed:
            self._on_commit([waiting.request for waiting in committed])
        for waiting in answered:
            fault = refused.get(id(waiting))
            if fault is None:
                waiting.future.set_result(None)
            else:
                waiting.future.set_exception(fault)

    def _insert(self, taken: Sequence[Waiting]) -> dict[int, OtlpError]:
        """Insert requests as one block; halve it where the engine refuses it.

        Returns:
            What is wrong with each request that could not be kept, by its `id()`.
        """
        try:
            self._store.insert_otlp(b"".join(waiting.request.block for waiting in taken))
        except PoisonedBlockError as error:
            if len(taken) == 1:
                return self._insert_reencoded(taken[0], error)
            middle = len(taken) // 2
            return self._insert(taken[:middle]) | self._insert(taken[middle:])
        return {}

    def _insert_reencoded(
        self, waiting: Waiting, error: PoisonedBlockError
    ) -> dict[int, OtlpError]:
        try:
            self._store.insert_otlp(without_unknown_fields(waiting.request.block))
        except (PoisonedBlockError, OtlpError):
            _log.warning("a request of %d spans is refused: %s", waiting.request.span_count, error)
            return {id(waiting): OtlpError(f"the request cannot be read: {error}")}
        return {}


def _fail(waiting: Sequence[Waiting], error: StoreError) -> None:
    for one in waiting:
        if not one.future.done():
            one.future.set_exception(error)
