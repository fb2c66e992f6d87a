"""How the engine itself reads OTLP's protobuf into `span_arrivals`: the oracle of `sql.native`."""

# ruff: noqa: S608 - SQL is put together of our own names
from collections.abc import Mapping
from pathlib import Path

from latencytrace.model import SpanKind, StatusCode, semconv
from latencytrace.service.otlp.block_builder import NAMELESS
from latencytrace.service.sql.tables import (
    ARRIVALS,
    DATABASE,
    SPAN_COLUMNS,
    host_of,
)

RAW = f"{DATABASE}.otlp"
VIEW = f"{DATABASE}.otlp_into_arrivals"

# OTLP's own schema is recursive, which columns cannot be: here it is cut at two levels,
# and without the fields that are not kept.
PROTOBUF_SCHEMA = """
syntax = "proto3";
message Leaf { oneof type {
  string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
  bytes array_value = 5; bytes kvlist_value = 6; bytes bytes_value = 7; } }
message Leaves { repeated Leaf values = 1; }
message Pair { string key = 1; Leaf value = 2; }
message Pairs { repeated Pair values = 1; }
message Value { oneof type {
  string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
  Leaves array_value = 5; Pairs kvlist_value = 6; bytes bytes_value = 7; } }
message Attribute { string key = 1; Value value = 2; }
message LeafAttribute { string key = 1; Leaf value = 2; }
message Resource { repeated LeafAttribute attributes = 1; }
message Scope { string name = 1; string version = 2; }
message Event {
  fixed64 time_unix_nano = 1; string name = 2; repeated LeafAttribute attributes = 3; }
message Link {
  bytes trace_id = 1; bytes span_id = 2; string trace_state = 3;
  repeated LeafAttribute attributes = 4; }
message Status { string message = 2; int32 code = 3; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4;
  string name = 5; int32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
  repeated Attribute attributes = 9; repeated Event events = 11; repeated Link links = 13;
  Status status = 15; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Request { repeated ResourceSpans resource_spans = 1; }
"""

# The numbers are those of the fields in the oneof.
_TYPE = "type Enum8('n' = 0, 's' = 1, 'b' = 2, 'i' = 3, 'd' = 4, 'a' = 5, 'm' = 6, 'y' = 7)"
_SCALARS = f"{_TYPE}, string_value String, bool_value Bool, int_value Int64, double_value Float64"
_LEAF = f"Tuple({_SCALARS}, array_value String, kvlist_value String, bytes_value String)"
_VALUE = (
    f"Tuple({_SCALARS}, array_value Tuple(values Array({_LEAF})), "
    f"kvlist_value Tuple(values Array(Tuple(key String, value {_LEAF}))), bytes_value String)"
)
_ATTRIBUTES = f"attributes Array(Tuple(key String, value {_VALUE}))"
_LEAVES = f"attributes Array(Tuple(key String, value {_LEAF}))"
_SPAN = (
    "Tuple(trace_id String, span_id String, trace_state String, parent_span_id String, "
    "name String, kind Int32, start_time_unix_nano UInt64, end_time_unix_nano UInt64, "
    f"{_ATTRIBUTES}, "
    f"events Array(Tuple(time_unix_nano UInt64, name String, {_LEAVES})), "
    "links Array(Tuple(trace_id String, span_id String, trace_state String, "
    f"{_LEAVES})), "
    "status Tuple(message String, code Int32))"
)
_RESOURCE_SPANS = (
    f"Array(Tuple(resource Tuple({_LEAVES}), scope_spans Array(Tuple("
    f"scope Tuple(name String, version String), spans Array({_SPAN})))))"
)


def insert_statement(schema: Path, block: Path) -> str:
    """The statement that inserts a request from a file, with `PROTOBUF_SCHEMA` in another."""
    structure = f"resource_spans {_RESOURCE_SPANS}".replace("'", "\\'")
    return (
        f"INSERT INTO {RAW} SELECT * FROM file('{block}', 'ProtobufSingle', "
        f"'{structure}') SETTINGS "
        f"input_format_protobuf_oneof_presence = 1, format_schema = '{schema}:Request'"
    )


