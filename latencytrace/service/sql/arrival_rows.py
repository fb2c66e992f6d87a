"""Rows of `span_arrivals` made in Python, for blocks too small for the view of `otlp_view`.

The engine plans that view anew for each block: 35 ms of CPU. A row made here costs 15 to 20 µs
of it, one of the view's 5 (`tests/benchmarks/bench_ingest.py`). The rows are the same to the
byte (`tests/service/sql/test_arrival_rows.py`); what is rare is left to the view.
"""

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.model import SpanKind, StatusCode, semconv
from latencytrace.service.sql.otlp_view import NAMELESS
from latencytrace.service.sql.tables import (
    ARRIVALS,
    CLOCK_NAMES,
    SPAN_COLUMNS,
    Target,
    column_type,
)

_COLUMNS = (
    "Timestamp", "TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind",
    "Duration", "StatusCode", "StatusMessage", "SpanAttributes", "SpanAttributeTypes",
    "ContentRemoved", "Events.Timestamp", "Events.Name", "Events.Attributes",
    "Events.AttributeTypes", "Links.TraceId", "Links.SpanId", "Links.TraceState",
    "Links.Attributes", "Links.AttributeTypes",
    # Those of its resource and scope
    "ServiceName", "ServiceInstance", "ServiceVersion", "Host", "ResourceAttributes",
    "ScopeName", "ScopeVersion",
)  # fmt: skip
assert set(_COLUMNS) == SPAN_COLUMNS.keys()  # noqa: S101 - a column left out would be empty

TARGET: Final = Target(
    table=ARRIVALS,
    columns={name: column_type(SPAN_COLUMNS[name]) for name in _COLUMNS},
    block_format="RowBinary",
)
MOST_BYTES: Final = 256 * 1024  # of a block; of larger ones the view costs less

_U64 = (1 << 64) - 1
_LETTERS: Final = {
    None: "n", "string_value": "s", "bool_value": "b", "int_value": "i", "double_value": "d",
    "array_value": "a", "kvlist_value": "m", "bytes_value": "y",
}  # fmt: skip
_PLAIN = re.compile(r"[ !#-.0-\[\]-~]*")  # what JSON writes as it is
_NO_PARENT = bytes(8)
_LONGEST_WORD = 128  # of those remembered
_LONG = struct.Struct("<Q")
_COUNT = struct.Struct("<I")
_KINDS = [str(kind) for kind in SpanKind]
_STATUSES = [str(status) for status in StatusCode]

_TextOf = Callable[[AnyValue, str], str]
_Pairs = Iterable[KeyValue]


class _RareError(ValueError):
    """Something for the view."""


def rows_of(block: bytes) -> tuple[bytes, int] | None:
    """The rows of a block (see `Store.insert_otlp`), and how many there are.

    Args:
        block: Of at most `MOST_BYTES`, for the sake of speed.

    Returns:
        None: the view has to make them, or to say what is wrong.
    """
    rows: list[bytes] = []
    try:
        for spans in ExportTraceServiceRequest.FromString(block).resource_spans:
            resource = _resource_row(spans.resource)
            for scoped in spans.scope_spans:
                scope = _packed(scoped.scope.name) + _packed(scoped.scope.version)
                for span in scoped.spans:
                    rows += (_row(span), resource, scope)
    except (DecodeError, _RareError):
        return None
    return b"".join(rows), len(rows) // 3


def _resource_row(resource: Resource) -> bytes:
    """The columns that a resource's spans have in common."""
    attributes, _, _ = _attributes(resource.attributes, _scalar)
    words: dict[str, str] = {}
    for pair in resource.attributes:
        words.setdefault(pair.key, _text(pair, _scalar)[0])
    host = next(filter(None, map(words.get, CLOCK_NAMES)), "")
    columns = (
        words.get(semconv.SERVICE_NAME) or NAMELESS,
        words.get(semconv.SERVICE_INSTANCE_ID, ""),
        words.get(semconv.SERVICE_VERSION, ""),
        host,
    )
    return b"".join((*map(_packed, columns), attributes))


