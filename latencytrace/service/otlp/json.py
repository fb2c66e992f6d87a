"""OTLP's JSON: protobuf's, but that ids are hex digits."""

import json
import math
from base64 import b64decode, b64encode
from typing import Final

import orjson
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.compiled.core import core
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.mending.json import REFUSALS, mend_tree
from latencytrace.service.otlp.mending.protobuf import has_spans

MOST_OPENED: Final = 2_000_000  # brackets: the parser keeps the interpreter until it is done
MOST_ITEMS: Final = 500_000  # of all lists together: each takes 2.5 µs to read

_MOST_DIGITS: Final = 20  # with the sign
_ID_KEYS = frozenset(
    {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}
)


def protobuf_from_json(body: bytes, mending: Mending | None = None) -> bytes:
    """A trace request in OTLP/JSON as protobuf; an odd one by way of `message_from_json`.

    Raises:
        OtlpError: The body is no JSON, not of the form, or holds millions of values.
    """
    found = compiled_from_json(body)
    return message_from_json(body, mending).SerializeToString() if found is None else found


def compiled_from_json(body: bytes) -> bytes | None:
    """The same by compiled code; None: there is none, or something is odd in the request."""
    found: bytes | None = None if core is None else core.from_json(body, MOST_ITEMS)
    return found


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
    tree = tree_of(body, mends=mending is not None)
    if not isinstance(tree, dict):
        raise OtlpError("the body is not an OTLP trace request: it is no JSON object")
    may_have_more = body.count(b",") + body.count(b"[") > MOST_ITEMS
    if may_have_more and _has_more_items(tree, MOST_ITEMS):
        raise OtlpError(f"the lists hold more than {MOST_ITEMS} items: send smaller batches")
    return message_from_tree(tree, mending)


def tree_of(body: bytes, *, mends: bool) -> object:
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
        text = body.decode("utf-8-sig", "surrogateescape")
        return json.loads(text, strict=False, parse_int=_whole_number)
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
    for span in _spans(tree):
        _ids_to_base64(span)
        for link in _dicts(span.get("links")):
            _ids_to_base64(link)
    try:
        return _parsed(tree)
    except OtlpError as error:
        if mending is None:
            raise
        refused = error
    mend_tree(tree, ExportTraceServiceRequest, mending)
    message = _parsed(tree)
    if not has_spans(message):
        raise refused
    return message


def _parsed(tree: dict[str, object]) -> ExportTraceServiceRequest:
    """The message.

    Raises:
        OtlpError: The parser refuses a value.
    """
    try:
        return json_format.ParseDict(tree, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except REFUSALS as error:
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


def _whole_number(digits: str) -> float:
    """A whole number; of too many digits for 64 bits infinity, which no field holds."""
    return int(digits) if len(digits) <= _MOST_DIGITS else math.inf


def _renew(resource: dict[str, object]) -> None:
    """Give the spans of a resource the names of today, if OTLP before 0.19 named them."""
    for name in ("instrumentationLibrarySpans", "instrumentation_library_spans"):
        old = _dicts(resource.pop(name, None))
        if not old:
            continue
        for scope in old:
            for library in ("instrumentationLibrary", "instrumentation_library"):
                if library in scope:
                    scope["scope"] = scope.pop(library)
        today = "scope_spans" if "scope_spans" in resource else "scopeSpans"
        resource[today] = [*_dicts(resource.get(today)), *old]


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
