"""How long ledgers and spans are kept, and how much disk they may take."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final, Protocol

from latencytrace.errors import StoreError
from latencytrace.service.store import Partition, Table

PACE_S: Final = 60.0  # between two looks
HOUR_NS: Final = 3600 * 10**9
DAY_NS: Final = 24 * HOUR_NS
ARRIVALS_NS: Final = 2 * HOUR_NS
# Rows are stamped a little before they are written, and clocks are set back.
STILL_RECEIVES_NS: Final = HOUR_NS
OPEN_NS: Final = {  # so long after its end a partition stays
    Table.ARRIVALS: STILL_RECEIVES_NS,
    Table.SPANS: STILL_RECEIVES_NS,
    # Ledgers outlive the arrivals that they are made of, or a start would make them again.
    Table.REQUESTS: ARRIVALS_NS + 2 * HOUR_NS,
}
# A clock that is ahead for a while, as at a start before it is set, makes nothing old.
SURE_S: Final = 600.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limit of what is kept; None: no limit."""

    requests_ns: int | None = 30 * DAY_NS
    spans_ns: int | None = 7 * DAY_NS
    max_bytes: int | None = 20 * 10**9  # of all tables together

    def age_ns(self, table: Table) -> int | None:
        """Return how long the rows of a table are kept; None: for ever."""
        match table:
            case Table.ARRIVALS:
                return ARRIVALS_NS
            case Table.SPANS:
                return self.spans_ns
            case Table.REQUESTS:
                return self.requests_ns


class Reason(StrEnum):
    """The reason why a partition is dropped."""

    AGE = "age"
    SIZE = "size"


def expired(
    partitions: Sequence[Partition], limits: Limits, now_ns: int
) -> Iterator[tuple[Partition, Reason]]:
    """Yield the partitions that are to be dropped, the oldest of a table first.

    Partitions that may still receive rows stay. Where all tables together take too much, spans go
    before ledgers; arrivals go by age alone, for ledgers are made of them.
    """
    left_bytes = sum(one.bytes for one in partitions)
    closed = [one for one in partitions if one.until_ns + OPEN_NS[one.table] <= now_ns]
    closed.sort(key=lambda one: one.since_ns)
    kept: dict[Table, list[Partition]] = {table: [] for table in Table}
    for one in closed:
        age_ns = limits.age_ns(one.table)
        if age_ns is not None and now_ns - one.until_ns >= age_ns:
            left_bytes -= one.bytes
            yield one, Reason.AGE
        else:
            kept[one.table].append(one)
    if limits.max_bytes is None:
        return
    ledger_bytes = sum(one.bytes for one in kept[Table.REQUESTS])
    for one in (*kept[Table.SPANS], *kept[Table.REQUESTS]):
        # Where what came today is too much, all ledgers together would not make up for it.
        too_much = one.table is Table.REQUESTS and left_bytes - ledger_bytes > limits.max_bytes
        if left_bytes <= limits.max_bytes or too_much:
            return
        left_bytes -= one.bytes
        ledger_bytes -= one.bytes if one.table is Table.REQUESTS else 0
        yield one, Reason.SIZE


def full_s(partitions: Sequence[Partition], limits: Limits, now_ns: int) -> float | None:
    """Return in how many seconds all tables take what they may, at the pace of the last day.

    Infinity: never, for what is old is dropped before. None: no day has been written yet.
    """
    if limits.max_bytes is None:
        return inf
    paces = {table: _pace(partitions, table, now_ns) for table in (Table.SPANS, Table.REQUESTS)}
    per_ns = sum(pace or 0.0 for pace in paces.values())
    if all(pace is None for pace in paces.values()):
        return None
    room_bytes = limits.max_bytes - sum(one.bytes for one in partitions)
    most_bytes = sum(
        pace * (inf if (age_ns := limits.age_ns(table)) is None else age_ns + DAY_NS)
        for table, pace in paces.items()
        if pace
    )
    if not per_ns or most_bytes <= limits.max_bytes:
        return inf
    return max(room_bytes / per_ns, 0) / 1e9