def _row(span: ProtoSpan) -> bytes:
    """The columns of a span alone."""
    start_ns = span.start_time_unix_nano
    parent_id = span.parent_span_id
    attributes, types, removed = _attributes(span.attributes, _scalar_or_list)
    columns = [
        _LONG.pack(start_ns),
        _packed(span.trace_id.hex()),
        _packed(span.span_id.hex()),
        _packed("" if parent_id == _NO_PARENT else parent_id.hex()),
        _packed(span.trace_state),
        _packed(span.name),
        _word(_KINDS, span.kind),
        _LONG.pack((span.end_time_unix_nano - start_ns) & _U64),
        _word(_STATUSES, span.status.code),
        _packed(span.status.message),
        attributes,
        types,
    ]
    if not span.events and not span.links:
        columns += (_COUNT.pack(removed), _NO_LISTS)
        return b"".join(columns)
    of_events = [_attributes(event.attributes, _scalar) for event in span.events]
    of_links = [_attributes(link.attributes, _scalar) for link in span.links]
    removed += sum(one[2] for one in (*of_events, *of_links))
    columns += (
        _COUNT.pack(removed),
        _array([_LONG.pack(event.time_unix_nano) for event in span.events]),
        _array([_packed(event.name) for event in span.events]),
        _array([one[0] for one in of_events]),
        _array([one[1] for one in of_events]),
        _array([_packed(link.trace_id.hex()) for link in span.links]),
        _array([_packed(link.span_id.hex()) for link in span.links]),
        _array([_packed(link.trace_state) for link in span.links]),
        _array([one[0] for one in of_links]),
        _array([one[1] for one in of_links]),
    )
    return b"".join(columns)


def _attributes(pairs: _Pairs, text_of: _TextOf) -> tuple[bytes, bytes, int]:
    """Keys and texts, the letters of types, in how many places something was removed."""
    parts = [b""]
    letters = ""
    removed = 0
    for pair in pairs:
        text, letter = _text(pair, text_of)
        key = pair.key
        parts += (_packed_word(key) if len(key) <= _LONGEST_WORD else _packed(key), _packed(text))
        letters += letter
        removed += text == semconv.CONTENT_REMOVED
    parts[0] = _size(len(letters))
    return b"".join(parts), _packed(letters if letters.strip("s") else ""), removed


def _text(pair: KeyValue, text_of: _TextOf) -> tuple[str, str]:
    """A value as text, and the letter of its type."""
    value = pair.value
    letter = _LETTERS.get(value.WhichOneof("value"))
    if letter is None:
        raise _RareError
    return value.string_value if letter == "s" else text_of(value, letter), letter


def _scalar(value: AnyValue, letter: str) -> str:
    match letter:
        case "i":
            return str(value.int_value)
        case "d":
            return _double(value.double_value)
        case "b":
            return "true" if value.bool_value else "false"
        case "y":
            return b64encode(value.bytes_value).decode()
        case "n":
            return ""
        case _:
            raise _RareError


def _scalar_or_list(value: AnyValue, letter: str) -> str:
    """A list of plain strings too, which is JSON."""
    if letter != "a":
        return _scalar(value, letter)
    items = value.array_value.values
    for item in items:
        if item.WhichOneof("value") != "string_value" or not _PLAIN.fullmatch(item.string_value):
            raise _RareError
    return "[" + ",".join(f'"{item.string_value}"' for item in items) + "]"


def _double(value: float) -> str:
    """As the engine writes it, and JavaScript: no exponent from 1e-6 up to 1e21."""
    text = repr(value).removesuffix(".0")
    if "e" not in text:
        return text
    if 1e-6 <= abs(value) < 1e21:  # noqa: PLR2004 - see above
        return f"{Decimal(text):f}"
    digits, exponent = text.split("e")
    return f"{digits}e{int(exponent)}"


def _word(words: Sequence[str], number: int) -> bytes:
    """The name of an enum's number, the first for a number without name."""
    return _packed_word(words[number if 0 <= number < len(words) else 0])


def _array(items: Sequence[bytes]) -> bytes:
    return _size(len(items)) + b"".join(items)


def _packed(text: str) -> bytes:
    data = text.encode()
    return _size(len(data)) + data


_packed_word = lru_cache(maxsize=4096)(_packed)  # for what is short and few


def _size(number: int) -> bytes:
    """A length, seven bits a byte, the lowest first."""
    if number < len(_SIZES):
        return _SIZES[number]
    return bytes((number & 127 | 128,)) + _size(number >> 7)


_SIZES = [bytes((number,)) for number in range(128)]
_NO_LISTS = bytes(9)  # events and links
