"""What is kept of a sender's bytes, and what he is told."""

import gzip
import json
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import orjson
import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from latencytrace.errors import MediaTypeError, OtlpError
from latencytrace.model import SpanKind
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.block_builder import NAMELESS
from latencytrace.service.otlp.json import protobuf_from_json
from latencytrace.service.otlp.messages import MOST_PARTS
from latencytrace.service.otlp.wire_parts import has_more_parts
from tests.support.builders.spans.otlp_messages import SPAN, TRACE, one_span
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.few import few
from tests.support.over_all import over_all

INTEGERS = (
    0,
    -3,
    "12",
    "-12",
    "+5",
    " 5",
    "5.0",
    5.0,
    5.5,
    True,
    1 << 63,
    str(1 << 63),
    "1e3",
    "٣",
    "",
)
SENT = one_span(attributes={"a": 1, "b": 0.5, "http.route": "/chat"})
BODY = encoded(SENT)


def json_body(body: bytes) -> bytes:
    """A request in OTLP/JSON, as the specification writes it: ids in hex, enums as numbers."""
    tree = json_format.MessageToDict(
        ExportTraceServiceRequest.FromString(body), use_integers_for_enums=True
    )
    span = tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["traceId"], span["spanId"] = TRACE, SPAN
    return json.dumps(tree).encode()


def test_a_good_request_is_passed_on_as_it_came() -> None:
    checked = otlp.check(BODY, "application/x-protobuf", None)

    assert checked.columns.spans() == [SENT]
    assert (checked.span_count, checked.rejected_spans, checked.reason) == (1, 0, None)
    assert checked.span_counts == {TRACE: 1}
    assert checked.rooted == {TRACE}


def test_a_request_without_spans_is_good() -> None:
    assert otlp.check(b"", None, None).span_count == 0


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_says_the_same_as_protobuf(content_type: str) -> None:
    checked = otlp.check(json_body(BODY), content_type, None)

    assert checked.columns.spans() == [SENT]


@pytest.mark.parametrize(
    "pair",
    [
        {"key": "k", "value": {"stringValue": "é"}},
        {"key": "k", "value": {"stringValue": 1}},
        {"key": "k", "value": {"stringValue": "\ud800"}},
        {"key": "k", "value": {"string_value": "a"}},
        {"key": "\ud800", "value": {"boolValue": True}},
        {"key": 1, "value": {"boolValue": True}},
        {"key": "k", "value": {"boolValue": "true"}},
        *({"key": "k", "value": {"intValue": one}} for one in INTEGERS),
        *({"key": "k", "value": {"doubleValue": one}} for one in (1, 1.5, "NaN", "2", True, None)),
        {"key": "k", "value": {"doubleValue": float("nan")}},
        {"key": "k", "value": {"doubleValue": 10**400}},
        {"key": "k", "value": {"intValue": 1, "boolValue": True}},
        {"key": "k", "value": {"arrayValue": {"values": [{"intValue": "1"}]}}},
        {"key": "k", "value": {}},
        {"key": "k", "value": None},
        {"key": "k"},
        {"value": {"intValue": 1}},
        {"key": "k", "value": {"intValue": 1}, "of another version": 2},
        None,
        "k",
    ],
    ids=lambda pair: str(pair)[:60],
)
@over_all("name", ["scopeSpans", "scope_spans"])
def test_attributes_in_json_are_what_the_parser_makes_of_them(pair: object, name: str) -> None:
    plain = {"key": "plain", "value": {"intValue": "7"}}
    spans = [{"name": "one", "attributes": [plain]}, {"name": "two", "attributes": [plain, pair]}]
    tree = {"resourceSpans": [{name: [{"spans": spans}]}, {"scopeSpans": [{"spans": spans}]}]}
    expected = found = None
    with suppress(json_format.ParseError, ValueError, OverflowError):
        expected = json_format.ParseDict(
            tree, ExportTraceServiceRequest(), ignore_unknown_fields=True
        )

    with suppress(OtlpError):
        found = ExportTraceServiceRequest.FromString(protobuf_from_json(json.dumps(tree).encode()))

    assert repr(found) == repr(expected)


@pytest.mark.parametrize("attributes", [None, 5, "k", True, {}, {"key": "k"}, []], ids=repr)
def test_what_is_no_list_of_attributes_is_what_the_parser_makes_of_it(attributes: object) -> None:
    spans = [{"name": "one", "attributes": attributes}]
    tree = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    expected = found = None
    with suppress(json_format.ParseError):
        expected = json_format.ParseDict(tree, ExportTraceServiceRequest())

    with suppress(OtlpError):
        found = ExportTraceServiceRequest.FromString(protobuf_from_json(json.dumps(tree).encode()))

    assert repr(found) == repr(expected)