def _pace(partitions: Sequence[Partition], table: Table, now_ns: int) -> float | None:
    """Bytes that a table grew by in each nanosecond: of the last day, or of today if more."""
    found = sorted((one for one in partitions if one.table is table), key=lambda one: one.since_ns)
    past = [one for one in found if one.until_ns <= now_ns]
    if not past:
        return None
    of_today = [
        one.bytes / (now_ns - one.since_ns)
        for one in found
        if one.until_ns > now_ns >= one.since_ns + HOUR_NS
    ]
    last = past[-1]
    is_late = now_ns - last.until_ns < DAY_NS
    of_last = last.bytes / (last.until_ns - last.since_ns) if is_late else 0.0
    return max([of_last, *of_today])


class Partitioned(Protocol):
    """The methods that are needed of a `Store`."""

    def partitions(self) -> Sequence[Partition]: ...

    def drop(self, partition: Partition) -> None: ...


class Retention:
    """Drops what has been kept for long enough, and knows what is kept.

    Args:
        limits: How much of it may be.
        now_ns: The time of day, by which partitions are distinguished.
        steady_ns: A clock that is never set back, for the pace.
    """

    def __init__(
        self,
        store: Partitioned,
        limits: Limits,
        now_ns: Callable[[], int],
        steady_ns: Callable[[], int],
    ) -> None:
        self.limits = limits
        self.partitions: Sequence[Partition] = ()  # when it was last looked at
        self._expired: Counter[tuple[Table, Reason]] = Counter()
        self._expired_rows: Counter[tuple[Table, Reason]] = Counter()
        self._store = store
        self._now_ns = now_ns
        self._steady_ns = steady_ns
        self._next_ns = steady_ns()
        self._old_since_ns: dict[tuple[Table, int], int] = {}

    def step(self) -> None:
        """Drop what is due, unless that was looked at lately; the store may fail at that."""
        if self._steady_ns() < self._next_ns:
            return
        self._next_ns = self._steady_ns() + round(PACE_S * 1e9)
        try:
            self._drop()
        except StoreError as error:
            _log.error("what has been kept for long enough is dropped later: %s", error)

    def expired(self) -> Mapping[tuple[Table, Reason], tuple[int, int]]:
        """Return how many partitions were dropped since the start, and how many rows."""
        dropped = self._expired.copy()
        return {key: (count, self._expired_rows[key]) for key, count in dropped.items()}

    def full_s(self) -> float | None:
        """Return when all tables take what they may: `full_s` reckons it."""
        return full_s(self.partitions, self.limits, self._now_ns())

    def _drop(self) -> None:
        left = list(self._store.partitions())
        steady_ns = self._steady_ns()
        due = list(expired(left, self.limits, self._now_ns()))
        self._old_since_ns = {
            (one.table, one.since_ns): self._old_since_ns.get((one.table, one.since_ns), steady_ns)
            for one, reason in due
            if reason is Reason.AGE
        }
        for partition, reason in due:
            since_ns = self._old_since_ns.get((partition.table, partition.since_ns))
            if since_ns is not None and steady_ns - since_ns < SURE_S * 1e9:
                continue
            self._store.drop(partition)
            left.remove(partition)
            # The rows first: a reader meanwhile sees no partition without them.
            self._expired_rows[partition.table, reason] += partition.rows
            self._expired[partition.table, reason] += 1
            _log.info(
                "dropped %d rows of %s that arrived from %s, %d bytes: %s",
                partition.rows,
                partition.table,
                partition.began,
                partition.bytes,
                _WHY[reason],
            )
        self.partitions = tuple(left)


_WHY: Final = {
    Reason.AGE: "they have been kept for long enough",
    Reason.SIZE: "the data take more than LATENCYTRACE_MAX_DISK",
}
