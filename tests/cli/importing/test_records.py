"""What a file to import holds, found by its content."""

import gzip
import io
import json
import zlib
from collections.abc import Callable

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.cli.importing.chunks import Record, Unread, plain_chunks
from latencytrace.cli.importing.records import records
from latencytrace.model import Span
from tests.support.builders.spans.otlp_messages import message, one_span, otlp
from tests.support.builders.trace_files import (
    jaeger_json,
    otlp_json,
    otlp_json_lines,
    otlp_tree,
    prefixed_protobuf,
)

SPANS = [one_span(span_id=f"{number:016x}") for number in range(1, 4)]

Writer = Callable[..., str | bytes]


def read(body: str | bytes) -> tuple[list[str], list[str]]:
    """The ids of the spans that could be read, and what is said of the rest."""
    packed = io.BytesIO(body.encode() if isinstance(body, str) else body)
    pieces = list(records(plain_chunks(packed, lambda _: None)))
    found = [span for piece in pieces if isinstance(piece, Record) for span in _ids(piece.message)]
    return found, [f"{one.place}: {one.reason}" for one in pieces if isinstance(one, Unread)]


def _ids(request: ExportTraceServiceRequest) -> list[str]:
    return [
        span.span_id.hex()
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


ALL = [span.span_id for span in SPANS]


def jaeger(*spans: Span) -> str:
    return jaeger_json(spans)


def pretty(*spans: Span) -> str:
    return json.dumps(otlp_tree(*spans), indent=2)


def tempo(*spans: Span) -> str:
    """As its `/api/traces/ID` answers: protobuf's JSON, with ids in base64."""
    return json.dumps({"batches": MessageToDict(message(spans))["resourceSpans"]})


def tempo_v2(*spans: Span) -> str:
    return json.dumps({"trace": MessageToDict(message(spans)), "metrics": {"inspectedBytes": "7"}})


def pretty_in_a_row(*spans: Span) -> str:
    return "\n".join(map(pretty, spans))


def listed(*spans: Span) -> str:
    return json.dumps([otlp_tree(span) for span in spans])


def one_jaeger_trace(*spans: Span) -> str:
    return json.dumps(json.loads(jaeger_json(spans))["data"][0])


def answers_of_jaeger(*spans: Span) -> str:
    return json.dumps([json.loads(jaeger_json([span])) for span in spans])


def snake_case(*spans: Span) -> str:
    text = otlp_json(*spans)
    return text.replace("resourceSpans", "resource_spans").replace("scopeSpans", "scope_spans")


FORMATS: list[Writer] = [
    otlp, prefixed_protobuf, otlp_json, otlp_json_lines, pretty, pretty_in_a_row, listed,
    snake_case, tempo, tempo_v2, jaeger, one_jaeger_trace, answers_of_jaeger,
]  # fmt: skip
formats = pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)


@formats
def test_every_format_is_found_by_its_content(write: Writer) -> None:
    assert read(write(*SPANS)) == (ALL, [])


@formats
def test_every_format_may_be_compressed(write: Writer) -> None:
    body = write(*SPANS)
    packed = body.encode() if isinstance(body, str) else body
    middle = len(packed) // 2
    members = gzip.compress(packed[:middle]) + gzip.compress(packed[middle:])

    assert read(members) == (ALL, [])


def test_a_length_of_protobuf_that_looks_like_json_is_none() -> None:
    for length in range(40, 300):  # among them those of `{`, `[` and `"`
        sent = message([one_span(name="x" * length)])
        sent.resource_spans[0].ClearField("resource")

        found, unread = read(sent.SerializeToString())
        assert (len(found), unread) == (1, [])


