"""One bad text costs one text, and one bad value one value: the rest of a post is kept."""

from collections.abc import Callable

import orjson
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.errors import OtlpError
from latencytrace.model import Span, semconv
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.mending.account import Mend
from latencytrace.service.otlp.metrics import metrics_request
from tests.service.otlp.generated_requests import requests
from tests.support.builders.spans.otlp_messages import SPAN, TRACE, message, one_span

OTHER = one_span("1" * 32)
GOOD, BAD, READ = "??", b"\xff\xfe", "\ufffd\ufffd"  # of two bytes, so that lengths stay
Put = Callable[[ExportTraceServiceRequest, str], None]


def _pair(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _nested(request: ExportTraceServiceRequest, text: str) -> None:
    value = _span(request).attributes.add(key="nested").value
    value.kvlist_value.values.add(key="list").value.array_value.values.add(string_value=text)


def _span(request: ExportTraceServiceRequest) -> ProtoSpan:
    return request.resource_spans[0].scope_spans[0].spans[0]


def _event(request: ExportTraceServiceRequest, text: str) -> None:
    _span(request).events.add(name=text, attributes=[_pair(f"k{text}", text)])


def _link(request: ExportTraceServiceRequest, text: str) -> None:
    _span(request).links.add(trace_id=bytes(range(16)), span_id=bytes(range(8)), trace_state=text)


def _service(request: ExportTraceServiceRequest, text: str) -> None:
    request.resource_spans[0].resource.attributes[0].value.string_value = text


PLACES: dict[str, Put] = {
    "name": lambda request, text: setattr(_span(request), "name", text),
    "key": lambda request, text: _span(request).attributes.append(_pair(text, "v")),
    "value": lambda request, text: _span(request).attributes.append(_pair("k", text)),
    "nested": _nested,
    "state": lambda request, text: setattr(_span(request), "trace_state", text),
    "status": lambda request, text: setattr(_span(request).status, "message", text),
    "event": _event,
    "link": _link,
    "service": _service,
    "scope": lambda r, text: setattr(r.resource_spans[0].scope_spans[0].scope, "name", text),
    "schema": lambda r, text: setattr(r.resource_spans[0].scope_spans[0], "schema_url", text),
}


def sent(put: Put, text: str) -> bytes:
    request = message([one_span(), OTHER])
    put(request, text)
    return request.SerializeToString()


def kept(body: bytes, content_type: str | None = None) -> otlp.CheckedRequest:
    return otlp.check(body, content_type, None, capture_content=True)


@pytest.mark.parametrize("put", PLACES.values(), ids=list(PLACES))
def test_a_text_that_is_no_utf_8_is_mended_where_it_stands(put: Put) -> None:
    body = sent(put, GOOD)
    bad = body.replace(GOOD.encode(), BAD)

    checked = kept(bad)

    assert checked.columns.spans() == kept(sent(put, READ)).columns.spans()
    assert checked.mending.values == {Mend.TEXT: body.count(GOOD.encode())}
    assert checked.rejected_spans == 0
    assert checked.mended_services == {READ if put is _service else "rag"}


@pytest.mark.parametrize("put", PLACES.values(), ids=list(PLACES))
def test_half_a_character_in_json_is_mended_where_it_stands(put: Put) -> None:
    body = json_of(sent(put, GOOD)).replace(GOOD.encode(), rb"\ud83d\ud83d")

    checked = kept(body, otlp.JSON)

    assert checked.columns.spans() == kept(sent(put, READ)).columns.spans()
    assert checked.mending.values[Mend.TEXT]


def json_of(body: bytes) -> bytes:
    """The same in OTLP/JSON."""
    # Its ids are base64 there, which is read as well.
    return otlp.answer(ExportTraceServiceRequest.FromString(body), otlp.JSON).body


def test_bytes_that_are_no_utf_8_in_json_are_mended_too() -> None:
    body = json_of(sent(PLACES["name"], GOOD)).replace(GOOD.encode(), BAD)

    assert {span.name for span in kept(body, otlp.JSON).columns.spans()} == {READ, OTHER.name}


IDS = f'"traceId": "{TRACE}", "spanId": "{SPAN}"'
OTHER_JSON = f'{{"traceId": "{OTHER.trace_id}", "spanId": "{SPAN}", "name": "good"}}'


@pytest.mark.parametrize(
    "said",
    [
        '"name": 5',
        '"kind": 1e99',
        '"kind": "\\ud83d"',
        '"status": {"code": "\\ud83d"}',
        f'"attributes": [{{"key": "k", "value": {{"intValue": {5000 * "9"}}}}}]',
        '"startTimeUnixNano": "yesterday"',
        '"startTimeUnixNano": -1',
        '"flags": {"a": 1}',
        '"attributes": {}',
        '"attributes": [null]',
        '"attributes": [{"key": "k", "value": {"intValue": 1e20}}]',
        '"attributes": [{"key": "k", "value": {"intValue": "9223372036854775808"}}]',
        '"attributes": [{"key": "k", "value": {"intValue": true}}]',
        '"attributes": [{"key": "k", "value": {"doubleValue": NaN}}]',
        f'"attributes": [{{"key": "k", "value": {{"doubleValue": 1{400 * "0"}}}}}]',
        '"attributes": [{"key": "k", "value": {"stringValue": "a", "intValue": "1"}}]',
        '"attributes": [{"key": "k", "value": {"arrayValue": [1]}}]',
        '"events": [5]',
        '"links": [[1]]',
        '"status": {"code": []}',
        '"attributes": [{"key": "k", "value": '
        + '{"arrayValue": {"values": [' * 60
        + "]}}" * 60
        + "}]",
    ],
)
def test_a_value_that_cannot_be_is_left_out_of_json(said: str) -> None:
    spans = f"[{{{IDS}, {said}}}, {OTHER_JSON}]"
    body = f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": {spans}}}]}}]}}'

    checked = kept(body.encode(), otlp.JSON)

    assert (checked.span_count, checked.rejected_spans) == (2, 0)
    assert checked.mending.values == {Mend.VALUE: 1}


def test_what_is_no_span_in_json_is_rejected_and_the_rest_kept() -> None:
    body = f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [7, {OTHER_JSON}]}}]}}]}}'

    checked = kept(body.encode(), otlp.JSON)

    assert (checked.span_count, checked.rejected_spans) == (1, 1)
    assert "is none" in (checked.reason or "")


