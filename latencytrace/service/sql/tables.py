"""The three tables, and how an existing one gains the columns that it lacks.

Column names are those of the OpenTelemetry Collector's `otel_traces`; ours have defaults,
so that its exporter can insert into `spans` too.
"""

from collections.abc import Callable, Iterator

from latencytrace.model import Stage, semconv

DATABASE = "latencytrace"
ARRIVALS = f"{DATABASE}.span_arrivals"
SPANS = f"{DATABASE}.spans"
REQUESTS = f"{DATABASE}.requests"

ARRIVALS_KEPT = "INTERVAL 2 HOUR"

Engine = Callable[[str, str], str]
"""Writes an ENGINE clause for an engine of the MergeTree family and its arguments."""


def local_engine(family: str, arguments: str) -> str:
    """The engine of a table that lives in one place."""
    return f"{family}({arguments})"


# Fixed, so that a table whose definition was torn finds its data again.
UUIDS = {
    ARRIVALS: "6c617465-6e63-4974-8000-000000000001",
    SPANS: "6c617465-6e63-4974-8000-000000000002",
    REQUESTS: "6c617465-6e63-4974-8000-000000000003",
}

_WORD = "LowCardinality(String)"
_MAP = f"Map({_WORD}, String)"
_UNKNOWN_WORD = "LowCardinality(Nullable(String))"


def stage_column(stage: Stage) -> str:
    """The column of `requests` that holds a stage's nanoseconds: `RemoteModelNs`."""
    return "".join(word.capitalize() for word in stage.split("_")) + "Ns"


CLOCK_NAMES = (semconv.K8S_NODE_NAME, semconv.HOST_ID, semconv.HOST_NAME)


def host_of(resource: str) -> str:
    """Whose clock a resource's spans were told by: a node's, which its containers share."""
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

# One letter per attribute, in the map's order (see `otlp_view`); empty: all are strings.
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
    # How many attributes were left out as content (see `content`).
    "ContentRemoved": "UInt32 DEFAULT 0 CODEC({codec})",
}

SPAN_COLUMNS = COLLECTOR_COLUMNS | OWN_SPAN_COLUMNS

REQUEST_COLUMNS = {
    "TraceId": "String CODEC(ZSTD(1))",
    "SpanId": "String CODEC(ZSTD(1))",
    "Revision": "UInt32",
    "Moved": "UInt8 DEFAULT 0",  # 1: a later revision starts elsewhere, this row is void
    "Written": "DateTime64(3) DEFAULT now64(3)",
    "Outermost": "Bool",
    "Health": "Bool",
    "ServiceName": _WORD,
    "ServiceInstance": _UNKNOWN_WORD,
    "ServiceVersion": _UNKNOWN_WORD,
    "Route": _WORD,
    "Model": _UNKNOWN_WORD,
    "Status": _WORD,
    "Start": "DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))",
    "DurationNs": "UInt64 CODEC(ZSTD(1))",
    "TimeToFirstTokenNs": "Nullable(Int64) CODEC(ZSTD(1))",
    "TimePerOutputTokenNs": "Nullable(Int64) CODEC(ZSTD(1))",
    "InputTokens": "Nullable(Int64) CODEC(ZSTD(1))",
    "CachedInputTokens": "Nullable(Int64) CODEC(ZSTD(1))",
    "OutputTokens": "Nullable(Int64) CODEC(ZSTD(1))",
    "FinishReason": _UNKNOWN_WORD,
    "BatchSize": "Nullable(Int64) CODEC(ZSTD(1))",
    # Segments partition the request, so that each starts where the one before it ends.
    "Segments.EndNs": "Array(UInt64) CODEC(ZSTD(1))",
    "Segments.Stage": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Segments.SpanId": "Array(String) CODEC(ZSTD(1))",
    "Segments.Name": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Repairs.Kind": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Repairs.SpanId": "Array(String) CODEC(ZSTD(1))",
    "Repairs.Detail": "Array(String) CODEC(ZSTD(1))",
    "Attributes.Key": f"Array({_WORD}) CODEC(ZSTD(1))",
    "Attributes.Value": "Array(String) CODEC(ZSTD(1))",
    "AttributesLeftOut": "UInt32 DEFAULT 1",  # in rows of older versions all of them are
} | {stage_column(stage): "UInt64 CODEC(ZSTD(1))" for stage in Stage}

_BLOOM = "INDEX ByTrace TraceId TYPE bloom_filter(0.001) GRANULARITY 1"

# A part that cannot be read is set aside by the engine, however many there are.
_SET_ASIDE_TORN = (
    "max_suspicious_broken_parts = 1000000000, "
    "max_suspicious_broken_parts_bytes = 1000000000000000"
)


def table_definitions(engine: Engine = local_engine) -> Iterator[tuple[str, str]]:
    """Each table's name and what stands after it in `CREATE TABLE` and `ATTACH TABLE`."""
    arrivals = _columns(SPAN_COLUMNS, codec="LZ4") | {"Arrived": "DateTime64(3) DEFAULT now64(3)"}
    yield (
        ARRIVALS,
        (
            f"({_listed(arrivals)}, {_BLOOM}) "
            f"ENGINE = {engine('MergeTree', '')} "
            # By the time of arrival: imported spans may be old, and clocks wrong by years.
            "PARTITION BY toStartOfHour(Arrived) "
            "ORDER BY (toStartOfFiveMinutes(Timestamp), TraceId, Timestamp, SpanId) "
            f"TTL toDateTime(Arrived) + {ARRIVALS_KEPT} "
            f"SETTINGS ttl_only_drop_parts = 1, {_SET_ASIDE_TORN}"
        ),
    )
    yield (
        SPANS,
        (
            f"({_listed(_columns(SPAN_COLUMNS, codec='ZSTD(1)'))}, {_BLOOM}) "
            f"ENGINE = {engine('MergeTree', '')} "
            "PARTITION BY toDate(Timestamp, 'UTC') "
            "ORDER BY (toStartOfFiveMinutes(Timestamp), TraceId, Timestamp, SpanId) "
            f"SETTINGS {_SET_ASIDE_TORN}"
        ),
    )
    yield (
        REQUESTS,
        (
            f"({_listed(REQUEST_COLUMNS)}, {_BLOOM}) "
            f"ENGINE = {engine('ReplacingMergeTree', 'Revision, Moved')} "
            "PARTITION BY toDate(Start, 'UTC') "
            # The time first: a cohort reads its own stretch of a day. A request whose start
            # moved to another row has the old one marked (`Moved`).
            "ORDER BY (toStartOfFiveMinutes(Start), TraceId, SpanId) "
            f"SETTINGS {_SET_ASIDE_TORN}"
        ),
    )


def missing_columns() -> Iterator[str]:
    """Statements that add to tables of an older version what they lack."""
    own = _columns(OWN_SPAN_COLUMNS, codec="ZSTD(1)")
    for table, columns in ((ARRIVALS, own), (SPANS, own), (REQUESTS, REQUEST_COLUMNS)):
        added = ", ".join(
            f"ADD COLUMN IF NOT EXISTS `{name}` {definition}"
            for name, definition in columns.items()
        )
        yield f"ALTER TABLE {table} {added}"


def _columns(columns: dict[str, str], *, codec: str) -> dict[str, str]:
    return {name: definition.format(codec=codec) for name, definition in columns.items()}


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {definition}" for name, definition in columns.items())
