"""The contract, answered from one SQLite file.

Spans lie there as columns, a block a row, and requests as JSON; questions are answered in Python,
over the requests of one service. That is enough for some ten thousand of them.
"""

import json
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from latencytrace.errors import StoreError, StoreInUseError
from latencytrace.model import Breakdown, Request, Span, semconv
from latencytrace.model.request_columns import DurationBand, RequestColumns
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.otlp.span_block import SpanBlock, unpacked
from latencytrace.service.store import (
    ALL_DURATIONS,
    NONE_WITHDRAWN,
    DamagedPart,
    Order,
    Revisions,
    TableFormat,
    Written,
)
from latencytrace_examples.sqlite_store import ledgers

FILE = "latencytrace.sqlite3"
ARRIVALS_KEPT_NS = 2 * 3600 * 10**9
WEEK_NS = 7 * 24 * 3600 * 10**9
LINKED_WITHIN_NS = 600 * 10**9

TABLES = """
CREATE TABLE IF NOT EXISTS blocks (id INTEGER PRIMARY KEY, columns BLOB);
CREATE TABLE IF NOT EXISTS spans (  -- a row for each time that a span came
    id INTEGER PRIMARY KEY, trace_id TEXT, span_id TEXT, arrived_ns INTEGER,
    block INTEGER REFERENCES blocks (id), row INTEGER);
CREATE INDEX IF NOT EXISTS spans_of_trace ON spans (trace_id);
CREATE INDEX IF NOT EXISTS spans_of_id ON spans (span_id);
CREATE TABLE IF NOT EXISTS links (
    span INTEGER REFERENCES spans (id) ON DELETE CASCADE, trace_id TEXT, span_id TEXT);
CREATE INDEX IF NOT EXISTS links_from ON links (span);
CREATE INDEX IF NOT EXISTS links_to ON links (span_id);
CREATE TABLE IF NOT EXISTS kept (trace_id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS requests (  -- the highest revision of each
    trace_id TEXT, span_id TEXT, revision INTEGER, written_ns INTEGER,
    counted_ns INTEGER,  -- 0: this revision is to be counted; else when a former one was written
    service TEXT, request TEXT,  -- JSON; null: withdrawn
    PRIMARY KEY (trace_id, span_id));
CREATE INDEX IF NOT EXISTS requests_of_service ON requests (service);
CREATE INDEX IF NOT EXISTS requests_written ON requests (written_ns);
"""
WRITERS = {TableFormat.CSV: ledgers.csv_table, TableFormat.PARQUET: ledgers.parquet_table}
OF_TRACES = " WHERE trace_id IN (SELECT value FROM json_each(?))"


