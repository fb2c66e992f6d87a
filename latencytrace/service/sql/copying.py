"""Copies of the tables, a piece at a time: for backups, and for moving to a server.

A piece is a part of one partition, so that an insert of it is kept whole or not at all. Rows keep
the moments of their arrival; the receiving store sets the writer anew.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from latencytrace.service.sql.request_rows import TARGET
from latencytrace.service.sql.tables import (
    ARRIVALS,
    DATABASE,
    REQUESTS,
    SPAN_COLUMNS,
    SPANS,
    Target,
    column_type,
)
from latencytrace.service.store import Piece, Table

MOST_ROWS: Final = 50_000  # in a piece
MOST_BYTES: Final = 16 * 1024 * 1024  # likewise, as they lie in memory, by the table's mean row
# What the engine may take for the rows of a piece, and what it says of one that needs more. (A
# bound of the result would not do: rows are counted, and so held, before the first is answered.)
MOST_MEMORY: Final = 1024 * 1024 * 1024
TOO_LARGE: Final = re.compile(r"Code: 241\..*(Query memory limit|\(for query\))", re.DOTALL)

_HOUR_S: Final = 3600
_WIDTH_S: Final = {Table.ARRIVALS: _HOUR_S, Table.SPANS: 24 * _HOUR_S}  # of a partition
_ARRIVED: Final = {Table.REQUESTS: "Written"}
_STARTED: Final = {Table.REQUESTS: "Start"}
# Superseded revisions are left behind: the engine merges them away at any time.
_ROWS_OF: Final = {
    Table.REQUESTS: f"{REQUESTS} FINAL", Table.SPANS: SPANS, Table.ARRIVALS: ARRIVALS,
}  # fmt: skip
# How many rows the whole answer has: its last eight bytes, since a block counts only its own.
_IN_ALL: Final = "InAll"
_COUNT_BYTES: Final = 8

_SPAN_TYPES: Final[Mapping[str, str]] = {
    **{name: column_type(definition) for name, definition in SPAN_COLUMNS.items()},
    "Arrived": "DateTime64(3)",
}
TARGETS: Final[Mapping[Table, Target]] = {
    table: Target(
        table=name,
        columns=columns,
        block_format="Native",
        left_out={_IN_ALL: "UInt64"},
        # What a copy of an older version lacks is read as 0.
        read={"Weight": "greatest(Weight, 1)"},
    )
    for table, name, columns in (
        (Table.REQUESTS, REQUESTS, TARGET.columns),
        (Table.SPANS, SPANS, _SPAN_TYPES),
        (Table.ARRIVALS, ARRIVALS, _SPAN_TYPES),
    )
}
_ROW_BYTES: Final = (
    "SELECT table, sum(data_uncompressed_bytes) / sum(rows) FROM system.parts "
    f"WHERE active AND rows > 0 AND database = '{DATABASE}' GROUP BY table"
)


# What is written later is left out, so that a copy has the requests of one moment: of those that
# are revised or withdrawn meanwhile, ledgers are made of their spans.
_WRITTEN_UNTIL: Final = f"SELECT toUnixTimestamp(max(Written)) + 1 FROM {REQUESTS}"
_NAMES: Final = ", ".join(f"`{name}`" for name in SPAN_COLUMNS)
# Of a copy that was made while more was written: spans that were kept, and their ledger was not
# there yet. As arrivals they are attributed at the next start.
LEFT: Final = (
    f"INSERT INTO {ARRIVALS} ({_NAMES}) SELECT {_NAMES} FROM {SPANS} "
    f"WHERE Arrived >= (SELECT max(Arrived) FROM {SPANS}) - INTERVAL 1 HOUR "
    f"AND TraceId NOT IN (SELECT TraceId FROM {REQUESTS})"
)
# Likewise of a request that was revised within the second of the listing, or by another service,
# and starts at another time by now: it may be there twice, and the highest revision stands.
_COLUMNS: Final = [f"`{name}`" for name in TARGET.columns]
_SUPERSEDED: Final = {"`Revision`": "Revision + 1", "`Moved`": "1"}
TWICE: Final = (
    f"INSERT INTO {REQUESTS} ({', '.join(_COLUMNS)}) "
    f"SELECT {', '.join(_SUPERSEDED.get(name, name) for name in _COLUMNS)} FROM {REQUESTS} FINAL "
    f"INNER JOIN (SELECT TraceId, SpanId, max(Revision) AS Highest FROM {REQUESTS} "
    "WHERE Revision > 1 GROUP BY TraceId, SpanId) AS Revised USING TraceId, SpanId "
    "WHERE Revision < Highest SETTINGS max_partitions_per_insert_block = 0"
)


def pieces(ask: Callable[[str, str], bytes]) -> Iterator[Piece]:
    """All of the tables, requests first; `ask` answers a question in a format."""
    lines = ask(_ROW_BYTES, "TSV").decode().splitlines()
    row_bytes = {table: float(size) for table, size in (line.split("\t") for line in lines)}
    for table in (Table.REQUESTS, Table.SPANS, Table.ARRIVALS):
        most = min(round(MOST_BYTES / max(row_bytes.get(table, 1.0), 1.0)) or 1, MOST_ROWS)
        cut = _cut(table, ask(_windows_question(table), "TSV"), most)
        if table is Table.REQUESTS:
            until_s = int(ask(_WRITTEN_UNTIL, "TSV"))
            cut = (replace(piece, until_s=min(piece.until_s, until_s)) for piece in cut)
        yield from cut


def _windows_question(table: Table) -> str:
    """How many rows there are of each partition and window; superseded ones count, too."""
    width_s = _width_s(table)
    return (
        f"SELECT intDiv(toUnixTimestamp({_arrived(table)}), {width_s}) * {width_s} AS Since, "
        f"toUnixTimestamp({_window(table)}) AS First, count() FROM {TARGETS[table].table} "
        "GROUP BY Since, First ORDER BY Since, First"
    )


def _cut(table: Table, lines: bytes, most: int) -> Iterator[Piece]:
    """Pieces of windows that follow each other; of a window with too many rows several."""
    open_piece: Piece | None = None
    for line in lines.decode().splitlines():
        since_s, first_s, rows = map(int, line.split("\t"))
        joined = open_piece
        if joined and joined.since_s == since_s and joined.rows + rows <= most:
            first, rows = joined.first_s, joined.rows + rows
        else:
            if joined:
                yield from _shared(joined, most)
            first = first_s
        open_piece = Piece(
            table=table, since_s=since_s, until_s=since_s + _width_s(table), first_s=first,
            last_s=first_s, rows=rows,
        )  # fmt: skip
    if open_piece:
        yield from _shared(open_piece, most)


def _shared(piece: Piece, most: int) -> Iterator[Piece]:
    shares = -(-piece.rows // most)
    for share in range(shares):
        yield Piece(
            table=piece.table, since_s=piece.since_s, until_s=piece.until_s, first_s=piece.first_s,
            last_s=piece.last_s, share=share, shares=shares,
            rows=piece.rows // shares + (share < piece.rows % shares),
        )  # fmt: skip


def rows_question(piece: Piece) -> str:
    """Return the question for the rows of a piece, as `TARGETS` take them."""
    names = ", ".join(f"`{name}`" for name in TARGETS[piece.table].columns)
    return (
        f"SELECT {names}, count() OVER () AS {_IN_ALL} FROM {_ROWS_OF[piece.table]} "
        f"WHERE {_within(piece)} SETTINGS max_threads = 1, max_memory_usage = {MOST_MEMORY}"
    )


def rows_in(rows: bytes) -> int:
    """How many rows an answer to that question has."""
    # A block begins with how many columns and rows it has: of an answer without rows, none.
    return int.from_bytes(rows[-_COUNT_BYTES:], "little") if rows[1:2].strip(b"\0") else 0


def count_question(piece: Piece, mine: str) -> str:
    """Return the question how many rows of a piece there are.

    Args:
        mine: What is true of rows of the service that asks.
    """
    return f"SELECT count() FROM {_ROWS_OF[piece.table]} WHERE {_within(piece)} AND {mine}"


def token_of(piece: Piece, writer: str) -> str:
    """Return what a server knows a piece by that is sent twice."""
    return (
        f"{writer}-{piece.table}-{piece.since_s}-{piece.first_s}-{piece.last_s}-"
        f"{piece.share}-{piece.shares}"
    )


def _within(piece: Piece) -> str:
    arrived, window = _arrived(piece.table), _window(piece.table)
    shared = f" AND cityHash64(TraceId) % {piece.shares} = {piece.share}" * (piece.shares > 1)
    return (
        f"{arrived} >= fromUnixTimestamp64Milli({piece.since_s * 1000}) "
        f"AND {arrived} < fromUnixTimestamp64Milli({piece.until_s * 1000}) "
        f"AND {window} >= toDateTime({piece.first_s}, 'UTC') "
        f"AND {window} <= toDateTime({piece.last_s}, 'UTC'){shared}"
    )


def _arrived(table: Table) -> str:
    return _ARRIVED.get(table, "Arrived")


def _window(table: Table) -> str:
    return f"toStartOfFiveMinutes({_STARTED.get(table, 'Timestamp')})"


def _width_s(table: Table) -> int:
    return _WIDTH_S.get(table, 24 * _HOUR_S)
