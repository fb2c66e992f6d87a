"""Spans read back from `span_arrivals` and `spans`."""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from typing import cast

import orjson
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from latencytrace.model import (
    Attributes,
    AttributeValue,
    Event,
    Link,
    Span,
    SpanKind,
    StatusCode,
    semconv,
)
from latencytrace.model.from_columns import from_columns
from latencytrace.service.otlp.values import from_array, from_map, json_of
from latencytrace.service.sql.tables import ARRIVALS, SPAN_COLUMNS, SPANS

_U64 = (1 << 64) - 1
_AT_ONCE = 256  # rows as columns: more are slower, for they leave the processor's cache

_COLUMNS = (
    "TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, ServiceInstance, "
    "Host, ServiceVersion, ScopeName, toUnixTimestamp64Nano(Timestamp), Duration, StatusCode, "
    "mapKeys(SpanAttributes), mapValues(SpanAttributes), SpanAttributeTypes, "
    "arrayMap(time -> toUnixTimestamp64Nano(time), Events.Timestamp), Events.Name, "
    "arrayMap(map -> (mapKeys(map), mapValues(map)), Events.Attributes), Events.AttributeTypes, "
    "Links.TraceId, Links.SpanId, "
    "arrayMap(map -> (mapKeys(map), mapValues(map)), Links.Attributes), Links.AttributeTypes, "
    "ContentRemoved, TraceState"
)

# What came twice is one span. Both halves of a call of Zipkin's have one id, and are two spans.
_ONCE = (
    "ORDER BY TraceId, SpanId, Duration DESC, Timestamp "
    "LIMIT 1 BY TraceId, SpanId, ServiceName, SpanKind"
)

_NAMES = ", ".join(f"`{name}`" for name in SPAN_COLUMNS)
KEEP = (  # copies what arrived of the traces `{trace_ids:Array(String)}`
    f"INSERT INTO {SPANS} ({_NAMES}, Writer, Arrived) "
    f"SELECT DISTINCT {_NAMES}, Writer, fromUnixTimestamp64Milli({{arrived:Int64}}) "
    f"FROM {ARRIVALS} WHERE TraceId IN {{trace_ids:Array(String)}}"
)

_Texts = list[str]
_Maps = list[tuple[_Texts, _Texts]]
_Row = tuple[
    str, str, str, str, str, str, str, str, str, str, int, int, str, _Texts, _Texts, str,
    list[int], _Texts, _Maps, _Texts, _Texts, _Texts, _Maps, _Texts, int, str,
]  # fmt: skip


def spans_of(table: str) -> str:
    """The question for the spans of the traces `{trace_ids:Array(String)}`, as often as they came.

    Where copies differ, `without_duplicates` decides which one stands, as it does in memory.
    """
    return (
        f"SELECT {_COLUMNS} FROM {table} WHERE TraceId IN {{trace_ids:Array(String)}} "
        "ORDER BY TraceId, SpanId"
    )


def once(*answers: bytes) -> list[Span]:
    """The spans of several answers to a question, in order of place; what came twice is read once.

    Args:
        answers: In the format JSONCompactEachRow. A line that two of them have is read once:
            what lies in both tables is the same in both.

    Returns:
        Spans that share an id differ.
    """
    longest_first = sorted(map(bytes.splitlines, answers), key=len, reverse=True)
    lines = dict.fromkeys(chain.from_iterable(longest_first))
    unread = iter(lines)
    spans: list[Span] = []
    while few := [cast(_Row, orjson.loads(line)) for line in islice(unread, _AT_ONCE)]:
        spans += _spans(few)
    if len(lines) > max(map(len, longest_first), default=0):  # no answer has all, in order
        spans.sort(key=lambda span: (span.trace_id, span.span_id))
    return spans


def spans_at(table: str) -> str:
    """The question for spans of these traces with one of the ids `{span_ids:Array(String)}`."""
    return (
        f"SELECT {_COLUMNS} FROM {table} WHERE TraceId IN {{trace_ids:Array(String)}} "
        f"AND SpanId IN {{span_ids:Array(String)}} {_ONCE}"
    )


def spans_of_id(table: str) -> str:
    """The question for the spans with the id `{span_id:String}`, of any trace."""
    return f"SELECT {_COLUMNS} FROM {table} WHERE SpanId = {{span_id:String}} {_ONCE}"


