"""A post with a bad value keeps its spans, says what was mended, and names who sent it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from latencytrace.service.ingest.grpc import EXPORT
from latencytrace.service.otlp.traces import JSON
from tests.support.builders.spans.otlp_messages import message, root_lately
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.running_service import RunningService
from tests.support.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("strange") / "data") as running:
        yield running


def bad(trace_id: str) -> bytes:
    request = message([root_lately(trace_id)])
    request.resource_spans[0].scope_spans[0].spans[0].name = "GET /BAD?"
    return request.SerializeToString().replace(b"BAD?", b"B\xff\xfe!")


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_a_bad_name_costs_no_span_of_the_post(service: RunningService, way: str) -> None:
    own, other = ("a" * 32, "b" * 32) if way == "http" else ("c" * 32, "d" * 32)
    body = message([root_lately(other)]).SerializeToString() + bad(own)

    if way == "http":
        assert service.post(body).status_code == 200
    else:
        with grpc.insecure_channel(service.otlp_grpc) as channel:
            answer = channel.unary_unary(EXPORT)(body, timeout=PATIENCE_S)
        assert not ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans

    assert service.request(own)["route"] == "GET /B\ufffd\ufffd!"
    assert service.request(other)["route"] == "POST /chat"
    assert service.metric("latencytrace_service_mended_values_total") >= 1


def test_half_a_character_in_json_costs_no_span(service: RunningService) -> None:
    span = (
        '{"traceId": "%s", "spanId": "aaaaaaaaaaaaaaaa", "name": "GET /\\ud83d", '
        '"startTimeUnixNano": "%d", "endTimeUnixNano": "%d"}'
    )
    start_ns = root_lately("e" * 32).start_ns
    told = span % ("e" * 32, start_ns, start_ns + 1000)
    body = f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{told}]}}]}}]}}'

    assert service.post(body.encode(), {"content-type": JSON}).status_code == 200

    assert service.request("e" * 32)["route"] == "GET /\ufffd"


def test_the_doctor_names_who_sends_bad_texts(service: RunningService, tmp_path: Path) -> None:
    assert service.post(bad("f" * 32)).status_code == 200

    done = subprocess.run(
        [*COMMAND, "doctor", "--all", "--url", service.url],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )

    assert "texts that are no UTF-8" in done.stdout, done.stdout + done.stderr
    assert "sent by" in done.stdout
    assert "'rag'" in done.stdout
