"""OTLP's JSON: protobuf's, but that ids are hex digits."""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any, Final

import orjson
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.mending.json import mend_tree
from latencytrace.service.otlp.mending.protobuf import has_spans

MOST_OPENED: Final = 2_000_000  # brackets: the parser keeps the interpreter until it is done
MOST_ITEMS: Final = 500_000  # of all lists together: each takes 2.5 µs to read

_ID_KEYS = frozenset(
    {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}
)


def message_from_json(body: bytes, mending: Mending | None = None) -> ExportTraceServiceRequest:
    """Read a trace request in OTLP/JSON; fields it does not define are passed over.

    Ids in base64, as in protobuf's own JSON, are known by its padding. One that is neither that
    nor hex becomes empty, so that the span is rejected and not the request.

    Args:
        mending: The account of what is mended; None: nothing is.

    Raises:
        OtlpError: The body is no JSON, not of the form, or holds millions of values.
    """
    if body.count(b"{") + body.count(b"[") > MOST_OPENED:
        raise OtlpError(f"the body opens more than {MOST_OPENED} brackets: send smaller batches")
    tree = _tree(body, mends=mending is not None)
    if not isinstance(tree, dict):
        raise OtlpError("the body is not an OTLP trace request: it is no JSON object")
    may_have_more = body.count(b",") + body.count(b"[") > MOST_ITEMS
    if may_have_more and _has_more_items(tree, MOST_ITEMS):
        raise OtlpError(f"the lists hold more than {MOST_ITEMS} items: send smaller batches")
    return message_from_tree(tree, mending)


def _tree(body: bytes, *, mends: bool) -> object:
    """JSON; what is no UTF-8, and half a character, is half a character in its texts.

    Raises:
        OtlpError: The body is not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        refused = OtlpError(f"the body is not JSON: {error}")
    if not mends:
        raise refused
    try:
        return json.loads(body.decode("utf-8-sig", "surrogateescape"), strict=False)
    except (ValueError, RecursionError):
        raise refused from None


def message_from_tree(
    tree: dict[str, object], mending: Mending | None = None
) -> ExportTraceServiceRequest:
    """The same from JSON that is read already; it is rewritten in place.

    Raises:
        OtlpError: The document does not have the form of OTLP.
    """
    for resource in _resources(tree):
        _renew(resource)
    spans = _spans(tree)
    for span in spans:
        _ids_to_base64(span)
        for link in _dicts(span.get("links")):
            _ids_to_base64(link)
    try:
        return _parsed_apart(tree, spans)
    except OtlpError as error:
        if mending is None:
            raise
        refused = error
    mend_tree(tree, ExportTraceServiceRequest, mending)
    message = _parsed(tree)
    if not has_spans(message):
        raise refused
    return message


def _parsed_apart(
    tree: dict[str, object], spans: Sequence[dict[str, object]]
) -> ExportTraceServiceRequest:
    """The message; attributes of spans that are plain are read without the parser.

    Raises:
        OtlpError: The parser refuses a value; the tree is as it was.
    """
    apart = [_plain_pairs(span) for span in spans]
    sent = [
        span.pop("attributes") if pairs else None for span, pairs in zip(spans, apart, strict=True)
    ]
    try:
        message = _parsed(tree)
    finally:
        for span, attributes in zip(spans, sent, strict=True):
            if attributes is not None:
                span["attributes"] = attributes
    found = list(_spans_of(message))
    if len(found) != len(spans):  # the parser takes lists under another name, too
        return _parsed(tree)
    for one, pairs in zip(found, apart, strict=True):
        one.attributes.extend(pairs)
    return message


def _spans_of(message: ExportTraceServiceRequest) -> Iterator[ProtoSpan]:
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def _plain_pairs(span: dict[str, object]) -> list[KeyValue]:
    """The attributes of a span, if each is a text, a number or a truth as OTLP writes it; or none.

    They are most of what there is to read, and the parser takes five times as long for them.
    """
    attributes = span.get("attributes")
    if not isinstance(attributes, list):
        return []
    try:
        return list(map(_plain_pair, attributes))
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ):  # the parser knows better what is wrong
        return []


def _plain_pair(attribute: dict[str, object]) -> KeyValue:
    key, value = attribute["key"], attribute["value"]
    if len(attribute) != _PARTS_OF_PAIR or type(value) is not dict:
        raise ValueError
    ((form, said),) = value.items()
    return KeyValue(key=key, value=_PLAIN_VALUES[form, type(said)](said))  # type: ignore[arg-type] # else TypeError


def _whole(number: str) -> AnyValue:
    if not _WHOLE.fullmatch(number):
        raise ValueError
    return AnyValue(int_value=int(number))


def _fraction(number: float) -> AnyValue:
    if not isfinite(number):
        raise ValueError
    return AnyValue(double_value=number)


_PARTS_OF_PAIR: Final = 2
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PLAIN_VALUES: Final[dict[tuple[object, type], Callable[[Any], AnyValue]]] = {
    ("stringValue", str): lambda text: AnyValue(string_value=text),
    ("boolValue", bool): lambda truth: AnyValue(bool_value=truth),
    ("intValue", int): lambda number: AnyValue(int_value=number),
    ("intValue", str): _whole,
    ("doubleValue", float): _fraction,
    ("doubleValue", int): _fraction,
}


def _parsed(tree: dict[str, object]) -> ExportTraceServiceRequest:
    """The message.

    Raises:
        OtlpError: The parser refuses a value.
    """
    try:
        return json_format.ParseDict(tree, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, OverflowError, RecursionError) as error:
        raise OtlpError(f"the body is not an OTLP trace request in JSON: {error}") from None


def _has_more_items(tree: object, left: int) -> bool:
    open_values = [tree]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            open_values.extend(value.values())
        elif isinstance(value, list):
            left -= len(value)
            if left < 0:
                return True
            open_values.extend(value)
    return False


def _resources(tree: dict[str, object]) -> list[dict[str, object]]:
    return _dicts(tree.get("resourceSpans", tree.get("resource_spans")))


def _renew(resource: dict[str, object]) -> None:
    """Give the spans of a resource the names of today, if OTLP before 0.19 named them."""
    old = resource.pop("instrumentationLibrarySpans", None)
    if old is None or "scopeSpans" in resource:
        return
    resource["scopeSpans"] = old
    for scope in _dicts(old):
        if "instrumentationLibrary" in scope:
            scope["scope"] = scope.pop("instrumentationLibrary")


def _spans(tree: dict[str, object]) -> list[dict[str, object]]:
    return [
        span
        for resource in _resources(tree)
        for scope in _dicts(resource.get("scopeSpans", resource.get("scope_spans")))
        for span in _dicts(scope.get("spans"))
    ]


def _dicts(values: object) -> list[dict[str, object]]:
    """The objects of a list; what is none is left for the parser to name."""
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


def _ids_to_base64(message: dict[str, object]) -> None:
    for key in _ID_KEYS & message.keys():
        message[key] = b64encode(_identifier(message[key])).decode()


def _identifier(text: object) -> bytes:
    if not isinstance(text, str):
        return b""
    try:
        return b64decode(text, validate=True) if text.endswith("=") else bytes.fromhex(text)
    except ValueError:
        return b""
