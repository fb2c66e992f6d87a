"""OTLP trace requests made of our own spans: what a sender would encode."""

import time
from collections.abc import Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.model import (
    Attributes,
    AttributeValue,
    Span,
    SpanKind,
    Stage,
    StatusCode,
    semconv,
)
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.otlp.traces import check

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
START_NS = 1_763_690_000_000_000_000
MS = 1_000_000


def one_span(
    trace_id: str = TRACE,
    span_id: str = SPAN,
    *,
    parent_id: str | None = None,
    name: str = "POST /chat",
    kind: SpanKind = SpanKind.SERVER,
    start_ns: int = START_NS,
    end_ns: int = START_NS + 1000,
    attributes: Attributes | None = None,
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        kind=kind,
        service="rag",
        instance="rag-1",
        version="1.0",
        scope="test",
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=attributes or {},
    )


def root_lately(trace_id: str, length_ms: int = 100, attributes: Attributes | None = None) -> Span:
    """A request that began a second ago."""
    start_ns = time.time_ns() - 1000 * MS
    return one_span(
        trace_id,
        "a" * 16,
        start_ns=start_ns,
        end_ns=start_ns + length_ms * MS,
        attributes=attributes,
    )


def child(of: Span, span_id: str, stage: Stage, start_ms: int, end_ms: int) -> Span:
    """A span of a stage within another, in ms since that began."""
    return one_span(
        of.trace_id,
        span_id,
        parent_id=of.span_id,
        name=f"a span of {stage}",
        kind=SpanKind.INTERNAL,
        start_ns=of.start_ns + start_ms * MS,
        end_ns=of.start_ns + end_ms * MS,
        attributes={semconv.STAGE: stage.value},
    )


def decoding(of: Span, span_id: str, start_ms: int, end_ms: int) -> Span:
    """A span of decoding within another, in ms since that began."""
    return child(of, span_id, Stage.DECODE, start_ms, end_ms)


def otlp(*spans: Span) -> bytes:
    """A request with these spans, each in a resource of its own."""
    return message(spans).SerializeToString()


def columns(request: bytes) -> SpanBlock:
    """The columns of a request, with its content."""
    return check(request, None, None, capture_content=True).columns


def message(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    """The same, still to be changed."""
    return ExportTraceServiceRequest(resource_spans=map(_resource_spans, spans))


def _resource_spans(span: Span) -> ResourceSpans:
    resource = {
        semconv.SERVICE_NAME: span.service,
        semconv.SERVICE_INSTANCE_ID: span.instance,
        semconv.SERVICE_VERSION: span.version,
        semconv.HOST_NAME: span.host,
    }
    spans = ResourceSpans()
    spans.resource.attributes.extend(
        key_values({key: value for key, value in resource.items() if value is not None})
    )
    scope = spans.scope_spans.add()
    scope.scope.name = span.scope
    scope.spans.append(proto_span(span))
    return spans


def proto_span(span: Span) -> ProtoSpan:
    proto = ProtoSpan(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        name=span.name,
        kind=ProtoSpan.SpanKind.ValueType(list(SpanKind).index(span.kind)),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=key_values(span.attributes),
    )
    proto.status.code = Status.StatusCode.ValueType(list(StatusCode).index(span.status))
    for event in span.events:
        proto.events.add(
            time_unix_nano=event.time_ns, name=event.name, attributes=key_values(event.attributes)
        )
    for link in span.links:
        proto.links.add(
            trace_id=bytes.fromhex(link.trace_id),
            span_id=bytes.fromhex(link.span_id),
            attributes=key_values(link.attributes),
        )
    return proto


def key_values(attributes: Attributes) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def any_value(value: AttributeValue) -> AnyValue:
    encoded = AnyValue()
    match value:
        case None:
            pass
        case bool():
            encoded.bool_value = value
        case int():
            encoded.int_value = value
        case float():
            encoded.double_value = value
        case str():
            encoded.string_value = value
        case bytes():
            encoded.bytes_value = value
        case tuple():
            encoded.array_value.values.extend(map(any_value, value))
            encoded.array_value.SetInParent()
    return encoded