def nested(levels: int) -> bytes:
    """A request whose first span has a list in lists."""
    request = message([one_span(), OTHER])
    value = _span(request).attributes.add(key="deep").value
    for _ in range(levels):
        value = value.array_value.values.add()
    return request.SerializeToString()


def test_a_list_too_deep_for_the_decoder_costs_itself_alone() -> None:
    checked = kept(nested(90))

    assert checked.span_count == 2
    assert checked.mending.values == {Mend.VALUE: 1}


def spans_before(request: ExportTraceServiceRequest, cut: int) -> list[Span]:
    """The spans that are whole in so many first bytes of a request."""
    whole = ExportTraceServiceRequest()
    for resource in request.resource_spans:
        whole.resource_spans.append(resource)
        if whole.ByteSize() > cut:
            del whole.resource_spans[-1]
            break
    return kept(whole.SerializeToString()).columns.spans()


@given(request=requests, share=st.floats(0, 1))
def test_spans_before_a_cut_are_kept(request: ExportTraceServiceRequest, share: float) -> None:
    body = request.SerializeToString()
    cut = int(share * len(body))
    whole = spans_before(request, cut)
    try:
        checked = kept(body[:cut])
    except OtlpError:
        assert not whole
    else:
        found = checked.columns.spans()
        assert repr(found[: len(whole)]) == repr(whole)
        known = kept(body).columns
        assert repr(found) == repr(known.spans()[: len(found)])
        assert checked.rejected_spans <= known.rejected + 1


@given(request=requests, data=st.data())
def test_no_byte_of_a_text_costs_a_span(
    request: ExportTraceServiceRequest, data: st.DataObject
) -> None:
    body = request.SerializeToString()
    texts = [text for text in texts_of(request) if len(text) > 1 and body.count(text) == 1]
    for text in texts:
        if data.draw(st.booleans()):
            body = body.replace(text, b"\xff" * len(text))
    before = kept(request.SerializeToString())

    after = kept(body)

    assert [one.span_id for one in after.columns.spans()] == [
        one.span_id for one in before.columns.spans()
    ]
    assert after.rejected_spans == before.rejected_spans


def texts_of(request: ExportTraceServiceRequest) -> list[bytes]:
    """Names, keys and values that are texts."""
    found = []
    for resource in request.resource_spans:
        pairs = list(resource.resource.attributes)
        for scope in resource.scope_spans:
            found.append(scope.scope.name)
            for span in scope.spans:
                found.append(span.name)
                pairs += span.attributes
        found += [pair.key for pair in pairs]
        found += [pair.value.string_value for pair in pairs]
    return [text.encode() for text in found]


