"""The three tables and what is derived from them, and how an existing one gains what it lacks.

Column names are those of the OpenTelemetry Collector's `otel_traces`; ours have defaults,
so that its exporter can insert into `spans` too.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from latencytrace.model import Stage, semconv
from latencytrace.model.detail import TraceDetail
from latencytrace.service.otlp.block_builder import CLOCK_NAMES

DATABASE = "latencytrace"
ARRIVALS = f"{DATABASE}.span_arrivals"
SPANS = f"{DATABASE}.spans"
REQUESTS = f"{DATABASE}.requests"
# Made of `requests`, and made anew from there where they are lost.
ROLLUPS = f"{DATABASE}.request_rollups"
WINDOWS = f"{DATABASE}.rollup_windows"
DERIVED = (WINDOWS, ROLLUPS)  # the first names what of the second counts: it goes first

TABLE_UUIDS = (
    f"SELECT database || '.' || name, uuid FROM system.tables WHERE database = '{DATABASE}'"
)
DETACHED_PARTS = (
    "SELECT table, name, reason, path FROM system.detached_parts "
    f"WHERE database = '{DATABASE}' ORDER BY table, name"
)
COLUMNS = f"SELECT table, name FROM system.columns WHERE database = '{DATABASE}'"
COUNT = "SELECT count() FROM {table}"
# The rollups of a day are part of it: they go when its requests go.
PARTITIONS = (
    "SELECT if(table = 'request_rollups', 'requests', table) AS owner, partition_id, "
    "sumIf(rows, owner = table), sum(bytes_on_disk) FROM system.parts "
    f"WHERE active AND database = '{DATABASE}' "
    "AND table IN ('span_arrivals', 'spans', 'requests', 'request_rollups') "
    # Of one that was dropped, a process that died at once may leave an empty part.
    "GROUP BY owner, partition_id HAVING sum(rows) > 0 ORDER BY owner, partition_id"
)
# The engine by itself refuses to drop more than 50 GB.
DROP_PARTITION = (
    f"ALTER TABLE {DATABASE}.{{table}} DROP PARTITION ID '{{name}}' "
    "SETTINGS max_partition_size_to_drop = 0"
)
ACTIVE_PARTS = (
    "SELECT count() FROM system.parts WHERE active AND name = '{name}' "
    "AND database || '.' || table = '{table}'"
)

Engine = Callable[[str, str], str]
"""Writes an ENGINE clause for an engine of the MergeTree family and its arguments."""


def local_engine(family: str, arguments: str) -> str:
    """The engine of a table that lives in one place."""
    return f"{family}({arguments})"


def replicated_engine(family: str, arguments: str) -> str:
    """The engine of a table that each server of a cluster has a copy of.

    Its path in Keeper and the name of the copy are those of the servers' configuration.
    """
    return f"Replicated{family}({arguments})"


# Fixed, so that a table whose definition was torn finds its data again. A new layout that
# `ALTER` cannot make has a new one, by which the old is known.
UUIDS = {
    ARRIVALS: "6c617465-6e63-4974-8000-000000000001",
    SPANS: "6c617465-6e63-4974-8000-000000000012",
    REQUESTS: "6c617465-6e63-4974-8000-000000000013",
    ROLLUPS: "6c617465-6e63-4974-8000-000000000021",
    WINDOWS: "6c617465-6e63-4974-8000-000000000022",
}

_WORD = "LowCardinality(String)"
_MAP = f"Map({_WORD}, String)"
_UNKNOWN_WORD = "LowCardinality(Nullable(String))"


def stage_column(stage: Stage) -> str:
    """The column of `requests` that holds a stage's nanoseconds: `RemoteModelNs`."""
    return "".join(word.capitalize() for word in stage.split("_")) + "Ns"


def host_of(resource: str) -> str:
    """The clock that a resource's spans were timed by: a node's, which its containers share."""
    first = ", ".join(f"nullIf({resource}['{name}'], '')" for name in CLOCK_NAMES)
    return f"ifNull(coalesce({first}), '')"


