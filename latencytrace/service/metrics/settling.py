"""Requests that are written and may still change: metrics and objectives count them once settled.

The two halves of a request through two services arrive seconds apart, so that its first
revision knows only one of them. No thread, no I/O.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from latencytrace.model import Request
from latencytrace.service.ledger_table import Key, LedgerTable, each_request

MAX_PENDING: Final = 200_000  # beyond, the oldest settle early


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Requests to be counted, and up to which moment of writing all are."""

    tables: Sequence[LedgerTable]
    until_ns: int | None  # None: nothing settled

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def each(self) -> Iterator[Request]:
        """Yield an object of each of them, made as it is asked for."""
        return each_request(self.tables)


@dataclass(eq=False)
class _Written:
    """Requests of a table that were written and not taken out since."""

    written_ns: int
    due_ns: int
    table: LedgerTable
    gone: set[int] = field(default_factory=set)  # places

    def __len__(self) -> int:
        return len(self.table) - len(self.gone)

    @cached_property
    def places(self) -> Mapping[Key, int]:
        """The place of each request: few ask for that."""
        return {key: place for place, key in enumerate(self.table.keys)}

    def holds(self, key: Key) -> bool:
        """Return whether a request is among them."""
        place = self.places.get(key)
        return place is not None and place not in self.gone

    def take_out(self, key: Key) -> None:
        """Take out a request that is among them."""
        self.gone.add(self.places[key])

    def left(self) -> LedgerTable:
        if not self.gone:
            return self.table
        return self.table.taken(np.setdiff1d(np.arange(len(self.table)), list(self.gone)))


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
        self, tables: Iterable[LedgerTable], written_ns: int, known: Iterable[Key] = ()
    ) -> None:
        """Hold requests that were written under a moment no earlier than any before.

        Args:
            known: Requests that were written before: their entry is forgotten.
        """
        for key in known:
            self._take_out(key)
            self._withdrawn.pop(key, None)
        due_ns = self._now_ns() + self._settle_ns
        for table in tables:
            if len(table):
                self._pending.append(_Written(written_ns, due_ns, table))
                self._count += len(table)
        self._until_ns = written_ns

    def withdraw(self, keys: Iterable[Key]) -> None:
        """Let go of requests that turned out to be none."""
        for key in keys:
            if self._take_out(key):
                self._withdrawn[key] = None
        while len(self._withdrawn) > self._max_pending:
            self._withdrawn.popitem(last=False)

    def counted(self, known: Iterable[Key]) -> set[Key]:
        """Those of the requests that were written before which are counted by now."""
        return {key for key in known if key not in self._withdrawn and self._of(key) is None}

    def settled(self) -> Settled:
        """Let go of the requests that are due; of those written at one moment all are."""
        now_ns = self._now_ns()
        tables: list[LedgerTable] = []
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
            tables.append(first.left())
            until_ns = first.written_ns
        if not self._pending:
            until_ns, self._until_ns = self._until_ns, None
        return Settled(tables=tables, until_ns=until_ns)

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
