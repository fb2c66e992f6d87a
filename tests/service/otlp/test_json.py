"""OTLP/JSON read by compiled code, beside protobuf's parser."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.json import MOST_ITEMS, compiled_from_json, message_from_json
from latencytrace.service.otlp.traces import PROTOBUF, CheckedRequest, check
from tests.service.otlp.generated_requests import requests
from tests.service.otlp.test_scanner import changed, told
from tests.support.builders.spans.otlp_messages import SPAN, TRACE, one_span, otlp
from tests.support.builders.zoo.loads import LOADS
from tests.support.builders.zoo.posts import Posts, as_json
from tests.support.compiled import COMPILED

pytestmark = COMPILED


def checked(protobuf: bytes) -> tuple[object, object]:
    """All that is kept of a request, and what was said of it."""
    found: CheckedRequest = check(protobuf, PROTOBUF, None)
    return told(found.columns), found.mending


def by_the_parser(body: bytes) -> object:
    """The same of one in JSON, by protobuf's parser."""
    try:
        return checked(message_from_json(body).SerializeToString())
    except OtlpError:
        return None


@given(request=requests, numbers=st.booleans(), escaped=st.booleans())
def test_both_ways_read_the_same(
    request: ExportTraceServiceRequest, *, numbers: bool, escaped: bool
) -> None:
    tree = json.loads(as_json(request, numbers=numbers))
    body = json.dumps(tree, ensure_ascii=escaped, indent=2 if numbers else None).encode()

    found = compiled_from_json(body)

    if found is not None:
        assert checked(found) == by_the_parser(body)


@given(
    request=requests,
    changes=st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.integers(0, 47),
            st.sampled_from(
                [b",", b"{}", b"[]", b"\\", b'"', b":1", b"null", b"-", b"0", b".5", b"e9"]
            ),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_both_ways_agree_about_json_with_something_wrong_in_it(
    request: ExportTraceServiceRequest, changes: list[tuple[int, int, bytes]]
) -> None:
    body = as_json(request)
    for change in changes:
        body = changed(body, *change)

    found = compiled_from_json(body)

    if found is not None:
        assert checked(found) == by_the_parser(body)


def spanned(said: str) -> bytes:
    """A request of one span that says this."""
    span = f'{{"traceId": "{TRACE}", "spanId": "{SPAN}", {said}}}'
    return f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{span}]}}]}}]}}'.encode()


def valued(value: str) -> bytes:
    return spanned(f'"attributes": [{{"key": "k", "value": {value}}}]')


WHOLE = ('"-12"', "7", "0", "-0", '"007"')
FRACTIONS = ("1", "0.1", "-2.5e-7", "1E+22", "5e-324")
TEXTS = ('""', r'"a\"\\\/\b\f\n\r\t"', r'"\u00e9\ud83d\ude00"', f'"{300 * "x"}"')
USUAL = [
    *(valued(f'{{"intValue": {one}}}') for one in WHOLE),
    *(valued(f'{{"doubleValue": {one}}}') for one in FRACTIONS),
    *(valued(f'{{"stringValue": {one}}}') for one in TEXTS),
    *(
        valued(
            f'{{"arrayValue": {{"values": [{{"doubleValue": 0.5}}, {{"stringValue": {one}}}]}}}}'
        )
        for one in TEXTS
    ),
    valued('{"kvlistValue": {"values": [{"key": "", "value": {"arrayValue": {"values": []}}}]}}'),
    valued("{}"),
    valued('{"boolValue": false}'),
    spanned('"parentSpanId": "", "kind": "SPAN_KIND_SERVER", "droppedAttributesCount": 3'),
    spanned('"kind": 3, "startTimeUnixNano": "9800000000000000001", "endTimeUnixNano": 5'),
    spanned('"status": {"code": "STATUS_CODE_ERROR", "message": "x"}, "flags": 257'),
    spanned('"events": [{"name": "e", "timeUnixNano": "3"}], "traceState": "a=b"'),
    spanned(f'"links": [{{"traceId": "{TRACE}"}}]'),
    b" {} ",
]
ODD_WHOLE = ('"1e3"', "1.0", "01", '" 5"', "true", '"9223372036854775808"')
ODD_FRACTIONS = ('"NaN"', "1e400", "-0", ".5", "1.", 60 * "1")
ODD_TEXTS = (r'"\ud800"', r'"\ude00\ud83d"', r'"\x"', '"\n"', "5", "null")
ODD = [
    *(valued(f'{{"intValue": {one}}}') for one in ODD_WHOLE),
    *(valued(f'{{"doubleValue": {one}}}') for one in ODD_FRACTIONS),
    *(valued(f'{{"stringValue": {one}}}') for one in ODD_TEXTS),
    valued('{"intValue": 1, "boolValue": true}'),
    valued('{"bytesValue": "AAA="}'),
    valued(40 * '{"arrayValue": {"values": [' + 40 * "]}}"),
    spanned('"name": "a", "name": "b"'),
    spanned('"kind": 7'),
    spanned('"kind": "SERVER"'),
    spanned('"trace_state": "a"'),
    spanned('"parentSpanId": "abc"'),
    spanned('"startTimeUnixNano": "-1"'),
    spanned('"name": "??"').replace(b"??", b"\xff\xff"),
    spanned('"name": "a",'),
    spanned('"name": "a"') + b"x",
    b"[]",
    b"",
    b'{"resourceSpans": {}}',
    b'{"resourceSpans": [' + b"{}," * MOST_ITEMS + b"{}]}",
]


@pytest.mark.parametrize("body", USUAL, ids=lambda body: body[-70:].decode())
def test_what_senders_write_is_read_by_compiled_code(body: bytes) -> None:
    found = compiled_from_json(body)

    assert found is not None
    assert checked(found) == by_the_parser(body)


@pytest.mark.parametrize("body", ODD, ids=lambda body: repr(body[-70:]))
def test_what_is_odd_is_left_to_the_parser(body: bytes) -> None:
    assert compiled_from_json(body) is None


@pytest.mark.parametrize("name", ["plain", "events and links", "2 % errors", "Kubernetes"])
def test_posts_of_the_zoo_are_read_by_compiled_code(name: str) -> None:
    [body, *_], _ = Posts(LOADS[name], 1).made(10)
    request = ExportTraceServiceRequest.FromString(body)

    found: Any = compiled_from_json(as_json(request))

    assert checked(found) == checked(body)


def test_a_request_that_is_cut_anywhere_is_left_to_the_parser() -> None:
    body = as_json(ExportTraceServiceRequest.FromString(otlp(one_span(attributes={"a": 0.5}))))

    assert [compiled_from_json(body[:size]) for size in range(len(body))] == [None] * len(body)