def test_a_post_of_which_no_span_can_be_read_is_refused_with_the_reason() -> None:
    for body, content_type in (
        (message([OTHER]).SerializeToString()[:-1], otlp.PROTOBUF),
        (b'{"resourceSpans": [7]}', otlp.JSON),
    ):
        with pytest.raises(OtlpError, match="not an OTLP trace request"):
            kept(body, content_type)


@pytest.mark.parametrize("bad", [False, True], ids=["whole", "with a bad text"])
def test_spans_of_otlp_before_0_19_are_read(*, bad: bool) -> None:
    request = message([one_span(name=GOOD), OTHER])
    [scope] = request.resource_spans[0].scope_spans
    body = request.SerializeToString()
    old = b"\x12" + bytes((scope.ByteSize(),)) + scope.SerializeToString()
    renamed = body.replace(old, b"\xc2\x3e" + old[1:])
    first, size = renamed[:1], request.resource_spans[0].ByteSize() + 1
    renamed = first + bytes((size % 128 | 128, size // 128)) + renamed[3:]
    if bad:
        renamed = renamed.replace(GOOD.encode(), BAD)

    found = kept(renamed).columns.spans()

    assert [span.name for span in found] == [READ if bad else GOOD, OTHER.name]
    assert found[0].scope == "test"


def test_spans_of_otlp_before_0_19_are_read_in_json() -> None:
    body = json_of(message([one_span(), OTHER]).SerializeToString())
    old = body.replace(b"scopeSpans", b"instrumentationLibrarySpans").replace(
        b'"scope"', b'"instrumentationLibrary"'
    )

    expected = kept(body, otlp.JSON).columns.spans()
    assert kept(old, otlp.JSON).columns.spans() == expected
    snake = old.replace(b"instrumentationLibrarySpans", b"instrumentation_library_spans")
    assert kept(snake, otlp.JSON).columns.spans() == expected
    for empty in (b"[]", b"null"):
        both = old.replace(
            b'"instrumentationL', b'"scopeSpans":' + empty + b',"instrumentationL', 1
        )
        assert kept(both, otlp.JSON).columns.spans() == expected


def test_what_was_lost_is_told_as_partial_success() -> None:
    body = message([OTHER, one_span()]).SerializeToString()[:-3]

    answer = orjson.loads(otlp.acceptance(kept(body), otlp.JSON).body)

    assert answer["partialSuccess"]["rejectedSpans"] == "1"
    assert "torn" in answer["partialSuccess"]["errorMessage"]


def test_the_resource_of_a_mended_value_is_named_whatever_stands_around_it() -> None:
    request = message([OTHER, one_span(name=GOOD), OTHER])
    for number, resource in enumerate(request.resource_spans):
        for pair in resource.resource.attributes:
            if pair.key == semconv.SERVICE_NAME:
                pair.value.string_value = f"service-{number}"

    body = request.SerializeToString().replace(GOOD.encode(), BAD)

    assert kept(body).mended_services == {"service-1"}


def reported(text: str) -> ExportMetricsServiceRequest:
    """What two agents report, the first with this text in each place."""
    request = ExportMetricsServiceRequest()
    for one in (text, "good"):
        of_one = request.resource_metrics.add()
        of_one.resource.attributes.append(_pair(semconv.SERVICE_NAME, one))
        metric = of_one.scope_metrics.add().metrics.add(name=one, description=one)
        metric.gauge.data_points.add(as_int=7, attributes=[_pair(one, one)])
    return request


def test_a_bad_text_in_a_post_of_metrics_costs_that_text() -> None:
    bad = reported(GOOD).SerializeToString().replace(GOOD.encode(), BAD)

    assert metrics_request(bad, None, None) == reported(READ)


def test_half_a_character_in_metrics_of_json_costs_that_text() -> None:
    told = json_format.MessageToJson(reported(GOOD)).replace(GOOD, r"\ud83d")

    assert metrics_request(told.encode(), otlp.JSON, None) == reported("\ufffd")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"no metrics", None),
        (reported("x").SerializeToString()[:-1], None),
        (b'{"resourceMetrics": 5}', otlp.JSON),
        (b"[]", otlp.JSON),
        (b"[" * 100_000, otlp.JSON),
    ],
)
def test_what_is_no_post_of_metrics_is_refused(body: bytes, content_type: str | None) -> None:
    with pytest.raises(OtlpError, match=r"metrics request|JSON"):
        metrics_request(body, content_type, None)


def test_a_field_named_by_half_a_character_costs_no_span() -> None:
    told = otlp.answer(message([OTHER]), otlp.JSON).body
    body = told.replace(b'"name"', rb'"\ud83d": 1, "name"', 1)

    assert otlp.check(body, otlp.JSON, None).columns.spans() == [OTHER]