def test_a_list_of_spans_under_both_of_its_names_leaves_each_attribute_its_span() -> None:
    spans = [{"name": "one", "attributes": [{"key": "k", "value": {"intValue": "7"}}]}]
    tree = {"resourceSpans": [{"scopeSpans": None, "scope_spans": [{"spans": spans}]},
                              {"scopeSpans": [{"spans": spans}]}]}  # fmt: skip

    found = ExportTraceServiceRequest.FromString(protobuf_from_json(json.dumps(tree).encode()))

    expected = ExportTraceServiceRequest()
    json_format.ParseDict(tree, expected)
    assert found == expected


def test_fields_that_json_does_not_define_are_passed_over() -> None:
    body = json_body(BODY).replace(b'"spanId"', b'"novelty": {"x": [1]}, "spanId"')

    assert otlp.check(body, otlp.JSON, None).span_count == 1


@pytest.mark.parametrize(
    "body",
    [BODY[:-1], b"\xff", b"GET / HTTP/1.1", b"{}"],
    ids=["too short", "no tag", "text", "json"],
)
def test_what_is_no_protobuf_is_an_error(body: bytes) -> None:
    with pytest.raises(OtlpError, match="protobuf"):
        otlp.check(body, otlp.PROTOBUF, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"resourceSpans": 1}',
        b'{"resourceSpans": [1]}',
        b'{"resourceSpans": [{"scopeSpans": {"spans": []}}]}',
        b'{"resourceSpans": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_is_no_otlp_json_is_an_error(body: bytes) -> None:
    with pytest.raises(OtlpError, match="JSON"):
        otlp.check(body, otlp.JSON, None)


@pytest.mark.parametrize("content_type", [otlp.PROTOBUF, otlp.JSON])
@given(body=st.binary(max_size=60))
def test_any_bytes_are_either_kept_or_an_otlp_error(content_type: str, body: bytes) -> None:
    with suppress(OtlpError):
        otlp.check(body, content_type, None)


def test_a_content_type_we_do_not_speak_is_an_error() -> None:
    with pytest.raises(OtlpError, match="text/plain"):
        otlp.check(BODY, "text/plain", None)


# Compression


@pytest.mark.parametrize("encoding", ["gzip", " GZIP "])
def test_gzip_is_undone(encoding: str) -> None:
    checked = otlp.check(gzip.compress(BODY), None, encoding)

    assert checked.columns.spans() == [SENT]


def test_what_follows_the_most_members_of_gzip_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    decompressobj = zlib.decompressobj

    class Counting:
        """The real one, of which each piece that it reads is noted."""

        def __init__(self, wbits: int) -> None:
            self._real = decompressobj(wbits=wbits)

        def decompress(self, piece: memoryview, most: int) -> bytes:
            """See `zlib`."""
            read.append(len(piece))
            return self._real.decompress(piece, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    member = gzip.compress(b"", 1)

    assert otlp.decompressed(member * otlp.MAX_MEMBERS, "gzip") == b""
    read.clear()
    with pytest.raises(OtlpError, match="more than 64 members"):
        otlp.decompressed(member * 1_000_000, "gzip")
    assert len(read) == otlp.MAX_MEMBERS
    assert max(read) <= 64 * 1024  # for each: what follows is copied


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_gzip_is_undone_wherever_a_member_ends(size: int) -> None:
    first, second = os.urandom(size), os.urandom(70_000)  # they stay as long as they are
    body = gzip.compress(first) + gzip.compress(b"") + gzip.compress(second)

    assert otlp.decompressed(body, "gzip") == first + second


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_long_body_is_known_without_undoing_all_of_it(encoding: str | None) -> None:
    plain = bytes(5000)
    body = plain if encoding is None else gzip.compress(plain)

    assert otlp.decompressed_if_short(body, encoding, 5000) == plain
    assert otlp.decompressed_if_short(body, encoding, 4999) is None


def test_over_http_the_content_type_must_be_said() -> None:
    with pytest.raises(MediaTypeError, match="there is no Content-Type"):
        otlp.check(BODY, "", None)


def test_gzip_in_several_members_is_undone() -> None:
    body = gzip.compress(BODY[:9]) + gzip.compress(BODY[9:])

    assert otlp.check(body, None, "gzip").columns.spans() == [SENT]


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (BODY, "gzip", "not gzip"),
        (gzip.compress(BODY)[:-9], "gzip", "too early"),
        (gzip.compress(BODY) + b"\0\0", "gzip", "not gzip|too early"),
        (zlib.compress(BODY), "deflate", "use gzip"),
    ],
    ids=["plain", "cut", "trailing bytes", "deflate"],
)
def test_what_cannot_be_decompressed_is_an_error(body: bytes, encoding: str, reason: str) -> None:
    with pytest.raises(OtlpError, match=reason):
        otlp.check(body, None, encoding)


