"""Content stays out of the data folder, whoever sent it; and is there where it was asked for."""

import json
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from latencytrace.model.semconv import CONTENT_REMOVED as MARK
from tests.support.builders.spans.otlp_messages import any_value, key_values, message, one_span
from tests.support.over_all import over_all
from tests.support.secrets.content_keys import ADDRESSES, HARMLESS, KEYS, SAID
from tests.support.secrets.data_folder import DataFolder
from tests.support.servers.command_line import environment
from tests.support.servers.running_service import RunningService

ROOT = Path(__file__).parents[2]
PLACES = ("attribute", "array", "map", "event", "link", "resource")
FORMATS = ("protobuf", "json")
OTHER_PLACES = (
    "status", "status after a type", "name", "event name", "long value", "JSON value",
    "unknown array", "unknown map", "unknown bytes", "address in an unknown key",
)  # fmt: skip
NAME = "GET https://example/x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a service kept of all that was sent to it."""

    folder: DataFolder
    trace: dict[str, object]  # of harmless attributes
    removed: float  # as the metric has it
    instrumented: str  # what the service answers about the instrumented program

    def holds(self, secret: str) -> bool:
        """Whether a secret is anywhere in the folder."""
        return self.folder.holds(secret)


def secret(*where: object) -> str:
    """A text of its own for each place, without what JSON or SQL would escape."""
    return f"xyzzy{blake2b('/'.join(map(str, where)).encode(), digest_size=8).hexdigest()}"


def trace_of(number: int) -> str:
    return f"{number:032x}"


def a_span(number: int) -> tuple[ExportTraceServiceRequest, ProtoSpan]:
    now_ns = time.time_ns() - 10**9
    request = message([one_span(trace_of(number), start_ns=now_ns, end_ns=now_ns + 1000)])
    return request, request.resource_spans[0].scope_spans[0].spans[0]


def requests_with(how: str) -> Iterator[ExportTraceServiceRequest]:
    """Secrets under every key, in every place of a span."""
    for place in PLACES:
        request, span = a_span(len(PLACES) * FORMATS.index(how) + PLACES.index(place) + 1)
        link = span.links.add(trace_id=b"t" * 16, span_id=b"s" * 8)
        taker = {
            "event": span.events.add(name="said").attributes,
            "link": link.attributes,
            "resource": request.resource_spans[0].resource.attributes,
        }.get(place, span.attributes)
        for key in KEYS:
            said = secret(how, place, key)
            value = taker.add(key=key).value
            if place == "array":
                value.CopyFrom(any_value(("first", said)))
            elif place == "map":
                value.kvlist_value.values.add(key="text").value.string_value = said
            else:
                value.string_value = said
        yield request


def other_places(how: str) -> ExportTraceServiceRequest:
    """Secrets in what is no attribute, and under keys that nobody knows."""
    request, span = a_span(100 + FORMATS.index(how))
    said = {place: secret(how, place) for place in OTHER_PLACES}
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = said["status"]
    span.name = f"{NAME}?q={said['name']}"
    span.events.add(name=f"fetched /y?q={said['event name']}")
    span.attributes.extend(
        key_values(
            {
                "mine.long": "x" * 250 + said["long value"],
                "mine.json": json.dumps({"a": said["JSON value"]}),
                "mine.array": (said["unknown array"],),
                "mine.bytes": said["unknown bytes"].encode(),
                "mine.address": f"https://host/?q={said['address in an unknown key']}",
                **{
                    key: f"https://{secret(how, key, 'user')}:x@host/path"
                    f"?q={secret(how, key)}#{secret(how, key, 'fragment')}"
                    for key in ADDRESSES
                },
            }
        )
    )
    nested = span.attributes.add(key="mine.map").value.kvlist_value.values
    nested.add(key="a").value.string_value = said["unknown map"]
    failed = request.resource_spans[0].scope_spans[0].spans.add()
    failed.CopyFrom(span)
    failed.span_id = b"12345678"
    failed.parent_span_id = span.span_id
    failed.status.message = f"ValueError: {said['status after a type']}"
    return request


def sent(service: RunningService, how: str) -> None:
    for request in (*requests_with(how), other_places(how)):
        answer = service.post(*encoded(request, how))
        assert answer.is_success, answer.text


def encoded(request: ExportTraceServiceRequest, how: str) -> tuple[bytes, dict[str, str]]:
    if how == "protobuf":
        return request.SerializeToString(), {"content-type": "application/x-protobuf"}
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for part in (span, *span.get("links", ())):
            for key in {"traceId", "spanId", "parentSpanId"} & part.keys():
                part[key] = b64decode(part[key]).hex()
    return json.dumps(document).encode(), {"content-type": "application/json"}


