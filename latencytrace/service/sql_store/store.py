"""The store in tables of SQL: what is written when, and what is read back."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
from numpy.typing import NDArray

from latencytrace.errors import PoisonedBlockError, StoreError
from latencytrace.model import Request, Span
from latencytrace.service.clock import now_ns
from latencytrace.service.ledger_table import Key, LedgerTable
from latencytrace.service.otlp.span_block import SpanBlock, joined
from latencytrace.service.sql import (
    native,
    questions,
    request_blocks,
    request_rows,
    span_rows,
)
from latencytrace.service.sql.request_blocks import void
from latencytrace.service.sql.tables import ARRIVALS, SPANS
from latencytrace.service.sql_store.engine import Readers, StoreEngine
from latencytrace.service.sql_store.pending_copies import NotedTraces
from latencytrace.service.sql_store.reading import (
    LISTS,
    OBJECTS,
    by_trace,
    firsts,
    keys_of,
    rows,
)
from latencytrace.service.sql_store.rollups import (
    NoRollups,
    Rollups,
    windows_of,
)
from latencytrace.service.sql_store.whole_tables import SqlTables
from latencytrace.service.store import (
    NONE_WITHDRAWN,
    Revisions,
    Table,
    Written,
)

_log = logging.getLogger(__name__)

MOST_TO_KEEP = 500  # traces that are noted; a copy costs 20 ms of CPU, however few they are
KNOWN_AT_ONCE = 1 << 15  # traces; reading them delays receivers meanwhile
_MS = 1_000_000
_CLOCKS_MS = 20  # by which two readings of clocks may differ
_Place = tuple[int, int]  # its start; when the revision was written that was counted, or is to be


class SqlStore(SqlTables):
    """All of a store but how it is opened.

    Args:
        to_keep: Traces whose spans are to be copied.
        day_ns: The time of day, by which windows become quiet.
        exact_requests: Above so many requests, quantiles may be from histograms.
    """

    def __init__(
        self,
        engine: StoreEngine,
        to_keep: NotedTraces,
        day_ns: Callable[[], int],
        exact_requests: int,
    ) -> None:
        self._engine = engine
        self._keeping = threading.Lock()
        self._inserter = engine.connect()
        self._assembler = engine.connect()  # its reads wait for no reader's
        readers = Readers(engine)
        # They hold where all that is written is known.
        rollups: Rollups = NoRollups(readers.query, day_ns)
        if not engine.writer:
            rollups = Rollups(
                readers.query, self._assembler.query, day_ns, engine.lost_parts, exact_requests
            )
        super().__init__(readers, to_keep, rollups)
        self._mine = mine = questions.written_by(engine.writer)
        self._written_ns = int(self._assembler.query(questions.last_written(mine), "TSV"))

    def insert(self, blocks: Sequence[SpanBlock], age_ns: int | None = None) -> None:
        with _made_rows():
            block = blocks[0] if len(blocks) == 1 else joined(blocks)
            written = native.native(block) if block.count else b""
        self._inserter.insert(native.ARRIVED, written, block.count, _arrived_ms(age_ns))

    def arrived(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        lines = [
            self._assembler.query(question, LISTS, {"trace_ids": trace_ids})
            for question in map(span_rows.spans_of, (ARRIVALS, SPANS))
        ]
        return by_trace(span_rows.once(*lines))

    def arrived_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        return self._counts(questions.ARRIVED_COUNTS, trace_ids)

    def revisions(self, trace_ids: Collection[str]) -> Revisions:
        lines = self._assembler.query(questions.REVISIONS, LISTS, {"trace_ids": trace_ids})
        found = cast(list[tuple[str, str, int]], rows(lines))
        highest: dict[tuple[str, str], int] = {}
        for trace_id, span_id, revision in found:
            highest[trace_id, span_id] = max(revision, highest.get((trace_id, span_id), 0))
        return highest

    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        question = questions.written_question(request_rows.COLUMNS)
        lines = self._assembler.query(question, OBJECTS, {"trace_ids": trace_ids})
        return list(request_rows.requests_from(lines))

    def kept_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        if not self._to_keep.ids.isdisjoint(trace_ids):
            self.keep_noted()
        return self._counts(questions.KEPT_COUNTS, trace_ids)

    def unassembled(self) -> Sequence[str]:
        # Where ledgers are lost, spans may be kept whose arrivals were never written.
        question = questions.unassembled(self._mine)
        if self._engine.damaged_parts():
            question = questions.unassembled_anywhere()
        return firsts(self._assembler.query(question, LISTS))

    def without_ledger(self, since_ns: int, until_ns: int) -> Sequence[str]:
        stretch = {"since": since_ns, "until": until_ns}
        question = questions.without_ledger(self._mine)
        return firsts(self._assembler.query(question, LISTS, stretch))

    def written_ns(self, request: Request) -> int | None:
        bound = {"trace_id": request.trace_id, "span_id": request.span_id}
        found = self._readers.query(questions.WRITTEN_NS, "TSV", bound)
        return int(found) if found else None

    def last_written_ns(self) -> int:
        return self._written_ns

    def uncounted(self, until_ns: int) -> Sequence[tuple[int, Request]]:
        bound = {"until": until_ns}
        keys = self._assembler.query(questions.written_since(self._mine), LISTS, bound)
        question = questions.uncounted_question(request_rows.COLUMNS, self._mine)
        answers = (
            self._assembler.query(question, OBJECTS, {**bound, "keys": some})
            for some in keys_of(keys)
        )
        found = [one for lines in answers for one in request_rows.written_from(lines)]
        return sorted(found, key=lambda one: (one[0], one[1].trace_id, one[1].span_id))

    def write(
        self,
        tables: Sequence[LedgerTable],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        # Written in milliseconds, and never twice in one.
        read_ns = max(now_ns() - age_ns, self._written_ns + _MS) // _MS * _MS
        # The spans first: after a crash between the two, all of the trace is written again.
        if keep_spans_of:
            with self._keeping:
                self._to_keep.add(keep_spans_of)
            if len(self._to_keep.ids) >= MOST_TO_KEEP:
                self.keep_noted()
        revised = _revised(tables)
        standing = self._standing({*revised, *withdrawn, *counted})
        voids = _voids(standing, revised, withdrawn)
        rows = sum(map(len, tables)) + len(voids)
        if rows:
            # One whose row is lost counts as from the beginning of time.
            counted_as_ns = {key: standing[key][1] if key in standing else _MS for key in counted}
            with _made_rows():
                block = request_blocks.block_of(tables, voids, read_ns, counted_as_ns)
            if any(table.weight is not None for table in tables):
                self._rollups.weights.note()
            with self._rollups.changing(_windows(tables, voids)):
                self._assembler.insert(request_rows.TARGET, block, rows)
        self._written_ns = read_ns
        return Written(at_ns=read_ns, withdrawn=len(withdrawn.keys() & standing.keys()))

    def known_traces(self) -> Iterator[NDArray[np.uint64]]:
        """Traces with a request, read a day at a time, since all of them are many."""
        days = [one for one in self.partitions() if one.table is Table.REQUESTS]
        # Oldest first: the filter evicts in this order.
        for day in sorted(days, key=lambda one: one.since_ns):
            stretch = {"since": day.since_ns, "until": day.until_ns}
            question = questions.known_traces(self._mine)
            found = self._assembler.query(question, "RowBinary", stretch)
            ids = np.frombuffer(found, ">u8").astype(np.uint64).reshape(-1, 2)
            for first in range(0, len(ids), KNOWN_AT_ONCE):
                yield ids[first : first + KNOWN_AT_ONCE]

    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        with _made_rows():
            written = b"".join(native.native(block, rows) for block, rows in parts)
        count = sum(len(rows) for _, rows in parts)
        self._assembler.insert(native.KEPT, written, count, _arrived_ms(age_ns))

    def keep_noted(self) -> None:
        with self._keeping:
            if self._to_keep.ids:
                bound = {"trace_ids": self._to_keep.ids, "arrived": now_ns() // _MS}
                self._assembler.query(span_rows.KEEP, OBJECTS, bound)
                self._to_keep.clear()

    def roll_up(self) -> None:
        self._rollups.step()

    def hurry(self) -> None:
        self._engine.hurry()

    def close(self) -> None:
        try:
            self.keep_noted()
        except StoreError as error:
            _log.error("spans are kept at the next start: %s", error)
        self._engine.close()

    def _counts(self, question: str, trace_ids: Collection[str]) -> Mapping[str, int]:
        lines = self._assembler.query(question, LISTS, {"trace_ids": trace_ids})
        return dict(cast(list[tuple[str, int]], rows(lines)))

    def _standing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], _Place]:
        """Where requests stand that were written before."""
        trace_ids = {trace_id for trace_id, _ in keys}
        if not trace_ids:
            return {}
        lines = self._assembler.query(questions.STANDING, LISTS, {"trace_ids": trace_ids})
        return _places(lines)


@contextmanager
def _made_rows() -> Iterator[None]:
    """Tell what cannot be made rows from what the engine cannot keep: it is never tried again.

    Raises:
        PoisonedBlockError: By a fault of ours.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PoisonedBlockError(f"a block cannot be written as rows: {error!r}") from error