COLLECTOR_COLUMNS = {
    "Timestamp": "DateTime64(9) CODEC(Delta, {codec})",
    "TraceId": "String CODEC({codec})",
    "SpanId": "String CODEC({codec})",
    "ParentSpanId": "String CODEC({codec})",
    "TraceState": "String CODEC({codec})",
    "SpanName": f"{_WORD} CODEC({{codec}})",
    "SpanKind": f"{_WORD} CODEC({{codec}})",
    "ServiceName": f"{_WORD} CODEC({{codec}})",
    "ResourceAttributes": f"{_MAP} CODEC({{codec}})",
    "ScopeName": f"{_WORD} CODEC({{codec}})",
    "ScopeVersion": f"{_WORD} CODEC({{codec}})",
    "SpanAttributes": f"{_MAP} CODEC({{codec}})",
    "Duration": "Int64 CODEC({codec})",  # signed: a span may end before it starts
    "StatusCode": f"{_WORD} CODEC({{codec}})",
    "StatusMessage": "String CODEC({codec})",
    "Events.Timestamp": "Array(DateTime64(9)) CODEC({codec})",
    "Events.Name": f"Array({_WORD}) CODEC({{codec}})",
    "Events.Attributes": f"Array({_MAP}) CODEC({{codec}})",
    "Links.TraceId": "Array(String) CODEC({codec})",
    "Links.SpanId": "Array(String) CODEC({codec})",
    "Links.TraceState": "Array(String) CODEC({codec})",
    "Links.Attributes": f"Array({_MAP}) CODEC({{codec}})",
}

# One letter per attribute, in the map's order; empty: all are strings.
OWN_SPAN_COLUMNS = {
    "SpanAttributeTypes": f"{_WORD} DEFAULT '' CODEC({{codec}})",
    "Events.AttributeTypes": f"Array({_WORD}) CODEC({{codec}})",
    "Links.AttributeTypes": f"Array({_WORD}) CODEC({{codec}})",
    "ServiceInstance": (
        f"{_WORD} DEFAULT ResourceAttributes['{semconv.SERVICE_INSTANCE_ID}'] CODEC({{codec}})"
    ),
    "ServiceVersion": (
        f"{_WORD} DEFAULT ResourceAttributes['{semconv.SERVICE_VERSION}'] CODEC({{codec}})"
    ),
    "Host": f"{_WORD} DEFAULT {host_of('ResourceAttributes')} CODEC({{codec}})",
    # How many attributes were left out as content.
    "ContentRemoved": "UInt32 DEFAULT 0 CODEC({codec})",
}

SPAN_COLUMNS = COLLECTOR_COLUMNS | OWN_SPAN_COLUMNS

