"""Spans from the bytes that came: each lies in the file as OTLP of its own."""

from collections.abc import Iterable, Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from latencytrace.model import Attributes, Event, Link, Span, SpanKind, StatusCode, semconv
from latencytrace.service.otlp.block_builder import CLOCK_NAMES
from latencytrace.service.otlp.values import value_from

KINDS, STATUSES = dict(enumerate(SpanKind)), dict(enumerate(StatusCode))  # in OTLP's order
NO_PARENT = bytes(8)


def one_by_one(message: ExportTraceServiceRequest) -> Iterator[ResourceSpans]:
    """Part a request into spans, each with its resource and scope."""
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                alone = ScopeSpans(scope=scope.scope, spans=[span])
                yield ResourceSpans(resource=resource.resource, scope_spans=[alone])


def span_from(otlp: bytes) -> Span:
    """Read one of them."""
    message = ResourceSpans.FromString(otlp)
    (scoped,) = message.scope_spans
    (span,) = scoped.spans
    words = {key: str(value) for key, value in _attributes(message.resource.attributes).items()}
    attributes = _attributes(span.attributes)
    events = tuple(
        Event(time_ns=one.time_unix_nano, name=one.name, attributes=_attributes(one.attributes))
        for one in span.events
    )
    links = tuple(
        Link(
            trace_id=one.trace_id.hex(),
            span_id=one.span_id.hex(),
            attributes=_attributes(one.attributes),
        )
        for one in span.links
    )
    every = [
        attributes,
        *(event.attributes for event in events),
        *(one.attributes for one in links),
    ]
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=None if span.parent_span_id == NO_PARENT else span.parent_span_id.hex() or None,
        name=span.name,
        kind=KINDS.get(span.kind, SpanKind.UNSPECIFIED),
        service=words.get(semconv.SERVICE_NAME) or "unknown_service",
        instance=words.get(semconv.SERVICE_INSTANCE_ID) or None,
        host=next(filter(None, map(words.get, CLOCK_NAMES)), None),
        version=words.get(semconv.SERVICE_VERSION) or None,
        scope=scoped.scope.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=STATUSES.get(span.status.code, StatusCode.UNSET),
        attributes=attributes,
        events=events,
        links=links,
        content_removed=sum(
            value == semconv.CONTENT_REMOVED for one in every for value in one.values()
        ),
    )


def _attributes(pairs: Iterable[KeyValue]) -> Attributes:
    return {pair.key: value_from(pair.value) for pair in pairs}
