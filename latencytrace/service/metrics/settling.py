"""Requests that are written and may still change: metrics and objectives count them once settled.

The two halves of a request through two services arrive seconds apart, so that its first
revision knows only one of them. No thread, no I/O.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from latencytrace.model import Request

MAX_PENDING: Final = 200_000  # beyond, the oldest settle early

Key = tuple[str, str]  # trace id, span id


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Requests to be counted, and up to which moment of writing all are."""

    requests: Sequence[Request]
    until_ns: int | None  # None: nothing settled


@dataclass(frozen=True, slots=True)
class _Pending:
    request: Request
    written_ns: int
    due_ns: int


class Settling:
    """Holds the latest revision of each request until nothing has come for it for a while.

    Args:
        now_ns: A clock that is never set back.
        settle_ns: How long nothing must come.
        max_pending: How many requests are held.
    """

    def __init__(
        self, now_ns: Callable[[], int], settle_ns: int, max_pending: int = MAX_PENDING
    ) -> None:
        self._now_ns = now_ns
        self._settle_ns = settle_ns
        self._max_pending = max_pending
        # In the order in which they were written, and so are due.
        self._pending: OrderedDict[Key, _Pending] = OrderedDict()
        self._withdrawn: OrderedDict[Key, None] = OrderedDict()  # before they were counted
        self._until_ns: int | None = None

    def add(self, requests: Iterable[Request], written_ns: int) -> None:
        """Hold requests that were written under a moment no earlier than any before."""
        due_ns = self._now_ns() + self._settle_ns
        for request in requests:
            key = (request.trace_id, request.span_id)
            self._pending[key] = _Pending(request, written_ns, due_ns)
            self._pending.move_to_end(key)
            self._withdrawn.pop(key, None)
        self._until_ns = written_ns

    def withdraw(self, keys: Iterable[Key]) -> None:
        """Let go of requests that turned out to be none."""
        for key in keys:
            if self._pending.pop(key, None) is not None:
                self._withdrawn[key] = None
        while len(self._withdrawn) > self._max_pending:
            self._withdrawn.popitem(last=False)

    def counted(self, known: Iterable[Request]) -> set[Key]:
        """Those of the requests that were written before which are counted by now."""
        keys = ((request.trace_id, request.span_id) for request in known)
        return {key for key in keys if key not in self._pending and key not in self._withdrawn}

    def settled(self) -> Settled:
        """Let go of the requests that are due; of those written at one moment all are."""
        now_ns = self._now_ns()
        taken: list[Request] = []
        until_ns: int | None = None
        while self._pending:
            first = next(iter(self._pending.values()))
            too_many = len(self._pending) > self._max_pending or first.written_ns == until_ns
            if first.due_ns > now_ns and not too_many:
                break
            self._pending.popitem(last=False)
            taken.append(first.request)
            until_ns = first.written_ns
        if not self._pending:
            until_ns, self._until_ns = self._until_ns, None
        return Settled(requests=taken, until_ns=until_ns)