def _places(lines: bytes) -> Mapping[tuple[str, str], _Place]:
    """The answer to the question where requests stand, by trace and span."""
    found = cast(list[tuple[str, str, int, int]], rows(lines))
    return {
        (trace_id, span_id): (start_ns, counted_ns)
        for trace_id, span_id, start_ns, counted_ns in found
    }


def _revised(tables: Iterable[LedgerTable]) -> dict[Key, tuple[int, int]]:
    """Requests that may have been written before: their starts and revisions."""
    found: dict[Key, tuple[int, int]] = {}
    for table in (one for one in tables if one.is_revised):
        some = table.taken(np.flatnonzero(table.revision > 1))
        starts_ns = some.start_ns.view(np.uint64).tolist()
        found.update(
            zip(some.keys, zip(starts_ns, some.revision.tolist(), strict=True), strict=True)
        )
    return found


def _windows(tables: Iterable[LedgerTable], voids: Iterable[Request]) -> list[int]:
    """The windows that a row is written to."""
    of_voids = np.array([one.start_ns for one in voids], np.uint64)
    starts_ns = [table.start_ns.view(np.uint64) for table in tables]
    return windows_of(np.concatenate([of_voids, *starts_ns]))


def _voids(
    standing: Mapping[tuple[str, str], _Place],
    revised: Mapping[Key, tuple[int, int]],
    withdrawn: Revisions,
) -> list[Request]:
    """The rows of requests that are withdrawn, or that start at another time by now."""
    moved = [
        void(key, standing[key][0], revision)
        for key, (start_ns, revision) in revised.items()
        if key in standing and start_ns != standing[key][0]
    ]
    return moved + [
        void(key, standing[key][0], revision + 1)
        for key, revision in withdrawn.items()
        if key in standing
    ]


def _arrived_ms(age_ns: int | None) -> int | None:
    """When spans arrived of which a ledger is made: before it is written, by any clock."""
    return None if age_ns is None else (now_ns() - age_ns) // _MS - _CLOCKS_MS