def test_a_zip_bomb_is_refused_before_it_is_large() -> None:
    bomb = gzip.compress(bytes(otlp.MAX_BYTES + 1))

    with pytest.raises(OtlpError, match="smaller batches"):
        otlp.check(bomb, None, "gzip")


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(OtlpError, match="smaller batches"):
        otlp.check(bytes(otlp.MAX_BYTES + 1), None, None)


# Ids


@pytest.mark.parametrize(
    ("trace_id", "span_id"),
    [
        ("0" * 32, SPAN),
        (TRACE, "0" * 16),
        ("", SPAN),
        (TRACE, ""),
        (TRACE[2:], SPAN),
        (TRACE, TRACE),
    ],
    ids=["zero trace", "zero span", "no trace", "no span", "short trace", "long span"],
)
def test_spans_whose_ids_are_no_ids_are_rejected_and_the_rest_kept(
    trace_id: str, span_id: str
) -> None:
    good = one_span("1" * 32)

    checked = otlp.check(encoded(one_span(trace_id, span_id), good), None, None)

    assert (checked.span_count, checked.rejected_spans) == (1, 1)
    assert checked.span_counts == {good.trace_id: 1}
    assert "16 bytes" in (checked.reason or "")
    assert checked.columns.spans() == [good]


@pytest.mark.parametrize("digits", ["xyz", "CAFE", 7, None, TRACE[:-1]])
def test_an_id_that_is_no_hex_rejects_its_span_only(digits: object) -> None:
    tree = orjson.loads(json_body(BODY))
    spans = tree["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append(spans[0] | {"traceId": digits})

    checked = otlp.check(orjson.dumps(tree), otlp.JSON, None)

    assert (checked.span_count, checked.rejected_spans) == (1, 1)


def test_traces_are_rooted_by_a_span_without_parent_or_of_a_server() -> None:
    parent = "9" * 16
    spans = {
        "1" * 32: one_span("1" * 32, kind=SpanKind.INTERNAL),
        "2" * 32: one_span("2" * 32, parent_id=parent, kind=SpanKind.SERVER),
        "3" * 32: one_span("3" * 32, parent_id="0" * 16, kind=SpanKind.CLIENT),
        "4" * 32: one_span("4" * 32, parent_id=parent, kind=SpanKind.CLIENT),
    }

    checked = otlp.check(encoded(*spans.values()), None, None)

    assert checked.span_counts.keys() == spans.keys()
    assert checked.rooted == spans.keys() - {"4" * 32}


def test_unknown_fields_are_passed_over() -> None:
    strange = BODY + b"\xf8\x07\x01"  # field 127

    assert otlp.check(strange, None, None).columns.spans() == [SENT]


# Answers


def test_full_success_is_an_empty_answer_in_the_senders_format() -> None:
    checked = otlp.check(BODY, None, None)

    assert otlp.acceptance(checked, None) == otlp.OtlpAnswer(body=b"", content_type=otlp.PROTOBUF)
    assert otlp.acceptance(checked, otlp.JSON) == otlp.OtlpAnswer(
        body=b"{}", content_type=otlp.JSON
    )


def test_rejected_spans_are_a_partial_success() -> None:
    checked = otlp.check(encoded(one_span("0" * 32)), None, None)

    answer = otlp.acceptance(checked, "application/x-protobuf")

    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, checked.reason)
    assert orjson.loads(otlp.acceptance(checked, otlp.JSON).body) == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": checked.reason}
    }


def test_a_refusal_is_a_status_in_the_senders_format() -> None:
    binary = otlp.refusal("too much", otlp.RESOURCE_EXHAUSTED, "text/plain")
    text = otlp.refusal("too much", otlp.RESOURCE_EXHAUSTED, otlp.JSON)

    assert Status.FromString(binary.body) == Status(code=8, message="too much")
    assert orjson.loads(text.body) == {"code": 8, "message": "too much"}


# Bodies with next to nothing in them


def nested(tag: int, content: bytes) -> bytes:
    """A field of protobuf that holds a message."""
    size, length = len(content), b""
    while size > 127:
        size, length = size >> 7, length + bytes((size & 127 | 128,))
    return bytes((tag,)) + length + bytes((size,)) + content


RESOURCES, RESOURCE, ENTITY, SCOPES, SPANS = 0x0A, 0x0A, 0x1A, 0x12, 0x12
TOO_MANY = MOST_PARTS + 1


