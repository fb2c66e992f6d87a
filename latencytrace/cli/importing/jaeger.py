"""From a trace in Jaeger's JSON to OTLP.

Source: Jaeger's `model/json` (the query API and the UI's download) and the mapping of
OpenTelemetry's specification, "OpenTelemetry to Jaeger transformation". Times are microseconds.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.errors import OtlpError
from latencytrace.model import semconv

Tree = Mapping[str, object]

_US: Final = 1000  # nanoseconds
_TRACE_DIGITS: Final = 32
_SPAN_DIGITS: Final = 16
_LAST: Final = 1 << 63

_KINDS = {
    "internal": ProtoSpan.SPAN_KIND_INTERNAL,
    "server": ProtoSpan.SPAN_KIND_SERVER,
    "client": ProtoSpan.SPAN_KIND_CLIENT,
    "producer": ProtoSpan.SPAN_KIND_PRODUCER,
    "consumer": ProtoSpan.SPAN_KIND_CONSUMER,
}
_STATUSES = {"OK": Status.STATUS_CODE_OK, "ERROR": Status.STATUS_CODE_ERROR}
_RESOURCE_KEYS = {"hostname": semconv.HOST_NAME}  # Jaeger's own clients wrote it so
_PARENTS = ("CHILD_OF", "FOLLOWS_FROM")  # the first of the better kind is the parent


def is_jaeger_trace(document: Tree) -> bool:
    """Tell whether a JSON object is a trace of Jaeger's."""
    return "spans" in document and ("processes" in document or "traceID" in document)


def message_from_jaeger(trace: Tree) -> ExportTraceServiceRequest:
    """One trace as OTLP, a resource for each of its processes.

    Ids that are no hex digits become empty, so that the span is rejected and not the trace.

    Raises:
        OtlpError: The document is not a trace of Jaeger.
    """
    spans, processes = trace["spans"], trace.get("processes")
    if not isinstance(spans, list) or not isinstance(processes, dict | None):
        raise OtlpError("not Jaeger's JSON: `spans` is no list, or `processes` no object")
    into = _Resources(processes or {})
    for span in _objects(spans):
        _fill_span(into, span, _text(trace.get("traceID")))
    return into.message


class _Resources:
    """The resources and scopes of one message, each once."""

    def __init__(self, processes: Tree) -> None:
        self.message = ExportTraceServiceRequest()
        self._processes = processes
        self._resources: dict[str, ResourceSpans] = {}
        self._scopes: dict[tuple[str, str, str], ScopeSpans] = {}

    def scope_of(self, span: Tree, tags: Tree) -> ScopeSpans:
        name, version = (
            _text(tags.get(f"otel.scope.{part}", tags.get(f"otel.library.{part}")))
            for part in ("name", "version")
        )
        own = span.get("process")
        process_id = _text(span.get("processID")) if own is None else repr(own)
        key = (process_id, name, version)
        scope = self._scopes.get(key)
        if scope is None:
            process = self._processes.get(process_id) if own is None else own
            scope = self._scopes[key] = self._resource(process_id, process).scope_spans.add()
            scope.scope.name, scope.scope.version = name, version
        return scope

    def _resource(self, process_id: str, process: object) -> ResourceSpans:
        resource = self._resources.get(process_id)
        if resource is None:
            resource = self._resources[process_id] = self.message.resource_spans.add()
            _fill_resource(resource, process if isinstance(process, dict) else {})
        return resource


def _fill_resource(resource: ResourceSpans, process: Tree) -> None:
    service = process.get("serviceName")
    if service:
        resource.resource.attributes.append(_pair(semconv.SERVICE_NAME, _text(service)))
    named = {_text(tag.get("key")) for tag in _objects(process.get("tags"))}
    for pair in _attributes(_objects(process.get("tags"))):
        key = _RESOURCE_KEYS.get(pair.key, pair.key)
        if key not in named:
            pair.key = key
        resource.resource.attributes.append(pair)


def _fill_span(into: _Resources, jaeger: Tree, trace_id: str) -> None:
    trace_id = _text(jaeger.get("traceID")) or trace_id
    tags = {_text(tag.get("key")): tag.get("value") for tag in _objects(jaeger.get("tags"))}
    start_ns = _ns(jaeger.get("startTime"))
    span = into.scope_of(jaeger, tags).spans.add(
        trace_id=_identifier(trace_id, _TRACE_DIGITS),
        span_id=_identifier(jaeger.get("spanID"), _SPAN_DIGITS),
        trace_state=_text(tags.get("w3c.tracestate")),
        name=_text(jaeger.get("operationName")),
        kind=_KINDS.get(_text(tags.get("span.kind")).lower(), ProtoSpan.SPAN_KIND_INTERNAL),
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + _ns(jaeger.get("duration")),
        attributes=_attributes(
            tag for tag in _objects(jaeger.get("tags")) if tag.get("key") not in _OWN_TAGS
        ),
        status=_status(tags),
    )
    _fill_references(span, jaeger, trace_id)
    for log in _objects(jaeger.get("logs")):
        _fill_event(span, log)
    warnings = jaeger.get("warnings")
    if isinstance(warnings, list) and warnings:
        noted = "; ".join(map(_text, warnings))
        span.attributes.append(_pair(semconv.JAEGER_WARNINGS, noted))