REQUEST_COLUMNS = {
    "TraceId": "String CODEC(ZSTD(1))",
    "SpanId": "String CODEC(ZSTD(1))",
    "Revision": "UInt32",
    "Moved": "UInt8 DEFAULT 0",  # 1: a later revision starts elsewhere, this row is void
    # When the revision was written under which metrics counted it; 0: they count this one.
    "CountedAs": "DateTime64(3) DEFAULT 0",
    "Written": "DateTime64(3) DEFAULT now64(3)",
    "Outermost": "Bool",
    "Health": "Bool",
    "Startup": "Bool DEFAULT false",
    "Detail": f"{_WORD} DEFAULT '{TraceDetail.FULL}'",
    "Weight": "UInt32 DEFAULT 1 CODEC(ZSTD(1))",  # how many requests it stands for
    "ServiceName": _WORD,
    "ServiceInstance": _UNKNOWN_WORD,
    "ServiceVersion": _UNKNOWN_WORD,
    "Route": _WORD,
    "Model": _UNKNOWN_WORD,
    "Status": _WORD,
    "Start": "DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))",
    "DurationNs": "UInt64 CODEC(ZSTD(1))",
    "TimeToFirstTokenNs": "Nullable(Int64) CODEC(ZSTD(1))",
    "TimeToFirstTokenOf": _UNKNOWN_WORD,
    "ModelTimeToFirstTokenNs": "Nullable(Int64) CODEC(ZSTD(1))",
    "TimePerOutputTokenNs": "Nullable(Int64) CODEC(ZSTD(1))",
    "InputTokens": "Nullable(Int64) CODEC(ZSTD(1))",
    "CachedInputTokens": "Nullable(Int64) CODEC(ZSTD(1))",
    "OutputTokens": "Nullable(Int64) CODEC(ZSTD(1))",
    "FinishReason": _UNKNOWN_WORD,
    "BatchSize": "Nullable(Int64) CODEC(ZSTD(1))",
    "QueueDepth": "Nullable(Int64) CODEC(ZSTD(1))",
    "Concurrency": "Nullable(Int64) CODEC(ZSTD(1))",
    "Preemptions": "Nullable(Int64) CODEC(ZSTD(1))",
    "ColdStart": "Nullable(Bool) CODEC(ZSTD(1))",
    # Segments partition the request, so that each starts where the one before it ends.
    "Segments.EndNs": "Array(UInt64) CODEC(ZSTD(1))",
    "Segments.Stage": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Segments.SpanId": "Array(String) CODEC(ZSTD(1))",
    "Segments.Name": f"Array({_WORD}) CODEC(ZSTD(1))",
    # What its spans went on with after its end: how long, and each stage's part of that.
    "AfterNs": "UInt64 DEFAULT 0 CODEC(ZSTD(1))",
    "After.Stage": f"Array({_WORD}) CODEC(ZSTD(1))",
    "After.Ns": "Array(UInt64) CODEC(ZSTD(1))",
    # What its stage `runtime` was: each name once, and how long it held the request up.
    "Runtime.Name": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Runtime.Ns": "Array(UInt64) CODEC(ZSTD(1))",
    "Repairs.Kind": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Repairs.SpanId": "Array(String) CODEC(ZSTD(1))",
    "Repairs.Detail": "Array(String) CODEC(ZSTD(1))",
    "Attributes.Key": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Attributes.Value": "Array(String) CODEC(ZSTD(1))",
    "AttributesLeftOut": "UInt32 DEFAULT 1",  # in rows of older versions all of them are
} | {stage_column(stage): "UInt64 CODEC(ZSTD(1))" for stage in Stage}

# Labels are those of `requests`, by which cohorts are distinguished.
ROLLUP_COLUMNS = {
    "Window": "UInt32 CODEC(Delta, ZSTD(1))",  # its start in seconds since the Unix epoch
    "Pass": "UInt64 CODEC(Delta, ZSTD(1))",  # what was written together
    "Day": "Date",  # on which the requests were written
    "Kind": "UInt8",
    "Detail": REQUEST_COLUMNS["Detail"],
    "Outermost": "Bool",
    "ServiceName": _WORD,
    "ServiceInstance": _UNKNOWN_WORD,
    "ServiceVersion": _UNKNOWN_WORD,
    "Route": _WORD,
    "Model": _UNKNOWN_WORD,
    "Status": _WORD,
    "Measure": _WORD,  # the column of `requests` that was measured
    "Part": _WORD,  # of a stage of `IN_PARTS`: its name
    "Bin": "Int16 CODEC(Delta, ZSTD(1))",
    "Count": "UInt64 CODEC(T64, ZSTD(1))",
    "Sum": "Float64 CODEC(ZSTD(1))",
}
WINDOW_COLUMNS = {
    "Window": "UInt32",
    "Pass": "UInt64",  # the rows that count; those of other passes are left over
    "AsOf": "DateTime64(3)",  # up to when the requests were written that it is made of
    "Merged": "Bool",  # no request of it has more than one row that stands
    "Requests": "UInt64",
    "Named": "Bool DEFAULT false",  # the user's own stages are counted by name, too
}

HAS_TTL = (
    f"SELECT count() FROM system.tables WHERE database || '.' || name = '{ARRIVALS}' "
    "AND create_table_query LIKE '% TTL %'"
)
NO_TTL = f"ALTER TABLE {ARRIVALS} REMOVE TTL"

_BLOOM = "INDEX ByTrace TraceId TYPE bloom_filter(0.001) GRANULARITY 1"