@pytest.mark.parametrize(
    "body",
    [
        lambda: b"\x0a\x00" * TOO_MANY,
        lambda: nested(RESOURCES, b"\x12\x00" * TOO_MANY),
        lambda: nested(RESOURCES, nested(SCOPES, b"\x12\x00" * TOO_MANY)),
        lambda: nested(RESOURCES, nested(SCOPES, nested(SPANS, b"\x4a\x00" * TOO_MANY))),
    ],
    ids=["resources", "scopes", "spans", "attributes"],
)
def test_more_parts_than_any_batch_has_are_refused(body: Callable[[], bytes]) -> None:
    with pytest.raises(OtlpError, match="send smaller batches"):
        otlp.check(body(), None, None)


@pytest.mark.parametrize(
    "body",
    few(
        1,
        [
            lambda: nested(
                RESOURCES, nested(SCOPES, nested(SPANS, b"\x4a\x02\x12\x00" * 3_000_000))
            ),
            lambda: nested(
                RESOURCES, b"\x0a\x02\x1a\x00" * 3_000_000
            ),  # a resource again and again
            lambda: nested(RESOURCES, nested(RESOURCE, nested(ENTITY, b"\x1a\x00" * 5_000_000))),
        ],
    ),
    ids=["values", "resources", "texts"],
)
def test_parts_are_counted_before_they_are_decoded(
    body: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "ExportTraceServiceRequest", Undecoded)

    with pytest.raises(OtlpError, match="send smaller batches"):
        otlp.check(body(), None, None)


class Undecoded:
    """A request that cannot be decoded."""

    DESCRIPTOR = ExportTraceServiceRequest.DESCRIPTOR


@pytest.mark.parametrize(
    "body",
    [
        lambda: b'{"resourceSpans":[' + b",".join([b"{}"] * 2_000_001) + b"]}",
        lambda: b'{"resourceSpans":[' + b",".join([b'""'] * 600_000) + b"]}",
        lambda: b'{"resourceSpans":[{"a":[' + b",".join([b"[0]"] * 300_000) + b"]}]}",
    ],
    ids=["objects", "texts", "lists"],
)
def test_more_json_than_any_batch_has_is_refused(body: Callable[[], bytes]) -> None:
    with pytest.raises(OtlpError, match="send smaller batches"):
        otlp.check(body(), otlp.JSON, None)


@given(message=st.binary(max_size=300), most=st.integers(0, 40))
def test_any_bytes_can_be_counted(message: bytes, most: int) -> None:
    has_more_parts(message, ExportTraceServiceRequest, most)


@given(counts=st.lists(st.integers(0, 5), max_size=4), most=st.integers(0, 40))
def test_every_message_within_is_counted(counts: list[int], most: int) -> None:
    message = ExportTraceServiceRequest()
    parts = 0
    for spans in counts:
        scope = message.resource_spans.add().scope_spans.add()
        parts += 2 + 4 * spans
        for _ in range(spans):
            span = scope.spans.add()
            span.attributes.add().value.array_value.values.add()
            parts += 1

    found = has_more_parts(message.SerializeToString(), ExportTraceServiceRequest, most)

    assert found == (parts > most)


@pytest.mark.parametrize("body", [bytes(64_000_000), b"\n" * 64_000_000, b"\x08\x00" * 32_000_000])
def test_a_body_without_messages_is_soon_known_to_be_one(body: bytes) -> None:
    looked: list[int] = []

    class Counted(bytes):
        """Bytes that know how many of them were looked at one by one."""

        def __getitem__(self, at: int) -> int:  # type: ignore[override] # never a slice
            looked.append(at)
            return super().__getitem__(at)

    has_more_parts(Counted(body), ExportTraceServiceRequest, 1_000)

    assert len(looked) < 10_000


def test_very_many_spans_without_ids_are_rejected_in_linear_time() -> None:
    body = nested(RESOURCES, nested(SCOPES, b"\x12\x00" * 300_000)) + BODY

    checked = otlp.check(body, None, None)

    assert (checked.span_count, checked.rejected_spans) == (1, 300_000)


@pytest.mark.parametrize("name", ["", " ", "\u200b", "\n"])
def test_a_service_whose_name_nobody_can_see_is_unknown(name: str) -> None:
    sent = encoded(replace(SENT, service=name, instance=name, version=name))

    [found] = otlp.check(sent, None, None, capture_content=True).columns.spans()
    [plain] = otlp.check(json_body(sent), otlp.JSON, None, capture_content=True).columns.spans()

    assert found == plain
    assert (found.service, found.instance, found.version) == (NAMELESS, None, None)


def test_blanks_around_a_name_are_part_of_it() -> None:
    [found] = otlp.check(encoded(replace(SENT, service="emp ")), None, None).columns.spans()

    assert found.service == "emp "
