"""From a table that the OpenTelemetry Collector's ClickHouse exporter wrote to OTLP messages.

The exporter writes every attribute as text. What is a number or a truth value there becomes one
again, where its text says nothing else: token counts are numbers to the ledger.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.cli.importing.chunks import Place, Record
from latencytrace.errors import SettingsError
from latencytrace.model import semconv
from latencytrace.plugins import STORES, load_plugin
from latencytrace.settings import service_settings

SCHEME: Final = "clickhouse://"
TABLE: Final = "otel_traces"  # as the exporter names it
MOST_ROWS: Final = 20_000  # of a question
MOST_BYTES: Final = 4 * 1024 * 1024  # of a record, as the lines of its rows
_MINUTE_NS: Final = 60 * 10**9
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_INT: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_TIMES: Final = "toUnixTimestamp64Nano(Timestamp)"
_MAPS: Final = "arrayMap(map -> (mapKeys(map), mapValues(map)), {})"
_COLUMNS: Final = ", ".join(
    (
        *("TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind"),
        *("ServiceName", "mapKeys(ResourceAttributes)", "mapValues(ResourceAttributes)"),
        *("ScopeName", "ScopeVersion", _TIMES, "toInt64(Duration)", "StatusCode"),
        *("StatusMessage", "mapKeys(SpanAttributes)", "mapValues(SpanAttributes)"),
        *("arrayMap(one -> toUnixTimestamp64Nano(one), Events.Timestamp)", "Events.Name"),
        _MAPS.format("Events.Attributes"),
        *("Links.TraceId", "Links.SpanId", "Links.TraceState", _MAPS.format("Links.Attributes")),
    )
)
_LINES: Final = "JSONCompactEachRow"


class Reader(Protocol):
    """A connection to a server, for a user with the right to read alone."""

    def query(self, sql: str, answer_format: str) -> bytes: ...


def table_records(
    address: str, since_ns: int, until_ns: int, on_rows: Callable[[int], None]
) -> Iterator[Record]:
    """Read the spans of a table that start in a stretch of time, in its order.

    Args:
        address: `clickhouse://USER@HOST:8123/DATABASE/TABLE`.
        since_ns: Since the Unix epoch.
        until_ns: Exclusive.
        on_rows: Called with how many rows were read.

    Raises:
        SettingsError: The address is not that of a table.
        StoreError: The server does not answer, or has no such table.
    """
    url, table = _parted(address)
    reading: Callable[[str], AbstractContextManager[Reader]]
    reading = load_plugin(STORES, "clickhouse").reading  # type: ignore[attr-defined] # it has it
    row = 0
    with reading(url) as reader:
        for condition in _windows(reader, table, since_ns, until_ns):
            lines = reader.query(
                f"SELECT {_COLUMNS} FROM {table} WHERE {condition}",  # noqa: S608 - a checked name
                _LINES,
            ).splitlines()
            for run in _runs(lines):
                # The exporter stores any bytes as a text.
                texts = (line.decode(errors="replace") for line in run)
                yield Record(
                    place=Place(line=row + 1), message=message_of(map(orjson.loads, texts))
                )
                row += len(run)
            on_rows(len(lines))


def _runs(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Lines that follow each other, as many as a record may have."""
    first = size = 0
    for place, line in enumerate(lines):
        if size and size + len(line) > MOST_BYTES:
            yield lines[first:place]
            first, size = place, 0
        size += len(line)
    if size:
        yield lines[first:]


def _parted(address: str) -> tuple[str, str]:
    """The address of the database, with its password, and the name of the table."""
    parts = urlsplit(address)
    database, _, table = parts.path.strip("/").rpartition("/")
    if not database:
        database, table = table, TABLE
    for name in (database, table):
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{name!r} is no name of a table: write {SCHEME}HOST:8123/DATABASE/{TABLE}"
            )
    url = service_settings(store=urlunsplit(parts._replace(path=f"/{database}"))).store
    return url, f"{database}.{table}"


