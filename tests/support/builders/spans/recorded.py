"""The spans that other software sends, read from the fixtures of `tests/analysis`."""

import json
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import (
    Attributes,
    AttributeValue,
    Event,
    Link,
    Request,
    Span,
    SpanKind,
    StatusCode,
    semconv,
)
from latencytrace.service.otlp.json import message_from_json

FIXTURES = Path(__file__).parents[3] / "analysis" / "fixtures"


def recorded(name: str) -> list[Span]:
    """All spans of a fixture."""
    message = message_from_json((FIXTURES / f"{name}.json").read_bytes())
    return [span for resource in message.resource_spans for span in spans_of(resource)]


def reported(name: str) -> dict[str, float]:
    """What the software told beside its spans: in its metrics, mostly."""
    told = json.loads((FIXTURES / f"{name}.json").read_bytes())["reported"]
    return {str(key): float(value) for key, value in told.items()}


def recorded_requests(name: str) -> list[Request]:
    """The requests of all traces of a fixture, in order of start; the outer ones first."""
    traces: dict[str, list[Span]] = {}
    for span in recorded(name):
        traces.setdefault(span.trace_id, []).append(span)
    found = [request for spans in traces.values() for request in requests_of(spans, {})]
    return sorted(found, key=lambda request: (request.start_ns, -request.duration_ns))


def spans_of(resource: ResourceSpans) -> Iterable[Span]:
    """The spans of one resource."""
    told = _attributes(resource.resource.attributes)
    for scope in resource.scope_spans:
        for span in scope.spans:
            yield _span(span, told, scope.scope.name)


def _span(span: ProtoSpan, resource: Attributes, scope: str) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        name=span.name,
        kind=list(SpanKind)[span.kind],
        service=str(resource[semconv.SERVICE_NAME]),
        scope=scope,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=list(StatusCode)[span.status.code],
        attributes=_attributes(span.attributes),
        events=tuple(
            Event(
                time_ns=event.time_unix_nano,
                name=event.name,
                attributes=_attributes(event.attributes),
            )
            for event in span.events
        ),
        links=tuple(
            Link(trace_id=link.trace_id.hex(), span_id=link.span_id.hex()) for link in span.links
        ),
    )


def _attributes(pairs: Iterable[KeyValue]) -> Attributes:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> AttributeValue:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            return tuple(_value(item) for item in value.array_value.values)
        case _:
            return None