def view_definitions() -> tuple[str, ...]:
    """Statements that make the view anew; they touch no data."""
    return (
        f"DROP VIEW IF EXISTS {VIEW}",
        f"DROP TABLE IF EXISTS {RAW}",
        f"CREATE TABLE {RAW} (resource_spans {_RESOURCE_SPANS}) ENGINE = Null",
        f"CREATE MATERIALIZED VIEW {VIEW} TO {ARRIVALS} AS {_rows()}",
    )


def _rows() -> str:
    """The view's question: rows of arrivals from requests."""
    selected = ", ".join(f"{_COLUMNS[column]} AS `{column}`" for column in SPAN_COLUMNS)
    # Each level passes on only what the rows need, or whole resources would be copied per span.
    return (
        # One lambda for both of them is planned once.
        "WITH arrayConcat(`span.events`.attributes, `span.links`.attributes) AS lists, "
        f"arrayMap(attributes -> {_map('attributes')}, lists) AS maps, "
        f"arrayMap(attributes -> {_types('attributes')}, lists) AS types_of_lists "
        f"SELECT {selected} "
        "FROM (SELECT resource, scope_name, scope_version, untuple(one) AS span "
        "FROM (SELECT resource, scope.scope.name AS scope_name, "
        "scope.scope.version AS scope_version, arrayJoin(scope.spans) AS one "
        "FROM (SELECT resource, arrayJoin(scopes) AS scope "
        f"FROM (SELECT CAST({_map('spans.resource.attributes')}, "
        "'Map(LowCardinality(String), String)') AS resource, spans.scope_spans AS scopes "
        f"FROM (SELECT arrayJoin(resource_spans) AS spans FROM {RAW})))))"
    )


# Lambdas take the fields of values as arrays of their own: over tuples they cost 0.8 µs a
# span more. Each function written here is planned anew at every insert, 0.1 ms apiece.
def _map(attributes: str) -> str:
    """Keys and texts; arrays and maps as base64."""
    packed = "base64Encode(concat(bytes, list, pairs))"
    more = {"array_value": "list", "kvlist_value": "pairs"}
    return _map_of(attributes, packed, more)


def _flat_map(attributes: str) -> str:
    """Keys and texts, where there are no arrays and maps."""
    return _map_of(attributes, "base64Encode(bytes)", {})


def _deep_map(attributes: str) -> str:
    """Keys and texts; arrays and maps as JSON."""
    value = f"{attributes}.value"
    items = (
        f"arrayMap((list, pairs) -> arrayMap(leaf -> {_json_of('leaf')}, "
        "arrayConcat(list, pairs.value)), "
        f"{value}.array_value.values, {value}.kvlist_value.values)"
    )
    named = "arrayMap((key, item) -> concat(toJSONString(key), ':', item), keys, items)"
    others = (
        "type = 'a', concat('[', arrayStringConcat(items, ','), ']'), "
        f"type = 'm', concat('{{', arrayStringConcat({named}, ','), '}}'), "
        "base64Encode(bytes)"
    )
    return _map_of(attributes, others, {"kvlist_value.values.key": "keys"}, items)


def _map_of(attributes: str, others: str, fields: Mapping[str, str], *items: str) -> str:
    """Keys and texts.

    Args:
        attributes: Whose.
        others: Branches that say what becomes of the types that are no scalars.
        fields: Fields of values that these branches speak of, and what they call them.
        items: An array that they call `items`.
    """
    scalars = ["string", "int", "double", "bool", "bytes"]
    arguments = ["type", *scalars, *fields.values(), *("items" for _ in items)]
    named = ["type", *(f"{name}_value" for name in scalars), *fields]
    arrays = [*(f"{attributes}.value.{name}" for name in named), *items]
    text = (
        "multiIf(type = 's', string, type = 'i', toString(int), type = 'd', toString(double), "
        f"type = 'b', toString(bool), {others})"
    )
    return (
        f"mapFromArrays({attributes}.key, "
        f"arrayMap(({', '.join(arguments)}) -> {text}, {', '.join(arrays)}))"
    )