def spans_linking(table: str) -> str:
    """The question for spans that began from `{since}` to `{until}` and link to an id."""
    return (
        f"SELECT {_COLUMNS} FROM {table} "
        "WHERE Timestamp >= fromUnixTimestamp64Nano({since:Int64}) "
        "AND Timestamp <= fromUnixTimestamp64Nano({until:Int64}) "
        f"AND has(Links.SpanId, {{span_id:String}}) {_ONCE}"
    )


def _spans(rows: Sequence[_Row]) -> list[Span]:
    """Spans of rows of the columns `_COLUMNS`, of which there are some."""
    (
        trace_ids, span_ids, parent_ids, names, kinds, services, instances, hosts, versions,
        scopes, signed_starts_ns, durations_ns, statuses, keys, values, types,
        event_times, event_names, event_maps, event_types,
        link_traces, link_spans, link_maps, link_types, removed, states,
    ) = zip(*rows, strict=True)  # fmt: skip
    starts_ns = [start_ns & _U64 for start_ns in signed_starts_ns]  # OTLP's 64 bits, signed here
    return from_columns(
        Span,
        len(rows),
        trace_id=trace_ids,
        span_id=span_ids,
        parent_id=[parent_id or None for parent_id in parent_ids],
        name=names,
        kind=[_KINDS.get(kind, SpanKind.UNSPECIFIED) for kind in kinds],
        service=services,
        instance=[instance or None for instance in instances],
        host=[host or None for host in hosts],
        version=[version or None for version in versions],
        scope=scopes,
        start_ns=starts_ns,
        # A difference beyond 63 bits has wrapped, and wraps back.
        end_ns=[
            (start_ns + duration_ns) & _U64
            for start_ns, duration_ns in zip(starts_ns, durations_ns, strict=True)
        ],
        status=[_STATUSES.get(status, StatusCode.UNSET) for status in statuses],
        attributes=map(attributes_from, keys, values, types),
        events=map(_events, event_times, event_names, event_maps, event_types),
        links=map(_links, link_traces, link_spans, link_maps, link_types),
        content_removed=removed,
        trace_state=states,
    )


def _events(times: list[int], names: _Texts, maps: _Maps, types: _Texts) -> tuple[Event, ...]:
    if not names:
        return ()
    return tuple(
        Event(time_ns=time & _U64, name=event, attributes=attributes_from(*map_, letters))
        for time, event, map_, letters in zip(times, names, maps, types, strict=True)
    )


def _links(traces: _Texts, spans: _Texts, maps: _Maps, types: _Texts) -> tuple[Link, ...]:
    if not spans:
        return ()
    return tuple(
        Link(trace_id=trace, span_id=span, attributes=attributes_from(*map_, letters))
        for trace, span, map_, letters in zip(traces, spans, maps, types, strict=True)
    )


_KINDS: Mapping[str, SpanKind] = {str(kind): kind for kind in SpanKind}
_STATUSES: Mapping[str, StatusCode] = {str(status): status for status in StatusCode}


def attributes_from(keys: _Texts, values: _Texts, types: str) -> Attributes:
    """Attributes with the types they were sent with.

    Args:
        keys: In the map's order.
        values: Texts, one per key.
        types: A letter per key; empty: all are strings.

    Returns:
        Arrays as tuples, maps as JSON text; in the place of content its mark.
    """
    if not types:
        return dict(zip(keys, values, strict=True))
    return {
        key: value
        if letter == "s" or value == semconv.CONTENT_REMOVED
        else _READERS[letter](value)
        for key, value, letter in zip(keys, values, types, strict=True)
    }


def _array(text: str) -> AttributeValue:
    if text.startswith("["):  # no base64 does
        return tuple(_item(item) for item in cast(list[object], json.loads(text)))
    return from_array(ArrayValue.FromString(b64decode(text)))


def _map(text: str) -> AttributeValue:
    if text.startswith("{"):
        items = cast(dict[str, object], json.loads(text))
        return json_of({key: _item(item) for key, item in items.items()})
    return from_map(KeyValueList.FromString(b64decode(text)))


def _item(item: object) -> AttributeValue:
    """A value within a JSON text; what JSON cannot say is an object of letter and base64."""
    if isinstance(item, dict):
        ((letter, packed),) = item.items()
        return _READERS[letter](packed)
    return cast(AttributeValue, item)


_READERS: Mapping[str, Callable[[str], AttributeValue]] = {
    "s": str,
    "i": int,
    "d": float,
    "b": "true".__eq__,
    "y": b64decode,
    "a": _array,
    "m": _map,
    "n": lambda _: None,
}
