"""Our wire format against its oracles: the stock protobuf classes, and the SDK's own exporter."""

from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.spans.attributes import copied_attributes
from latencytrace.agent.spans.span import RecordedSpan
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import Value, attributes_of, received_spans

RESOURCE = {"service.name": "program", "process.pid": 7}
REMOTE = SpanContext(
    trace_id=0x0AF7651916CD43DD8448EB211C80319C,
    span_id=0x00F067AA0BA902B7,
    is_remote=True,
    trace_flags=TraceFlags(TraceFlags.SAMPLED),
    trace_state=TraceState([("vendor", "value")]),
)
LOCAL = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

texts = st.text(alphabet=st.characters(codec=None), max_size=120)  # lone surrogates, too
scalars = texts | st.booleans() | st.integers() | st.floats() | st.binary(max_size=40)
values = st.recursive(
    scalars | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def encoded(spans: list[RecordedSpan]) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(OtlpEncoder(RESOURCE).encode(spans))


def one_span(make: Callable[[Tracer], object]) -> OtlpSpan:
    """What a program's span becomes."""
    spans = Spans()
    make(spans.provider.get_tracer("scope", "1.2"))
    return encoded([spans.only]).resource_spans[0].scope_spans[0].spans[0]


def as_otlp(value: object) -> Value:
    """What a value should be on the other side, written the simple, slow way."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool() | float() | bytes() | None:
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)
        case list() | tuple():
            return tuple(map(as_otlp, value))
        case dict():
            return {str(as_otlp(key)): as_otlp(item) for key, item in value.items() if key}
        case _:
            raise AssertionError(value)


@given(st.dictionaries(texts, values, max_size=6))
def test_attributes_of_every_type_arrive_as_they_were(attributes: dict[str, Any]) -> None:
    spans = Spans()

    spans.provider.get_tracer("scope").start_span("name", attributes=attributes).end()

    arrived = attributes_of(
        encoded(spans.all).resource_spans[0].scope_spans[0].spans[0].attributes
    )
    wanted = {key: value for key, value in attributes.items() if key and value is not None}
    assert same(arrived, as_otlp(wanted))


def same(one: object, other: object) -> bool:
    """Equal, of the same types, and NaN equal to NaN."""
    return repr(one) == repr(other)


@given(st.lists(st.dictionaries(texts, scalars, max_size=4), max_size=6))
def test_what_is_cached_changes_nothing(batches: list[dict[str, Any]]) -> None:
    spans = Spans()
    for attributes in batches:
        spans.provider.get_tracer("scope").start_span("name", attributes=attributes).end()
    encoder = OtlpEncoder(RESOURCE)

    first, second = encoder.encode(spans.all), encoder.encode(spans.all)

    assert first == second == OtlpEncoder(RESOURCE).encode(spans.all)


def test_more_values_than_are_cached_arrive_all_the_same() -> None:
    spans = Spans()
    tracer = spans.provider.get_tracer("scope")
    for number in range(9000):
        tracer.start_span(f"name {number}", attributes={"n": number, f"x{number}": 0.5}).end()

    encoder = OtlpEncoder(RESOURCE)
    encoder.encode(spans.all)
    arrived = list(received_spans(ExportTraceServiceRequest.FromString(encoder.encode(spans.all))))

    assert [span.name for span in arrived] == [f"name {number}" for number in range(9000)]
    assert [dict(span.attributes) for span in arrived] == [
        {"n": number, f"x{number}": 0.5} for number in range(9000)
    ]


@given(st.integers())
def test_an_integer_is_not_taken_for_a_boolean_nor_a_float_from_the_cache(number: int) -> None:
    spans = Spans()
    tracer = spans.provider.get_tracer("scope")
    for value in (number, bool(number), float(number % 97), number):
        tracer.start_span("name", attributes={"key": value}).end()

    arrived = [span.attributes["key"] for span in received_spans(encoded(spans.all))]

    assert [type(value) for value in arrived][1:3] == [bool, float]
    assert arrived[0] == arrived[3]


def test_an_integer_of_a_million_digits_is_no_fault() -> None:
    span = one_span(lambda tracer: tracer.start_span("a", attributes={"n": -(1 << 20_000)}).end())

    assert span.attributes[0].value.string_value.startswith("-0x1000")


class Colour(Enum):
    """No scalar."""

    RED = "red"


class Tone(str, Enum):  # noqa: UP042 - the old way is what is tested
    """A string."""

    DARK = "dark"


class Shade(StrEnum):
    """Another."""

    PALE = "pale"


class Size(IntEnum):
    """An integer."""

    BIG = 3


def test_an_enum_arrives_as_its_value_and_one_without_a_plain_value_as_its_name() -> None:
    copied = copied_attributes(
        {"tone": Tone.DARK, "shade": Shade.PALE, "size": Size.BIG, "colour": Colour.RED}
    )

    assert copied == {"tone": "dark", "shade": "pale", "size": 3, "colour": "Colour.RED"}
    assert {type(value) for value in copied.values()} == {str, int}


def test_a_number_of_numpy_arrives_as_a_number() -> None:
    numpy = pytest.importorskip("numpy")

    copied = copied_attributes({"int": numpy.int64(3), "float": numpy.float32(0.5)})

    assert copied == {"int": 3, "float": 0.5}
    assert {type(value) for value in copied.values()} == {int, float}


def test_an_array_is_left_out_whatever_is_in_it() -> None:
    numpy = pytest.importorskip("numpy")

    assert copied_attributes({"array": numpy.zeros(3), "beside": 1}) == {"beside": 1}


def test_a_value_within_itself_ends_somewhere() -> None:
    endless: list[object] = [1]
    endless.append(endless)

    assert "endless" in copied_attributes({"endless": endless})


@pytest.mark.parametrize("name", [None, 7, b"bytes"], ids=repr)
def test_a_name_that_is_no_text_is_written_as_one(name: object) -> None:
    span = one_span(lambda tracer: tracer.start_span(name).end())  # type: ignore[arg-type]  # wrong on purpose

    assert span.name == str(name)


def test_a_key_that_is_no_text_is_written_as_one() -> None:
    def program(tracer: Tracer) -> None:
        span = tracer.start_span("name")
        span.set_attribute(7, "seven")  # type: ignore[arg-type]  # wrong on purpose
        span.end()

    assert one_span(program).attributes[0].key == "7"


def test_spans_arrive_under_their_scope_and_resource() -> None:
    spans = Spans()
    for scope, version in (("a", "1"), ("b", None), ("a", "1")):
        spans.provider.get_tracer(scope, version).start_span("name").end()

    message = encoded(spans.all)

    (of_resource,) = message.resource_spans
    assert attributes_of(of_resource.resource.attributes) == RESOURCE
    assert [(s.scope.name, s.scope.version, len(s.spans)) for s in of_resource.scope_spans] == [
        ("a", "1", 2),
        ("b", "", 1),
    ]


def test_nothing_is_a_request_without_spans() -> None:
    assert list(received_spans(encoded([]))) == []


def test_a_span_looks_like_the_sdks_to_code_that_reads_it() -> None:
    spans = Spans()
    tracer = spans.provider.get_tracer("scope")
    context = set_span_in_context(NonRecordingSpan(REMOTE))

    span = tracer.start_span("name", context, SpanKind.CLIENT, {"a": 1}, start_time=5)
    span.set_status(StatusCode.ERROR, "why")
    span.end(9)

    assert isinstance(span, RecordedSpan)
    assert (span.name, span.kind, span.start_time, span.end_time) == (
        "name",
        SpanKind.CLIENT,
        5,
        9,
    )
    assert dict(span.attributes) == {"a": 1}
    assert span.context == span.get_span_context()
    assert span.parent == REMOTE
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "why")
    with pytest.raises(TypeError):
        span.attributes["a"] = 2  # type: ignore[index]  # read-only


def test_a_link_keeps_its_trace_state_and_its_sampled_flag() -> None:
    span = one_span(lambda tracer: tracer.start_span("name", links=[Link(REMOTE)]).end())

    assert (span.links[0].trace_state, span.links[0].flags) == ("vendor=value", 0x301)