# A part that cannot be read is set aside by the engine, however many there are.
_SET_ASIDE_TORN = (
    "max_suspicious_broken_parts = 1000000000, "
    "max_suspicious_broken_parts_bytes = 1000000000000000"
)
# A merge rewrites all of its rows, which costs more than their insert did: fewer are made, of
# more parts each. The engine's own number is 5. And a part has a file or three for each of its
# columns, which costs more to make than what is in them, unless its rows are below so many bytes
# (not compressed): then one file has all columns. By itself the engine begins files at 10 MB,
# less than what an insert brings where much comes. Where a merge makes such files, it makes one
# column after the other: all at once take 2.5 MB for each column, and by itself the engine does
# that up to 131 072 rows.
_MERGES = {
    "merge_selector_base": 16,
    "min_bytes_for_wide_part": 64 << 20,
    "vertical_merge_algorithm_min_rows_to_activate": 1,
}
_MERGE_SETTINGS = ", ".join(f"{name} = {value}" for name, value in _MERGES.items())
_NOT_SET = " OR ".join(f"create_table_query NOT LIKE '%{name}%'" for name in _MERGES)
_LOCAL_SETTINGS = f"{_SET_ASIDE_TORN}, {_MERGE_SETTINGS}"
OLD_SETTINGS = (  # tables of older versions
    f"SELECT database || '.' || name FROM system.tables WHERE database = '{DATABASE}' "
    f"AND engine LIKE '%MergeTree' AND ({_NOT_SET})"
)
NEW_SETTINGS = f"ALTER TABLE {{table}} MODIFY SETTING {_MERGE_SETTINGS}"


# Which service wrote a row, where several write to the tables; empty: one service alone writes.
WRITER = {"Writer": f"{_WORD} DEFAULT ''"}
_ARRIVED = {"Arrived": "DateTime64(3) DEFAULT now64(3)", **WRITER}


def table_definitions(
    engine: Engine = local_engine, settings: str = _LOCAL_SETTINGS
) -> Iterator[tuple[str, str]]:
    """Each table's name and what stands after it in `CREATE TABLE` and `ATTACH TABLE`."""
    # Partitions are by the time of arrival, of all three tables: imported spans may be old, and
    # clocks wrong by years, yet what comes together lies together.
    yield (
        ARRIVALS,
        (
            f"({_listed(_columns(SPAN_COLUMNS, codec='LZ4') | _ARRIVED)}, {_BLOOM}) "
            f"ENGINE = {engine('MergeTree', '')} "
            "PARTITION BY toStartOfHour(Arrived) "
            "ORDER BY (toStartOfFiveMinutes(Timestamp), TraceId, Timestamp, SpanId) "
            # No TTL: the engine would drop what no request is made of yet; `Retention` does not.
            f"SETTINGS {settings}"
        ),
    )
    yield (
        SPANS,
        (
            f"({_listed(_columns(SPAN_COLUMNS, codec='ZSTD(1)') | _ARRIVED)}, {_BLOOM}) "
            f"ENGINE = {engine('MergeTree', '')} "
            "PARTITION BY toDate(Arrived, 'UTC') "
            "ORDER BY (toStartOfFiveMinutes(Timestamp), TraceId, Timestamp, SpanId) "
            f"SETTINGS {settings}"
        ),
    )
    yield (
        REQUESTS,
        (
            f"({_listed(REQUEST_COLUMNS | WRITER)}, {_BLOOM}) "
            f"ENGINE = {engine('ReplacingMergeTree', 'Revision, Moved')} "
            # FINAL finds the highest revision, in whichever partition it is.
            "PARTITION BY toDate(Written, 'UTC') "
            # The time first: a cohort reads its own stretch of a day. A request whose start
            # moved to another row has the old one marked (`Moved`).
            "ORDER BY (toStartOfFiveMinutes(Start), TraceId, SpanId) "
            f"SETTINGS {settings}"
        ),
    )
    yield (
        ROLLUPS,
        (
            f"({_listed(ROLLUP_COLUMNS)}) ENGINE = {engine('MergeTree', '')} "
            "PARTITION BY Day "  # dropped with the requests of that day
            "ORDER BY (Window, Pass, ServiceName, Route, Status, Measure, Bin) "
            f"SETTINGS {settings}"
        ),
    )
    yield (
        WINDOWS,
        (
            f"({_listed(WINDOW_COLUMNS)}) ENGINE = {engine('ReplacingMergeTree', 'Pass')} "
            f"ORDER BY Window SETTINGS {settings}"
        ),
    )


def copy_of(table: str) -> str:
    """The name under which a table of an older layout is written anew."""
    return f"{table}_anew"


