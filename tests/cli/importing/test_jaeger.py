"""Jaeger's JSON as OTLP."""

import json
from dataclasses import replace

from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from latencytrace.cli.importing.jaeger import message_from_jaeger
from latencytrace.model import Event, SpanKind, StatusCode, semconv
from tests.support.builders.spans.otlp_messages import START_NS, TRACE, message, one_span
from tests.support.builders.trace_files import jaeger_json

SHORT_TRACE = "8448eb211c80319c"  # of 64 bits, as Jaeger's own clients made them


def one(**fields: object) -> ProtoSpan:
    """The only span of a trace, from its fields in Jaeger's JSON."""
    span = {"traceID": TRACE, "spanID": "a1", "startTime": 7, "duration": 3, **fields}
    trace = {"traceID": TRACE, "spans": [span], "processes": {}}
    return message_from_jaeger(trace).resource_spans[0].scope_spans[0].spans[0]


def reference(kind: str, span_id: str, trace_id: str = TRACE) -> dict[str, str]:
    return {"refType": kind, "traceID": trace_id, "spanID": span_id}


def tag(key: str, kind: str, value: object) -> dict[str, object]:
    return {"key": key, "type": kind, "value": value}


def test_what_became_jaegers_becomes_otlp_again() -> None:
    span = one_span(
        start_ns=START_NS,
        end_ns=START_NS + 5000,
        attributes={"a": "text", "b": True, "c": 7, "d": 0.5, "e": b"\x00\xff"},
    )
    rich = one_span(span_id="00000000000000a2", parent_id=span.span_id, kind=SpanKind.CLIENT)
    rich = replace(
        rich,
        status=StatusCode.ERROR,
        events=(Event(time_ns=START_NS + 1000, name="first token", attributes={"n": 1}),),
    )

    [trace] = json.loads(jaeger_json([span, rich]))["data"]
    translated = message_from_jaeger(trace).resource_spans[0].scope_spans[0].spans
    wanted = [
        resource.scope_spans[0].spans[0] for resource in message([span, rich]).resource_spans
    ]
    assert list(translated) == wanted


def test_times_are_microseconds() -> None:
    span = one(startTime=1_763_690_000_000_001, duration=2)

    assert span.start_time_unix_nano == 1_763_690_000_000_001_000
    assert span.end_time_unix_nano == 1_763_690_000_000_003_000


def test_short_ids_are_filled_with_zeros() -> None:
    span = one(
        traceID=SHORT_TRACE, spanID="a1", references=[reference("CHILD_OF", "b2", SHORT_TRACE)]
    )

    assert span.trace_id.hex() == SHORT_TRACE.zfill(32)
    assert span.span_id.hex() == "a1".zfill(16)
    assert span.parent_span_id.hex() == "b2".zfill(16)


def test_the_child_is_of_its_parent_whatever_it_follows() -> None:
    span = one(references=[reference("FOLLOWS_FROM", "b1"), reference("CHILD_OF", "b2")])

    assert span.parent_span_id.hex() == "b2".zfill(16)
    assert [link.span_id.hex() for link in span.links] == ["b1".zfill(16)]
    assert span.links[0].attributes[0].key == semconv.OPENTRACING_REF_TYPE
    assert span.links[0].attributes[0].value.string_value == "follows_from"


def test_what_only_follows_is_a_child() -> None:
    span = one(references=[reference("FOLLOWS_FROM", "b1")])

    assert span.parent_span_id.hex() == "b1".zfill(16)
    assert not span.links


def test_a_reference_to_another_trace_is_a_link() -> None:
    span = one(references=[reference("CHILD_OF", "b1", "c" * 32)])

    assert not span.parent_span_id
    assert span.links[0].trace_id.hex() == "c" * 32


def test_error_and_status_become_the_status() -> None:
    failed = one(tags=[tag("error", "bool", value=True)])
    told = one(
        tags=[
            tag("otel.status_code", "string", "ERROR"),
            tag("otel.status_description", "string", "no"),
        ]
    )

    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert (told.status.code, told.status.message) == (Status.STATUS_CODE_ERROR, "no")
    assert not failed.attributes
    assert not told.attributes


def test_warnings_are_kept_as_an_attribute() -> None:
    span = one(warnings=["clock skew adjustment disabled", "odd"])

    assert span.attributes[0].key == semconv.JAEGER_WARNINGS
    assert span.attributes[0].value.string_value == "clock skew adjustment disabled; odd"


def test_a_host_is_named_as_opentelemetry_names_it() -> None:
    process = {"serviceName": "rag", "tags": [tag("hostname", "string", "node-1")]}
    trace = {
        "traceID": TRACE,
        "spans": [{"spanID": "a1", "processID": "p1"}, {"spanID": "a2", "process": process}],
        "processes": {"p1": process},
    }

    sent = message_from_jaeger(trace)
    named = [
        {pair.key: pair.value.string_value for pair in resource.resource.attributes}
        for resource in sent.resource_spans
    ]
    assert named == [{semconv.SERVICE_NAME: "rag", semconv.HOST_NAME: "node-1"}] * 2


def test_values_of_another_type_than_said_are_texts() -> None:
    span = one(
        tags=[
            tag("number", "int64", "12"),
            tag("none", "int64", "many"),
            tag("untyped", "", 1.5),
            tag("large", "int64", 2**64),
        ]
    )

    values = [pair.value for pair in span.attributes]
    assert values[0].int_value == 12
    assert values[1].string_value == "many"
    assert values[2].double_value == 1.5
    assert values[3].string_value == str(2**64)


def test_nonsense_is_left_empty() -> None:
    span = one(
        spanID="not hex",
        startTime="then",
        operationName="\ud800",
        tags=[7, {}],
        logs=[{"fields": 3}],
        references=7,
        duration=-1,
    )

    assert not span.span_id
    assert span.start_time_unix_nano == span.end_time_unix_nano == 0
    assert span.name == "?"


def test_a_tag_whose_key_is_no_text_costs_no_span() -> None:
    found = one(tags=[{"key": {"a": 1}, "value": 5}, tag("n", "int64", 7)])

    assert [pair.key for pair in found.attributes] == ["{'a': 1}", "n"]
