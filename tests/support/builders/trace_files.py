"""Spans as the files that others write: OTLP's JSON, the Collector's, Jaeger's."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence

from google.protobuf import json_format

from latencytrace.model import Attributes, AttributeValue, Span, SpanKind, StatusCode
from tests.support.builders.spans.otlp_messages import message, otlp

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def otlp_json(*spans: Span) -> str:
    """One trace request, as OTLP/HTTP sends it in JSON."""
    return json.dumps(otlp_tree(*spans))


def otlp_tree(*spans: Span) -> dict[str, object]:
    """The same, still to be changed."""
    sent = message(spans)
    tree: dict[str, object] = json_format.MessageToDict(sent)
    for resource in tree["resourceSpans"]:  # type: ignore[attr-defined] # a list
        for span in resource["scopeSpans"][0]["spans"]:
            _ids_to_hex(span)
            for link in span.get("links", ()):
                _ids_to_hex(link)
    return tree


def _ids_to_hex(tree: dict[str, str]) -> None:
    """OTLP writes ids in hex, unlike protobuf's JSON."""
    for key in _IDS & tree.keys():
        tree[key] = b64decode(tree[key]).hex()


def otlp_json_lines(*spans: Span) -> str:
    """As the Collector's file exporter writes it: a request a line."""
    return "".join(otlp_json(span) + "\n" for span in spans)


def prefixed_protobuf(*spans: Span) -> bytes:
    """As the Collector's file exporter writes protobuf: each request behind its length."""
    bodies = [otlp(span) for span in spans]
    return b"".join(len(body).to_bytes(4) + body for body in bodies)


def jaeger_json(*traces: Sequence[Span]) -> str:
    """As Jaeger's query API answers; times are whole microseconds."""
    return json.dumps({"data": list(map(_jaeger_trace, traces)), "total": 0, "errors": None})


def _jaeger_trace(spans: Sequence[Span]) -> dict[str, object]:
    processes: dict[str, dict[str, object]] = {}
    for span in spans:
        resource = {"service.instance.id": span.instance, "service.version": span.version}
        known = {key: value for key, value in resource.items() if value is not None}
        processes[_process(span)] = {"serviceName": span.service, "tags": _tags(known)}
    return {
        "traceID": spans[0].trace_id,
        "spans": list(map(_jaeger_span, spans)),
        "processes": processes,
        "warnings": None,
    }


def _process(span: Span) -> str:
    return f"{span.service} {span.instance} {span.version}"


def _jaeger_span(span: Span) -> dict[str, object]:
    own: dict[str, AttributeValue] = {"otel.scope.name": span.scope}
    if span.kind is not SpanKind.UNSPECIFIED:
        own["span.kind"] = span.kind.lower()
    if span.status is not StatusCode.UNSET:
        own["otel.status_code"] = span.status.upper()
    if span.status is StatusCode.ERROR:
        own["error"] = True
    references = [("CHILD_OF", span.trace_id, span.parent_id)] if span.parent_id else []
    references += [("FOLLOWS_FROM", link.trace_id, link.span_id) for link in span.links]
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "flags": 1,
        "operationName": span.name,
        "references": [
            {"refType": kind, "traceID": trace_id, "spanID": span_id}
            for kind, trace_id, span_id in references
        ],
        "startTime": span.start_ns // 1000,
        "duration": (span.end_ns - span.start_ns) // 1000,
        "tags": _tags({**span.attributes, **own}),
        "logs": [
            {
                "timestamp": event.time_ns // 1000,
                "fields": _tags({**event.attributes, "event": event.name}),
            }
            for event in span.events
        ],
        "processID": _process(span),
        "warnings": None,
    }


def _tags(attributes: Attributes) -> list[dict[str, object]]:
    return [{"key": key, **_tag(value)} for key, value in attributes.items()]


def _tag(value: AttributeValue) -> dict[str, object]:
    match value:
        case bool():
            return {"type": "bool", "value": value}
        case int():
            return {"type": "int64", "value": value}
        case float():
            return {"type": "float64", "value": value}
        case bytes():
            return {"type": "binary", "value": b64encode(value).decode()}
        case str():
            return {"type": "string", "value": value}
        case _:
            return {"type": "string", "value": json.dumps(value)}