@formats
def test_what_stands_before_a_cut_is_kept(write: Writer) -> None:
    body = write(*SPANS)

    found, unread = read(body[: len(body) * 3 // 4])
    assert found in (ALL[:1], ALL[:2], [])
    assert len(unread) == 1


def test_the_lines_of_a_collector_that_was_killed_are_kept() -> None:
    body = otlp_json_lines(*SPANS)

    found, unread = read(body[:-30] + "\n" + otlp_json_lines(SPANS[0]))
    assert found == [*ALL[:2], ALL[0]]
    assert unread[0].startswith("line 3: not JSON: ")


def test_a_line_cut_between_two_values_costs_no_other_line() -> None:
    found, unread = read('{"resourceSpans": [\n' + otlp_json_lines(*SPANS))

    assert found == ALL
    assert len(unread) == 1


def test_a_gzip_cut_off_gives_what_it_holds() -> None:
    body = otlp_json_lines(*SPANS * 500)
    packed = gzip.compress(body.encode())

    found, unread = read(packed[: len(packed) // 2])
    assert len(found) > 300
    assert unread == [f"line {len(found) + 1}: the gzip ends too early"]


def test_a_damaged_gzip_gives_what_stands_before() -> None:
    packed = bytearray(gzip.compress(otlp_json_lines(*SPANS).encode()))
    packed[-8] ^= 0xFF  # of its check sum

    found, unread = read(bytes(packed))
    assert found == ALL[: len(found)]
    assert unread[0].endswith(
        "the gzip is damaged: Error -3 while decompressing data: incorrect data check"
    )


def test_broken_protobuf_behind_a_length_costs_no_other() -> None:
    bodies = [otlp(SPANS[0]), b"\x0a\x7fnot at all", otlp(SPANS[1])]
    prefixed = b"".join(len(body).to_bytes(4) + body for body in bodies)

    found, [unread] = read(prefixed)
    assert found == ALL[:2]
    assert unread.startswith(f"byte {len(bodies[0]) + 4}: not OTLP: ")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "byte 0: the file is empty"),
        (b"hello", "byte 0: neither OTLP (JSON, protobuf) nor Jaeger's JSON"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "zstd"),
        (bytes(3) + b"\x10\x28\xb5\x2f\xfd" + bytes(20), "zstd"),
        ('{"resourceMetrics": []}', "line 1: it holds metrics, not traces"),
        ('{"resourceLogs": []}', "line 1: it holds logs, not traces"),
        ('{"a": 1, "b": 2}', "line 1: neither OTLP nor Jaeger: its keys are 'a', 'b'"),
        ('{"data": [7]}', "line 1: neither OTLP nor Jaeger: no JSON object"),
        ('[{"data": [7]}]', "line 1: neither OTLP nor Jaeger: an item of `data` is no trace"),
        (
            '{"data": null, "errors": [{"code": 404, "msg": "trace not found"}]}',
            "line 1: it is an error of Jaeger's: trace not found",
        ),
        ('{"resourceSpans": [7]}', "line 1: neither OTLP nor Jaeger: no JSON object"),
        ('{"resourceSpans": [{"scopeSpans": 7}]}', "line 1: the body is not an OTLP trace"),
        ('{"info": {}, "data": {"spans": []}}', "line 1: neither OTLP nor Jaeger: its keys are"),
        (b"\n\n \n", "byte 0: the file is empty"),
        (bytes((len(otlp(SPANS[0])) % 128 | 128, 1)) + otlp(SPANS[0]), "lengths as varints"),
        ('{"resourceSpans": 7}', "line 1: the body is not an OTLP trace request in JSON"),
        ('{"spans": 7, "traceID": ""}', "line 1: not Jaeger's JSON"),
    ],
)
def test_what_is_neither_is_named(body: str | bytes, said: str) -> None:
    found, [unread] = read(body)

    assert found == []
    assert said in unread


@pytest.mark.parametrize("body", ["{}", '{"resourceSpans": []}', '{"data": [], "errors": null}'])
def test_a_file_without_spans_is_no_fault(body: str) -> None:
    assert read(body) == ([], [])


@given(st.binary(max_size=300), st.sampled_from([b"", b"\x0a", b"\0\0\0\x09\x0a", b"{", b"[{"]))
def test_any_bytes_are_read_or_named(body: bytes, beginning: bytes) -> None:
    found, unread = read(beginning + body)

    assert found or unread or not (beginning + body).strip(b" \r\n{}[]\0")


@given(st.data())
def test_a_damaged_file_is_read_to_its_end(data: st.DataObject) -> None:
    write = data.draw(st.sampled_from(FORMATS))
    body = write(*SPANS)
    packed = bytearray(body.encode() if isinstance(body, str) else body)
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))

    read(bytes(packed))


def test_a_bomb_is_read_in_pieces() -> None:
    packed = zlib.compress(bytes(50_000_000), wbits=31)

    assert max(len(chunk) for chunk in plain_chunks(io.BytesIO(packed), lambda _: None)) <= 262_144