def _windows(reader: Reader, table: str, since_ns: int, until_ns: int) -> Iterator[str]:
    """Conditions that part the rows: minutes that follow each other; of a full one shares."""
    within = f"{_at(since_ns)} <= Timestamp AND Timestamp < {_at(until_ns)}"
    lines = reader.query(
        f"SELECT intDiv({_TIMES}, {_MINUTE_NS}) AS Minute, count() FROM {table} "  # noqa: S608 - likewise
        f"WHERE {within} GROUP BY Minute ORDER BY Minute",
        "TSV",
    )
    counts = [tuple(map(int, line.split(b"\t"))) for line in lines.splitlines()]
    first, rows = 0, 0
    for place, (minute, count) in enumerate(counts):
        rows += count
        is_last = place + 1 == len(counts)
        if not is_last and rows + counts[place + 1][1] <= MOST_ROWS:
            continue
        begin_ns = max(counts[first][0] * _MINUTE_NS, since_ns)
        end_ns = min((minute + 1) * _MINUTE_NS, until_ns)
        shares = -(-rows // MOST_ROWS)
        for share in range(shares):
            yield (
                f"{_at(begin_ns)} <= Timestamp AND Timestamp < {_at(end_ns)} "
                f"AND cityHash64(TraceId) % {shares} = {share}"
            )
        first, rows = place + 1, 0


def _at(moment_ns: int) -> str:
    return f"fromUnixTimestamp64Nano({moment_ns})"


Row = Sequence[Any]


def message_of(rows: Iterator[Row]) -> ExportTraceServiceRequest:
    """Rows of the table as OTLP, a resource and a scope for all spans that share them."""
    message = ExportTraceServiceRequest()
    scopes: dict[tuple[object, ...], ScopeSpans] = {}
    for row in rows:
        service, keys, values, scope, version = row[6:11]
        known = (service, tuple(keys), tuple(values), scope, version)
        if known not in scopes:
            resource = message.resource_spans.add()
            # A resource's values stay texts: a version is no number.
            named = dict(zip(keys, values, strict=True))
            named.setdefault(semconv.SERVICE_NAME, service)
            resource.resource.attributes.extend(
                KeyValue(key=key, value=AnyValue(string_value=value))
                for key, value in named.items()
            )
            scopes[known] = resource.scope_spans.add()
            scopes[known].scope.name, scopes[known].scope.version = scope, version
        _fill(scopes[known].spans.add(), row)
    return message


def _fill(span: ProtoSpan, row: Row) -> None:
    trace_id, span_id, parent_id, state, name, kind = row[:6]
    start_ns, duration_ns, status, text, keys, values = row[11:17]
    times, names, maps, link_traces, link_spans, link_states, link_maps = row[17:]
    span.trace_id, span.span_id, span.parent_span_id = map(_id, (trace_id, span_id, parent_id))
    span.trace_state, span.name = state, name
    span.kind = _KINDS.get(_last(kind), ProtoSpan.SPAN_KIND_UNSPECIFIED)
    span.start_time_unix_nano = max(int(start_ns), 0)
    span.end_time_unix_nano = max(int(start_ns) + int(duration_ns), 0)
    span.status.code = _STATUSES.get(_last(status), Status.STATUS_CODE_UNSET)
    span.status.message = text
    span.attributes.extend(_attributes(keys, values))
    for time_ns, event, pairs in zip(times, names, maps, strict=True):
        span.events.add(
            time_unix_nano=max(int(time_ns), 0), name=event, attributes=_attributes(*pairs)
        )
    for trace, other, link_state, pairs in zip(
        link_traces, link_spans, link_states, link_maps, strict=True
    ):
        span.links.add(
            trace_id=_id(trace), span_id=_id(other), trace_state=link_state,
            attributes=_attributes(*pairs),
        )  # fmt: skip


def _attributes(keys: Sequence[str], values: Sequence[str]) -> Iterator[KeyValue]:
    for key, text in zip(keys, values, strict=True):
        yield KeyValue(key=key, value=_value(text))


def _value(text: str) -> AnyValue:
    """A value as it was before it became this text, if no other one becomes it."""
    if text in {"true", "false"}:
        return AnyValue(bool_value=text == "true")
    if _INT.fullmatch(text):
        return AnyValue(int_value=int(text))
    if "." in text and text[-1:].isdecimal():
        try:
            number = float(text)
        except ValueError:
            return AnyValue(string_value=text)
        if repr(number) == text:
            return AnyValue(double_value=number)
    return AnyValue(string_value=text)


def _id(digits: str) -> bytes:
    """An id of hex digits; empty: it is none, and its span is rejected."""
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return b""


def _last(name: str) -> str:
    """The last word of `SPAN_KIND_SERVER` or `Server`, as older and newer exporters write."""
    return name.rpartition("_")[2].lower()


_KINDS: Final[Mapping[str, ProtoSpan.SpanKind.ValueType]] = {
    "internal": ProtoSpan.SPAN_KIND_INTERNAL,
    "server": ProtoSpan.SPAN_KIND_SERVER,
    "client": ProtoSpan.SPAN_KIND_CLIENT,
    "producer": ProtoSpan.SPAN_KIND_PRODUCER,
    "consumer": ProtoSpan.SPAN_KIND_CONSUMER,
}
_STATUSES: Final = {"ok": Status.STATUS_CODE_OK, "error": Status.STATUS_CODE_ERROR}
