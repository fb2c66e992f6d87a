"""The contract, answered from one SQLite file.

Spans lie there as columns, a block a row, and requests as JSON; questions are answered in Python,
over the requests of one service. That is enough for some ten thousand of them.
"""

import json
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from latencytrace.errors import StoreError, StoreInUseError
from latencytrace.model import Request, Span, semconv
from latencytrace.service.clock import now_ns
from latencytrace.service.ledger_table import LedgerTable, each_request
from latencytrace.service.otlp.span_block import SpanBlock, unpacked
from latencytrace.service.store import (
    NONE_WITHDRAWN,
    Partition,
    Revisions,
    Store,
    Table,
    Written,
)

FILE = "latencytrace.sqlite3"
REQUEST = TypeAdapter(Request)
HOUR_NS = 3600 * 10**9
LINKED_WITHIN_NS = 600 * 10**9
CLOCKS_NS = 20 * 10**6  # by which two readings of clocks may differ

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
PARTITIONS = f"""
SELECT 'requests', written_ns / {HOUR_NS} AS hour, count(*), coalesce(sum(length(request)), 0)
    FROM requests GROUP BY hour
UNION ALL
SELECT iif(kept.trace_id IS NULL, 'span_arrivals', 'spans') AS name,
    arrived_ns / {HOUR_NS} AS hour, count(*),
    count(*) * (SELECT sum(length(columns)) FROM blocks) / (SELECT count(*) FROM spans)
    FROM spans LEFT JOIN kept USING (trace_id) GROUP BY name, hour
"""
DROPPED = {
    Table.REQUESTS: "DELETE FROM requests WHERE written_ns >= ? AND written_ns < ?",
    Table.SPANS: "DELETE FROM spans WHERE arrived_ns >= ? AND arrived_ns < ? "
    "AND trace_id IN (SELECT trace_id FROM kept)",
    Table.ARRIVALS: "DELETE FROM spans WHERE arrived_ns >= ? AND arrived_ns < ? "
    "AND trace_id NOT IN (SELECT trace_id FROM kept)",
}
OF_TRACES = " WHERE trace_id IN (SELECT value FROM json_each(?))"


class SqliteStore(Store):
    """Make one with `open`."""

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

    def insert(self, blocks: Sequence[SpanBlock], age_ns: int | None = None) -> None:
        """See `Store.insert`."""
        with self._transaction() as db:
            for block in blocks:
                _insert(db, block, range(block.count), _arrived_ns(age_ns))

    def keep(
        self, parts: Sequence[tuple[SpanBlock, NDArray[np.int64]]], age_ns: int | None = None
    ) -> None:
        """See `Store.keep`: those that arrived before stand where they are."""
        with self._transaction() as db:
            new = [
                (block, [row for row in rows.tolist() if not _has(db, block.spans([row])[0])])
                for block, rows in parts
            ]
            for block, rows_of_block in new:
                _insert(db, block, rows_of_block, _arrived_ns(age_ns))
            for block, rows in parts:
                db.executemany(
                    "INSERT OR IGNORE INTO kept VALUES (?)",
                    [(one,) for one in {span.trace_id for span in block.spans(rows)}],
                )

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

    def of_service(self, service: str | None) -> list[Request]:
        """See `Store.of_service`."""
        return self._requests(
            " WHERE request IS NOT NULL AND (? IS NULL OR service = ?)", service, service
        )

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

    def written_ns(self, request: Request) -> int | None:
        """See `Store.written_ns`."""
        found = self._rows(
            "SELECT max(written_ns) FROM requests WHERE trace_id = ? AND span_id = ?",
            request.trace_id,
            request.span_id,
        )
        return cast("int | None", found[0][0])

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
        return [(written_ns, REQUEST.validate_json(text)) for written_ns, text in rows]

    def write(
        self,
        tables: Sequence[LedgerTable],
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
            for request in each_request(tables):
                key = (request.trace_id, request.span_id)
                db.execute(
                    "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(*key, request.revision, at_ns),
                        _counted_ns(db, key) if key in counted else 0,
                        *(request.service, REQUEST.dump_json(request).decode()),
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

    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        """See `Store.kept_spans`."""
        return self.arrived([trace_id]).get(trace_id, ())

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

    def partitions(self) -> Sequence[Partition]:
        """See `Store.partitions`."""
        return [
            Partition(
                table=Table(name),
                since_ns=hour * HOUR_NS,
                until_ns=(hour + 1) * HOUR_NS,
                rows=rows,
                bytes=round(size),
            )
            for name, hour, rows, size in self._rows(PARTITIONS)
        ]

    def drop(self, partition: Partition) -> None:
        """See `Store.drop`."""
        with self._transaction() as db:
            db.execute(DROPPED[partition.table], (partition.since_ns, partition.until_ns))
            db.execute("DELETE FROM blocks WHERE id NOT IN (SELECT block FROM spans)")
            db.execute("DELETE FROM kept WHERE trace_id NOT IN (SELECT trace_id FROM spans)")

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
        longest: dict[tuple[str, ...], Span] = {}
        for span in sorted(found, key=lambda span: span.end_ns - span.start_ns):
            longest[span.trace_id, span.span_id, span.service, span.kind] = span
        return tuple(longest.values())

    def _requests(self, condition: str, *parameters: object) -> list[Request]:
        rows = self._rows(f"SELECT request FROM requests{condition}", *parameters)
        return [REQUEST.validate_json(text) for (text,) in rows]


def _insert(db: sqlite3.Connection, block: SpanBlock, rows: Iterable[int], at_ns: int) -> None:
    """Insert some spans of a block."""
    columns = db.execute("INSERT INTO blocks (columns) VALUES (?)", [block.packed()])
    for row in rows:
        [span] = block.spans([row])
        inserted = db.execute(
            "INSERT INTO spans (trace_id, span_id, arrived_ns, block, row) VALUES (?, ?, ?, ?, ?)",
            (span.trace_id, span.span_id, at_ns, columns.lastrowid, row),
        )
        db.executemany(
            "INSERT INTO links VALUES (?, ?, ?)",
            [(inserted.lastrowid, link.trace_id, link.span_id) for link in span.links],
        )


def _arrived_ns(age_ns: int | None) -> int:
    """When spans arrived: before a ledger of them is written, by any clock."""
    return now_ns() if age_ns is None else now_ns() - age_ns - CLOCKS_NS


def _has(db: sqlite3.Connection, span: Span) -> bool:
    question = "SELECT count(*) FROM spans WHERE trace_id = ? AND span_id = ?"
    return bool(db.execute(question, (span.trace_id, span.span_id)).fetchone()[0])


def _listed(names: Collection[str]) -> str:
    """Names as one parameter, however many."""
    return json.dumps(list(names))


def _counted_ns(db: sqlite3.Connection, key: tuple[str, str]) -> int:
    """When the revision was written that was counted; 1, long ago: it was lost."""
    row = db.execute(
        "SELECT counted_ns, written_ns FROM requests WHERE trace_id = ? AND span_id = ?", key
    ).fetchone()
    return (row[0] or row[1]) if row else 1