def _json_of(leaf: str) -> str:
    # A float is written so that JSON's readers take it for one; so are NaN and Infinity.
    double = (
        f"transform(toString({leaf}.double_value), "
        "['nan', 'inf', '-inf'], ['NaN', 'Infinity', '-Infinity'])"
    )
    return (
        f"multiIf({leaf}.type = 's', toJSONString({leaf}.string_value), "
        f"{leaf}.type = 'i', toString({leaf}.int_value), "
        f"{leaf}.type = 'd', if(match({double}, '[^-0-9]'), {double}, concat({double}, '.0')), "
        f"{leaf}.type = 'b', toString({leaf}.bool_value), "
        f"{leaf}.type = 'n', 'null', "
        f"concat('{{\"', toString({leaf}.type), '\":\"', base64Encode(concat("
        f"{leaf}.array_value, {leaf}.kvlist_value, {leaf}.bytes_value)), '\"}}'))"
    )


def _types(attributes: str) -> str:
    letters = f"arrayStringConcat(CAST({attributes}.value.type, 'Array(String)'))"
    return f"if(match({letters}, '[^s]'), {letters}, '')"


def _time(nanoseconds: str) -> str:
    """A time whose 64 bits are kept, even where they lie beyond the year 2262."""
    return f"fromUnixTimestamp64Nano(reinterpretAsInt64({nanoseconds}))"


def _word(words: type[SpanKind] | type[StatusCode], number: str) -> str:
    """The name of an enum's number, the first for a number without name."""
    names = [str(word) for word in words]
    return f"transform({number}, {list(range(len(names)))}, {names}, '{names[0]}')"


_COLUMNS = {
    "Timestamp": _time("`span.start_time_unix_nano`"),
    "TraceId": "lower(hex(`span.trace_id`))",
    "SpanId": "lower(hex(`span.span_id`))",
    # Some senders write a root's parent as zeros.
    "ParentSpanId": (
        "if(`span.parent_span_id` = unhex('0000000000000000'), '', "
        "lower(hex(`span.parent_span_id`)))"
    ),
    "TraceState": "`span.trace_state`",
    "SpanName": "`span.name`",
    "SpanKind": _word(SpanKind, "`span.kind`"),
    "ServiceName": (
        f"if(resource['{semconv.SERVICE_NAME}'] = '', '{NAMELESS}', "
        f"resource['{semconv.SERVICE_NAME}'])"
    ),
    "ResourceAttributes": "resource",
    "ScopeName": "scope_name",
    "ScopeVersion": "scope_version",
    # The nested columns are looked into for those rows alone that have some: 0.6 µs a span.
    "SpanAttributes": (
        "if(hasAny(`span.attributes`.value.type, ['a', 'm']), "
        f"{_deep_map('`span.attributes`')}, {_flat_map('`span.attributes`')})"
    ),
    "Duration": "reinterpretAsInt64(`span.end_time_unix_nano` - `span.start_time_unix_nano`)",
    "StatusCode": _word(StatusCode, "`span.status`.code"),
    "StatusMessage": "`span.status`.message",
    "Events.Timestamp": f"arrayMap(time -> {_time('time')}, `span.events`.time_unix_nano)",
    "Events.Name": "`span.events`.name",
    "Events.Attributes": "arraySlice(maps, 1, length(`span.events`.name))",
    "Links.TraceId": "arrayMap(link -> lower(hex(link)), `span.links`.trace_id)",
    "Links.SpanId": "arrayMap(link -> lower(hex(link)), `span.links`.span_id)",
    "Links.TraceState": "`span.links`.trace_state",
    "Links.Attributes": "arraySlice(maps, length(`span.events`.name) + 1)",
    "SpanAttributeTypes": _types("`span.attributes`"),
    "Events.AttributeTypes": "arraySlice(types_of_lists, 1, length(`span.events`.name))",
    "Links.AttributeTypes": "arraySlice(types_of_lists, length(`span.events`.name) + 1)",
    "ServiceInstance": f"resource['{semconv.SERVICE_INSTANCE_ID}']",
    "Host": host_of("resource"),
    "ServiceVersion": f"resource['{semconv.SERVICE_VERSION}']",
    "ContentRemoved": (
        f"countEqual(`span.attributes`.value.string_value, '{semconv.CONTENT_REMOVED}') "
        "+ arraySum(arrayMap(attributes -> "
        f"countEqual(attributes.value.string_value, '{semconv.CONTENT_REMOVED}'), lists))"
    ),
}
assert _COLUMNS.keys() == SPAN_COLUMNS.keys()