class SqliteStore:
    """Implements `Store`. Make one with `open`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._lock = threading.Lock()  # one thread at a time
        self._written_ns: int = self._rows("SELECT coalesce(max(written_ns), 0) FROM requests")[0][
            0
        ]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """See `Store.open`."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            db = sqlite3.connect(folder / FILE, timeout=0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{folder} cannot be used: {error}") from None
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")  # held until it is closed
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA foreign_keys = ON")
            db.executescript(TABLES)
        except sqlite3.Error as error:
            db.close()
            if "locked" in str(error):
                raise StoreInUseError(
                    f"the data folder {folder} belongs to another process: name another by --data"
                ) from None
            raise StoreError(f"{folder / FILE} cannot be used: {error}") from None
        return cls(db)

    def insert(self, blocks: Sequence[SpanBlock]) -> None:
        """See `Store.insert`."""
        at_ns = now_ns()
        with self._transaction() as db:
            for block in blocks:
                columns = db.execute("INSERT INTO blocks (columns) VALUES (?)", [block.packed()])
                for row, span in enumerate(block.spans()):
                    inserted = db.execute(
                        "INSERT INTO spans (trace_id, span_id, arrived_ns, block, row) "
                        "VALUES (?, ?, ?, ?, ?)",
                        (span.trace_id, span.span_id, at_ns, columns.lastrowid, row),
                    )
                    db.executemany(
                        "INSERT INTO links VALUES (?, ?, ?)",
                        [(inserted.lastrowid, link.trace_id, link.span_id) for link in span.links],
                    )

    def known_traces(self) -> NDArray[np.uint64]:
        """See `Store.known_traces`."""
        found = "".join(one for (one,) in self._rows("SELECT DISTINCT trace_id FROM requests"))
        return np.frombuffer(bytes.fromhex(found), ">u8").astype(np.uint64).reshape(-1, 2)

    def keep(self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]]) -> None:
        """See `Store.keep`: they stand where they arrived."""
        trace_ids = {span.trace_id for block, rows in parts for span in block.spans(rows)}
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO kept VALUES (?)", [(one,) for one in trace_ids])

    def arrived(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        """See `Store.arrived`."""
        of_traces: dict[str, list[Span]] = defaultdict(list)
        for span in self._spans(OF_TRACES, _listed(trace_ids)):
            of_traces[span.trace_id].append(span)
        return {trace_id: tuple(spans) for trace_id, spans in of_traces.items()}

    def arrived_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """See `Store.arrived_counts`."""
        question = f"SELECT trace_id, count(*) FROM spans {OF_TRACES} GROUP BY trace_id"
        return dict(self._rows(question, _listed(trace_ids)))

    def revisions(self, trace_ids: Collection[str]) -> Revisions:
        """See `Store.revisions`."""
        rows = self._rows(
            f"SELECT trace_id, span_id, revision FROM requests {OF_TRACES}", _listed(trace_ids)
        )
        return {(trace_id, span_id): revision for trace_id, span_id, revision in rows}

    def written(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """See `Store.written`."""
        return self._requests(f"{OF_TRACES} AND request IS NOT NULL", _listed(trace_ids))

    def requests_of(self, trace_ids: Collection[str]) -> Sequence[Request]:
        """See `Store.requests_of`."""
        return self.written(trace_ids)

    def kept_counts(self, trace_ids: Collection[str]) -> Mapping[str, int]:
        """See `Store.kept_counts`."""
        question = (
            f"SELECT trace_id, count(DISTINCT span_id) FROM spans {OF_TRACES} "
            "AND trace_id IN (SELECT trace_id FROM kept) GROUP BY trace_id"
        )
        return dict(self._rows(question, _listed(trace_ids)))

    def unassembled(self) -> Sequence[str]:
        """See `Store.unassembled`."""
        rows = self._rows(
            "SELECT trace_id FROM spans GROUP BY trace_id HAVING max(arrived_ns) > (SELECT "
            "coalesce(max(written_ns), 0) FROM requests WHERE requests.trace_id = spans.trace_id)"
        )
        return [trace_id for (trace_id,) in rows]

    def without_ledger(self, since_ns: int, until_ns: int) -> Sequence[str]:
        """See `Store.without_ledger`."""
        came = self._spans(
            " WHERE arrived_ns >= ? AND arrived_ns < ? "
            "AND trace_id NOT IN (SELECT trace_id FROM requests)",
            since_ns,
            until_ns,
        )
        shared = {semconv.SHARED, semconv.TGI_BATCH_SIZE}
        roots = (span for span in came if span.parent_id is None)
        return sorted({one.trace_id for one in roots if shared.isdisjoint(one.attributes)})

    def last_written_ns(self) -> int:
        """See `Store.last_written_ns`."""
        return self._written_ns

    def uncounted(self, until_ns: int) -> Sequence[tuple[int, Request]]:
        """See `Store.uncounted`."""
        rows = self._rows(
            "SELECT written_ns, request FROM requests WHERE written_ns > ? "
            "AND request IS NOT NULL AND (counted_ns = 0 OR counted_ns > max(?, 1)) "
            "ORDER BY written_ns, trace_id, span_id",
            until_ns,
            until_ns,
        )
        return [(written_ns, ledgers.REQUEST.validate_json(text)) for written_ns, text in rows]

    def write(
        self,
        requests: Sequence[Request],
        keep_spans_of: Collection[str],
        withdrawn: Revisions = NONE_WITHDRAWN,
        age_ns: int = 0,
        counted: Collection[tuple[str, str]] = (),
    ) -> Written:
        """See `Store.write`."""
        at_ns = max(now_ns() - age_ns, self._written_ns + 1)
        with self._transaction() as db:
            db.executemany(
                "INSERT OR IGNORE INTO kept VALUES (?)", [(one,) for one in keep_spans_of]
            )
            for request in requests:
                key = (request.trace_id, request.span_id)
                db.execute(
                    "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(*key, request.revision, at_ns),
                        _counted_ns(db, key) if key in counted else 0,
                        *(request.service, ledgers.REQUEST.dump_json(request).decode()),
                    ),
                )
            voided = [
                db.execute(
                    "UPDATE requests SET request = NULL, revision = ? + 1, written_ns = ? "
                    "WHERE trace_id = ? AND span_id = ? AND request IS NOT NULL",
                    (revision, at_ns, *key),
                ).rowcount
                for key, revision in withdrawn.items()
            ]
        self._written_ns = at_ns
        return Written(at_ns=at_ns, withdrawn=sum(voided))

    def keep_noted(self) -> None:
        """Let go of what is old: the spans to be kept stand where they arrived."""
        with self._transaction() as db:
            db.execute(
                "DELETE FROM spans WHERE arrived_ns < ? "
                "AND trace_id NOT IN (SELECT trace_id FROM kept)",
                (now_ns() - ARRIVALS_KEPT_NS,),
            )
            db.execute("DELETE FROM blocks WHERE id NOT IN (SELECT block FROM spans)")

    def services(self) -> Sequence[str]:
        """See `Store.services`."""
        rows = self._rows(
            "SELECT DISTINCT service FROM requests WHERE request IS NOT NULL ORDER BY service"
        )
        return [service for (service,) in rows]

    def instances(self) -> Sequence[tuple[str, str]]:
        """See `Store.instances`."""
        lately = self._requests(
            " WHERE request IS NOT NULL AND written_ns >= ?", now_ns() - WEEK_NS
        )
        return sorted(
            {(one.service, one.instance) for one in lately if one.instance and not one.startup}
        )

    def routes(self, service: str | None) -> Sequence[str]:
        """See `Store.routes`."""
        return sorted({one.route for one in self._of_service(service) if one.counts})

    def breakdown(self, cohort: Cohort) -> Breakdown:
        """See `Store.breakdown`."""
        found = self._of_service(cohort.service)
        return ledgers.breakdown(cohort, [one for one in found if ledgers.is_in(one, cohort)])

    def requests(self, cohort: Cohort, order: Order, limit: int) -> Sequence[Request]:
        """See `Store.requests`."""

        def place(one: Request) -> tuple[int, str, str]:
            first = one.duration_ns if order is Order.SLOWEST else one.start_ns
            return -first, one.trace_id, one.span_id

        return sorted(self._counted(cohort), key=place)[:limit]

    def count(self, cohort: Cohort) -> int:
        """See `Store.count`."""
        return len(self._counted(cohort))

    def ledgers(self, cohort: Cohort, table_format: TableFormat) -> bytes:
        """See `Store.ledgers`."""
        found = sorted(
            self._counted(cohort), key=lambda one: (one.start_ns, one.trace_id, one.span_id)
        )
        return WRITERS[table_format](found)

    def durations(self, cohort: Cohort) -> NDArray[np.int64]:
        """See `Store.durations`."""
        return np.array([one.duration_ns for one in self._counted(cohort)], np.int64)

    def cohort_columns(
        self,
        cohort: Cohort,
        bands: Sequence[DurationBand] = ALL_DURATIONS,
        *,
        attributes: bool = False,
    ) -> RequestColumns:
        """See `Store.cohort_columns`."""
        found = self._counted(cohort)
        within = (one for one in found if any(ledgers.is_within(one, band) for band in bands))
        return RequestColumns.of(within, attributes=attributes)

    def request(self, trace_id: str, span_id: str | None) -> Request | None:
        """See `Store.request`."""
        found = [
            one
            for one in self.written([trace_id])
            if (one.outermost if span_id is None else one.span_id == span_id)
        ]
        return min(found, key=lambda one: (one.start_ns, one.span_id), default=None)

    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        """See `Store.kept_spans`."""
        return self.arrived([trace_id]).get(trace_id, ())

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        """See `Store.spans_at`."""
        wanted = set(places)
        found = self._spans(OF_TRACES, _listed({trace_id for trace_id, _ in wanted}))
        return tuple(span for span in found if (span.trace_id, span.span_id) in wanted)

    def spans_of_id(self, span_id: str) -> tuple[Span, ...]:
        """See `Store.spans_of_id`."""
        return self._spans(" WHERE span_id = ?", span_id)

    def linking_to(self, span: Span) -> tuple[Span, ...]:
        """See `Store.linking_to`."""
        found = self._spans(
            " WHERE id IN (SELECT span FROM links WHERE trace_id = ? AND span_id = ?)",
            span.trace_id,
            span.span_id,
        )
        since_ns, until_ns = span.start_ns - LINKED_WITHIN_NS, max(span.end_ns, span.start_ns)
        return tuple(one for one in found if since_ns <= one.start_ns <= until_ns)

    def damaged_parts(self) -> Sequence[DamagedPart]:
        """See `Store.damaged_parts`: SQLite reads a file whole or refuses it."""
        return ()

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it is kept, or nothing."""
        with self._lock:
            try:
                with self._db:
                    yield self._db
            except sqlite3.Error as error:
                raise StoreError(f"the store failed: {error}") from error

    def _rows(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._transaction() as db:
            return db.execute(question, parameters).fetchall()

    def _spans(self, condition: str, *parameters: object) -> tuple[Span, ...]:
        """Each span once; where it came twice, the one that lasts longer."""
        rows = self._rows(
            f"SELECT columns, row FROM (SELECT * FROM spans{condition}) AS found "
            "JOIN blocks ON blocks.id = block",
            *parameters,
        )
        rows_of: dict[bytes, list[int]] = defaultdict(list)
        for columns, row in rows:
            rows_of[columns].append(row)
        found = [span for one, places in rows_of.items() for span in unpacked(one).spans(places)]
        longest: dict[tuple[str, str], Span] = {}
        for span in sorted(found, key=lambda span: span.end_ns - span.start_ns):
            longest[span.trace_id, span.span_id] = span
        return tuple(longest.values())

    def _requests(self, condition: str, *parameters: object) -> list[Request]:
        rows = self._rows(f"SELECT request FROM requests{condition}", *parameters)
        return [ledgers.REQUEST.validate_json(text) for (text,) in rows]

    def _of_service(self, service: str | None) -> list[Request]:
        return self._requests(
            " WHERE request IS NOT NULL AND (? IS NULL OR service = ?)", service, service
        )

    def _counted(self, cohort: Cohort) -> list[Request]:
        return [
            one
            for one in self._of_service(cohort.service)
            if ledgers.is_in(one, cohort)
            and ledgers.has_attributes(one, cohort)
            and ledgers.counts(one, cohort)
        ]


def _listed(names: Collection[str]) -> str:
    """Names as one parameter, however many."""
    return json.dumps(list(names))


def _counted_ns(db: sqlite3.Connection, key: tuple[str, str]) -> int:
    """When the revision was written that was counted; 1, long ago: it was lost."""
    row = db.execute(
        "SELECT counted_ns, written_ns FROM requests WHERE trace_id = ? AND span_id = ?", key
    ).fetchone()
    return (row[0] or row[1]) if row else 1
