"""Decoded trace requests: within bounds, and without content."""

from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.mending.protobuf import OLD_TAG, mended
from latencytrace.service.otlp.redaction import redact
from latencytrace.service.otlp.wire_parts import has_more_parts

MOST_PARTS: Final = 2_000_000  # of one request: resources, scopes, spans and what these have
MOST_MESSAGES: Final = 4_000_000  # of one request, encoded: an attribute and its value are two

TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8
_NO_TRACE_ID = bytes(TRACE_ID_BYTES)
NO_SPAN_ID: Final = bytes(SPAN_ID_BYTES)

_TOO_MANY_PARTS = (
    f"the request has more than {MOST_PARTS} resources, scopes, spans and attributes: "
    "send smaller batches"
)


def message_of(plain: bytes, mending: Mending | None = None) -> ExportTraceServiceRequest:
    """Decode a request in protobuf.

    Args:
        plain: The request, decompressed.
        mending: The account of what is mended; None: nothing is.

    Raises:
        OtlpError: It is none, or has too many parts.
    """
    if has_more_parts(plain, ExportTraceServiceRequest, MOST_MESSAGES):
        raise OtlpError(_TOO_MANY_PARTS)
    has_old_spans = mending is not None and OLD_TAG in plain
    try:
        message = ExportTraceServiceRequest.FromString(plain)
        if not has_old_spans:
            return message
        refused = OtlpError("the body is not an OTLP trace request in protobuf")
    except DecodeError as error:
        refused = OtlpError(f"the body is not an OTLP trace request in protobuf: {error}")
    if mending is None:
        raise refused
    return mended(plain, refused, mending)


def purify(message: ExportTraceServiceRequest, *, capture_content: bool) -> None:
    """Take the content out of a request, unless it is to be kept.

    Raises:
        OtlpError: It has more parts than any batch of spans.
    """
    _refuse_too_many(message)
    if not capture_content:
        redact(message)


def has_ids(span: ProtoSpan) -> bool:
    """Return whether a span's ids are ids."""
    trace_id, span_id = span.trace_id, span.span_id
    return (
        len(trace_id) == TRACE_ID_BYTES
        and len(span_id) == SPAN_ID_BYTES
        and trace_id != _NO_TRACE_ID
        and span_id != NO_SPAN_ID
    )


def _refuse_too_many(message: ExportTraceServiceRequest) -> None:
    """Refuse what would take long to look at: millions of parts with next to nothing in them.

    Raises:
        OtlpError: The message has too many parts.
    """
    left = MOST_PARTS - len(message.resource_spans)
    for resource in message.resource_spans:
        left -= len(resource.scope_spans) + len(resource.resource.attributes)
        if left < 0:
            break
        for scope in resource.scope_spans:
            left -= len(scope.spans)
            if left < 0:
                break
            # Of each span a few lengths are looked at, 0.3 µs.
            for span in scope.spans:
                left -= len(span.attributes) + len(span.events) + len(span.links)
    if left < 0:
        raise OtlpError(_TOO_MANY_PARTS)
