"""Requests that are written and may still change: metrics and objectives count them once settled.

The two halves of a request through two services arrive seconds apart, so that its first
revision knows only one of them. No thread, no I/O.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.analysis.columns.request_table import RequestTable
from latencytrace.model import Request

MAX_PENDING: Final = 200_000  # beyond, the oldest settle early

Key = tuple[str, str]  # trace id, span id


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Requests to be counted, and up to which moment of writing all are."""

    requests: Sequence[Request]
    until_ns: int | None  # None: nothing settled
    tables: Sequence[RequestTable] = ()  # further ones

    def each(self) -> Iterator[Request]:
        """Yield all of them; those of tables are made objects as they are asked for."""
        return chain(self.requests, chain.from_iterable(map(requests_of, self.tables)))


@dataclass(eq=False)
class _Written:
    """Requests that were written together, less those that were taken out since."""

    written_ns: int
    due_ns: int
    table: RequestTable | None
    requests: dict[Key, Request] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)  # places in the table

    def __len__(self) -> int:
        in_table = 0 if self.table is None else len(self.table) - len(self.gone)
        return in_table + len(self.requests)

    @cached_property
    def places(self) -> Mapping[Key, int]:
        """Where in the table each of its requests is: few ask for that."""
        if self.table is None:
            return {}
        span_ids = self.table.span_id.tolist()
        return {
            (trace_id, f"{span_id:016x}"): place
            for place, (trace_id, span_id) in enumerate(
                zip(self.table.trace_ids, span_ids, strict=True)
            )
        }

    def holds(self, key: Key) -> bool:
        """Return whether a request is among them."""
        if key in self.requests:
            return True
        place = self.places.get(key)
        return place is not None and place not in self.gone

    def take_out(self, key: Key) -> None:
        """Take out a request that is among them."""
        if self.requests.pop(key, None) is None:
            self.gone.add(self.places[key])

    def left(self) -> RequestTable | None:
        """What is left of the table."""
        if self.table is None or not self.gone:
            return self.table
        kept = np.ones(len(self.table), np.bool_)
        kept[list(self.gone)] = False
        return self.table.taken(np.flatnonzero(kept))


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
        self._pending: deque[_Written] = deque()
        self._count = 0
        self._withdrawn: OrderedDict[Key, None] = OrderedDict()  # before they were counted
        self._until_ns: int | None = None

    def add(
        self, requests: Iterable[Request], written_ns: int, table: RequestTable | None = None
    ) -> None:
        """Hold requests that were written under a moment no earlier than any before.

        Args:
            requests: Any.
            written_ns: The moment.
            table: More of them, of none of which anything was written before.
        """
        written = _Written(written_ns, self._now_ns() + self._settle_ns, table)
        for request in requests:
            key = (request.trace_id, request.span_id)
            self._take_out(key)
            written.requests[key] = request
            self._withdrawn.pop(key, None)
        if len(written):
            self._pending.append(written)
            self._count += len(written)
        self._until_ns = written_ns

    def withdraw(self, keys: Iterable[Key]) -> None:
        """Let go of requests that turned out to be none."""
        for key in keys:
            if self._take_out(key):
                self._withdrawn[key] = None
        while len(self._withdrawn) > self._max_pending:
            self._withdrawn.popitem(last=False)

    def counted(self, known: Iterable[Request]) -> set[Key]:
        """Those of the requests that were written before which are counted by now."""
        keys = ((request.trace_id, request.span_id) for request in known)
        return {key for key in keys if key not in self._withdrawn and self._of(key) is None}

    def settled(self) -> Settled:
        """Let go of the requests that are due; of those written at one moment all are."""
        now_ns = self._now_ns()
        taken: list[Request] = []
        tables: list[RequestTable] = []
        until_ns: int | None = None
        while self._pending:
            first = self._pending[0]
            too_many = self._count > self._max_pending or first.written_ns == until_ns
            if len(first) and first.due_ns > now_ns and not too_many:
                break
            self._pending.popleft()
            if not len(first):
                continue
            self._count -= len(first)
            taken += first.requests.values()
            if (table := first.left()) is not None:
                tables.append(table)
            until_ns = first.written_ns
        if not self._pending:
            until_ns, self._until_ns = self._until_ns, None
        return Settled(requests=taken, tables=tables, until_ns=until_ns)

    def _of(self, key: Key) -> _Written | None:
        """Where a request is held: most that are asked for came lately."""
        return next((one for one in reversed(self._pending) if one.holds(key)), None)

    def _take_out(self, key: Key) -> bool:
        """Take out a request, if it is held."""
        found = self._of(key)
        if found is not None:
            found.take_out(key)
            self._count -= 1
        return found is not None