def written_anew(table: str, definition: str, columns: Collection[str]) -> Iterator[str]:
    """Statements that copy the rows of a table of an older layout into a new one.

    Args:
        columns: Columns of the old one; those of both are copied.
    """
    known = REQUEST_COLUMNS if table == REQUESTS else SPAN_COLUMNS
    names = ", ".join(f"`{name}`" for name in known if name in columns)
    copy = copy_of(table)
    yield f"DROP TABLE IF EXISTS {copy} SYNC"
    yield f"CREATE TABLE {copy} UUID '{UUIDS[table]}' {definition}"
    yield (
        f"INSERT INTO {copy} ({names}) SELECT {names} FROM {table} "
        "SETTINGS max_partitions_per_insert_block = 0"
    )


def taken_over(table: str) -> Iterator[str]:
    """Statements that put the copy in the place of the table."""
    yield f"DROP TABLE {table} SYNC"
    yield f"RENAME TABLE {copy_of(table)} TO {table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table, and the form of the blocks that are inserted into it."""

    table: str
    columns: Mapping[str, str]  # by name: their types
    block_format: str  # the engine's name for it
    left_out: Mapping[str, str] = field(default_factory=dict)  # in the block, not in the table
    read: Mapping[str, str] = field(default_factory=dict)  # by name: how; others as they are

    def insert_statement(
        self, path: str | None, arrived_ms: int | None = None, writer: str = ""
    ) -> str:
        """The statement that inserts a block.

        Args:
            path: Path of the file that holds it; None: it follows the statement.
            arrived_ms: When its spans arrived; None: now, or as the block has it.
            writer: The service that writes it; empty: the only one.
        """
        names = ", ".join(f"`{name}`" for name in self.columns)
        read = ", ".join(self.read.get(name, f"`{name}`") for name in self.columns)
        listed = _listed({**self.columns, **self.left_out})
        structure = listed.replace("\\", "\\\\").replace("'", "\\'")
        column, value = "", ""
        if arrived_ms is not None:
            column, value = ", Arrived", f", fromUnixTimestamp64Milli({arrived_ms})"
        if writer:
            column, value = f"{column}, Writer", f"{value}, '{writer}'"
        block = f"file('{path}', '{self.block_format}', '{structure}')"
        if path is None:
            block = f"input('{structure}') FORMAT {self.block_format}\n"
        # A reader finds the last revision anyway; the engine need not look in each block.
        into = f"INSERT INTO {self.table} ({names}{column}) SETTINGS optimize_on_insert = 0"
        return f"{into} SELECT {read}{value} FROM {block}"


def column_type(definition: str) -> str:
    return re.split(" (?:CODEC|DEFAULT)", definition, maxsplit=1)[0]


NO_LONGER_USED = (  # what older versions read OTLP with
    f"DROP VIEW IF EXISTS {DATABASE}.otlp_into_arrivals",
    f"DROP TABLE IF EXISTS {DATABASE}.otlp",
)


def missing_columns(present: bytes) -> Iterator[str]:
    """Statements that add to tables of an older version what they lack, and to no others.

    The engine writes a table's definition anew for each, which a full disk leaves empty.

    Args:
        present: The answer to `COLUMNS` in the format TSV.
    """
    there = set(present.decode().splitlines())
    own = _columns(OWN_SPAN_COLUMNS, codec="ZSTD(1)") | WRITER
    for table, columns in (
        (ARRIVALS, own), (SPANS, own), (REQUESTS, REQUEST_COLUMNS | WRITER),
        (ROLLUPS, ROLLUP_COLUMNS), (WINDOWS, WINDOW_COLUMNS),
    ):  # fmt: skip
        name = table.removeprefix(f"{DATABASE}.")
        added = ", ".join(
            f"ADD COLUMN IF NOT EXISTS `{column}` {definition}"
            for column, definition in columns.items()
            if f"{name}\t{column}" not in there
        )
        if added:
            yield f"ALTER TABLE {table} {added}"


def _columns(columns: dict[str, str], *, codec: str) -> dict[str, str]:
    return {name: definition.format(codec=codec) for name, definition in columns.items()}


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {definition}" for name, definition in columns.items())