def filled(services: Sequence[RunningService]) -> Iterator[Kept]:
    """What each service keeps of one and the same spans."""
    for service in services:
        for how in FORMATS:
            sent(service, how)
        harmless, span = a_span(200)
        span.attributes.extend(key_values(HARMLESS))
        span.status.message = "openai.BadRequestError: no"
        service.post(harmless.SerializeToString())
    traces = said_by_the_instrumented_program(services)
    for service in services:
        divided = [service.request(trace_id) for trace_id in traces]
        trace = service.request(trace_of(200))
        for number in (1, 8, 100):
            service.request(trace_of(number))
        removed = service.metric("latencytrace_service_content_removed_total")
        service.end()
        yield Kept(
            folder=DataFolder.read(service.folder),
            trace=trace,
            removed=removed,
            instrumented=json.dumps(divided),
        )


def said_by_the_instrumented_program(services: Sequence[RunningService]) -> list[str]:
    """The ids of its traces, once all of its spans are sent."""
    program = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.programs.instrumented_program"),
            *(service.otlp for service in services),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=100,
        check=False,
        cwd=ROOT,
    )
    assert program.returncode == 0, program.stderr
    return program.stdout.split()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kept, ...]:
    """Anybody's, and that of somebody who asked for content."""
    path = tmp_path_factory.mktemp("content")
    environ = {"LATENCYTRACE_CAPTURE_CONTENT": "1"}
    with (
        RunningService(path / "out", ready=False) as plain,
        RunningService(path / "in", env=environ) as open_,
    ):
        plain.wait_until_ready()
        return tuple(filled((plain, open_)))


@pytest.fixture
def usual(kept: tuple[Kept, ...]) -> Kept:
    """As anybody's."""
    return kept[0]


@pytest.fixture
def asked_for(kept: tuple[Kept, ...]) -> Kept:
    """Of somebody who asked for content."""
    return kept[1]


@pytest.mark.parametrize("how", FORMATS)
@over_all("key", KEYS)
def test_content_under_a_known_key_is_nowhere(usual: Kept, key: str, how: str) -> None:
    assert [place for place in PLACES if usual.holds(secret(how, place, key))] == []


@pytest.mark.parametrize("place", OTHER_PLACES)
@pytest.mark.parametrize("how", FORMATS)
def test_content_in_other_places_is_nowhere(usual: Kept, place: str, how: str) -> None:
    assert not usual.holds(secret(how, place))


@pytest.mark.parametrize("key", ADDRESSES)
@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("part", [(), ("user",), ("fragment",)])
def test_what_an_address_tells_is_nowhere(
    usual: Kept, key: str, how: str, part: tuple[str, ...]
) -> None:
    assert not usual.holds(secret(how, key, *part))


@pytest.mark.parametrize("said", SAID)
def test_what_real_instrumentations_send_is_nowhere(usual: Kept, said: str) -> None:
    assert not usual.holds(said)
    assert said not in usual.instrumented


@pytest.mark.parametrize("how", FORMATS)
@over_all("key", KEYS)
def test_content_is_kept_where_it_was_asked_for(asked_for: Kept, key: str, how: str) -> None:
    assert [place for place in PLACES if not asked_for.holds(secret(how, place, key))] == []


@pytest.mark.parametrize("said", SAID)
def test_what_real_instrumentations_send_can_be_kept(asked_for: Kept, said: str) -> None:
    assert asked_for.holds(said)


@pytest.mark.parametrize("place", OTHER_PLACES)
def test_other_content_can_be_kept(asked_for: Kept, place: str) -> None:
    assert asked_for.holds(secret("protobuf", place))


def test_nothing_is_removed_where_content_was_asked_for(asked_for: Kept) -> None:
    assert (asked_for.removed, MARK in asked_for.folder.rows) == (0, False)


def test_what_is_removed_is_counted_and_marked(usual: Kept) -> None:
    assert usual.removed > len(KEYS)
    assert MARK in usual.folder.rows


@pytest.mark.parametrize("key", HARMLESS)
def test_what_is_harmless_stays(usual: Kept, key: str) -> None:
    attributes = usual.trace["spans"][0]["attributes"]  # type: ignore[index] # a document

    assert attributes[key] == HARMLESS[key]


@pytest.mark.parametrize("key", ADDRESSES[:3])
def test_an_address_stays_without_its_query(usual: Kept, key: str) -> None:
    assert f'"{key}":"https:\\/\\/host\\/path"' in usual.folder.rows


def test_the_type_of_a_fault_stays(usual: Kept) -> None:
    assert '"StatusMessage":"openai.BadRequestError"' in usual.folder.rows
    assert '"exception.type":"openai.BadRequestError"' in usual.folder.rows


def test_a_name_stays_without_its_query(usual: Kept) -> None:
    assert '"SpanName":"GET https:\\/\\/example\\/x"' in usual.folder.rows


def test_spans_of_real_instrumentations_still_find_their_stages(usual: Kept) -> None:
    assert {"remote_model", "retrieve", "tool"} <= {
        stage for request in json.loads(usual.instrumented) for stage in request["ledger"]
    }