# What has a place of its own in OTLP.
_OWN_TAGS = frozenset(
    {
        "span.kind", "error", "w3c.tracestate", "otel.status_code", "otel.status_description",
        "otel.library.name", "otel.library.version", "otel.scope.name", "otel.scope.version",
    }
)  # fmt: skip


def _status(tags: Tree) -> Status:
    code = _STATUSES.get(_text(tags.get("otel.status_code")).upper(), Status.STATUS_CODE_UNSET)
    if code == Status.STATUS_CODE_UNSET and str(tags.get("error", "")).lower() == "true":
        code = Status.STATUS_CODE_ERROR
    return Status(code=code, message=_text(tags.get("otel.status_description")))


def _fill_references(span: ProtoSpan, jaeger: Tree, trace_id: str) -> None:
    """The parent, and links to all others."""
    references = list(_objects(jaeger.get("references")))
    same = [one for one in references if _same_trace(one, trace_id)]
    parent = next((one for kind in _PARENTS for one in same if one.get("refType") == kind), None)
    if parent is not None:
        span.parent_span_id = _identifier(parent.get("spanID"), _SPAN_DIGITS)
    elif jaeger.get("parentSpanID"):  # as Jaeger's oldest versions wrote it
        span.parent_span_id = _identifier(jaeger["parentSpanID"], _SPAN_DIGITS)
    for one in references:
        if one is not parent:
            link = span.links.add(
                trace_id=_identifier(one.get("traceID") or trace_id, _TRACE_DIGITS),
                span_id=_identifier(one.get("spanID"), _SPAN_DIGITS),
            )
            kind = _text(one.get("refType")).lower()
            link.attributes.append(_pair(semconv.OPENTRACING_REF_TYPE, kind))


def _same_trace(reference: Tree, trace_id: str) -> bool:
    named = reference.get("traceID") or trace_id
    return _identifier(named, _TRACE_DIGITS) == _identifier(trace_id, _TRACE_DIGITS)


def _fill_event(span: ProtoSpan, log: Tree) -> None:
    fields = list(_objects(log.get("fields")))
    name = next((_text(one.get("value")) for one in fields if one.get("key") == "event"), "log")
    span.events.add(
        time_unix_nano=_ns(log.get("timestamp")),
        name=name,
        attributes=_attributes(one for one in fields if one.get("key") != "event"),
    )


def _attributes(tags: Iterable[Tree]) -> Iterator[KeyValue]:
    for tag in tags:
        value = AnyValue()
        read = _VALUES.get(_text(tag.get("type")).lower(), _any_value)
        try:
            read(value, tag.get("value"))
        except (TypeError, ValueError):
            value.string_value = _text(tag.get("value"))
        yield KeyValue(key=_text(tag.get("key")), value=value)


def _pair(key: str, text: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=text))


def _any_value(value: AnyValue, found: object) -> None:
    match found:
        case bool():
            value.bool_value = found
        case int():
            value.int_value = found
        case float():
            value.double_value = found
        case _:
            value.string_value = _text(found)


def _bool_value(value: AnyValue, found: object) -> None:
    value.bool_value = str(found).lower() == "true"


def _int_value(value: AnyValue, found: object) -> None:
    value.int_value = int(str(found))


def _float_value(value: AnyValue, found: object) -> None:
    value.double_value = float(str(found))


def _bytes_value(value: AnyValue, found: object) -> None:
    value.bytes_value = b64decode(_text(found), validate=True)


_VALUES: Mapping[str, Callable[[AnyValue, object], None]] = {
    "bool": _bool_value,
    "int64": _int_value,
    "float64": _float_value,
    "binary": _bytes_value,
}


def _objects(values: object) -> Iterator[Tree]:
    if isinstance(values, list):
        yield from (value for value in values if isinstance(value, dict))


def _text(value: object) -> str:
    """A text that protobuf takes: halves of surrogate pairs are replaced."""
    text = "" if value is None else str(value)
    return text.encode("utf-8", "replace").decode()


def _ns(microseconds: object) -> int:
    """Nanoseconds; 0 for what is no time."""
    try:
        if isinstance(microseconds, float):
            found = round(microseconds * _US)
        else:
            found = int(_text(microseconds)) * _US
    except (ValueError, OverflowError):
        return 0
    return found if 0 <= found < _LAST else 0


def _identifier(digits: object, length: int) -> bytes:
    """An id of hex digits, leading zeros left out; empty: it is none."""
    try:
        return bytes.fromhex(_text(digits).zfill(length)) if digits else b""
    except ValueError:
        return b""
