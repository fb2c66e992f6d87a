"""The service as senders and readers meet it: a real process, real OTLP, real answers."""

import csv
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind as SdkSpanKind

from latencytrace.model import Link, Span, Stage, semconv
from tests.support.builders.spans.otlp_messages import child, message, one_span, otlp
from tests.support.few import few
from tests.support.servers.command_line import latencytrace
from tests.support.servers.running_service import PROTOBUF, RunningService
from tests.support.waiting import PATIENCE_S, until

MS = 1_000_000
ROOT = "00000000000000a1"
CHILD = "00000000000000a2"
LATE_CHILD = "00000000000000a3"
TOKEN = "correct horse"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One for the tests that leave it as it is."""
    with RunningService(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running


@pytest.fixture
def trace_id() -> str:
    return uuid4().hex


def root(trace_id: str, duration_ms: int = 100) -> Span:
    now_ns = time.time_ns() - 1000 * MS
    return one_span(trace_id, ROOT, start_ns=now_ns, end_ns=now_ns + duration_ms * MS)


def test_a_shared_step_answers_for_all_its_members(service: RunningService) -> None:
    asked = [root(uuid4().hex), root(uuid4().hex)]
    served = [child(one, CHILD, Stage.FORWARD, 10, 60) for one in asked]
    step = replace(
        root(uuid4().hex, 50),
        span_id=uuid4().hex[:16],
        attributes={semconv.STAGE: "forward", semconv.SHARED: True},
        links=tuple(Link(trace_id=one.trace_id, span_id=one.span_id) for one in served),
    )
    to_step = Link(trace_id=step.trace_id, span_id=step.span_id)
    members = [replace(one, links=(to_step,)) for one in served]
    assert service.post(otlp(step, *asked, *members)).is_success

    (shared,) = cast(list[dict[str, Any]], service.request(asked[0].trace_id)["shared_steps"])
    service.request(asked[1].trace_id)
    found = cast(dict[str, Any], service.ask(f"/steps/{step.span_id}"))

    assert (shared["span_id"], shared["share_ns"]) == (step.span_id, 25 * MS)
    assert [one["trace_id"] for one in shared["largest_others"]] == [asked[1].trace_id]
    assert {(one["trace_id"], one["share_ns"]) for one in found["members"]} == {
        (one.trace_id, 25 * MS) for one in asked
    }
    assert service.get("/api/v1/steps/xyz").status_code == 400


def test_who_starts_it_is_told_how_to_reach_it(service: RunningService) -> None:
    said = service.said()

    assert f"run --endpoint {service.otlp} -- COMMAND, then " in said
    assert f"breakdown --url {service.url}\n" in said


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/api/v1/services", "/metrics"])
def test_a_probe_by_head_is_answered_as_by_get_without_a_body(
    service: RunningService, path: str
) -> None:
    with httpx.Client(base_url=service.url) as client:  # one connection for both
        answers = [client.head(path), client.get(path), client.head("/nowhere")]

    assert [one.status_code for one in answers] == [200, 200, 404]
    assert answers[0].content == b""
    assert answers[0].headers["content-type"] == answers[1].headers["content-type"]


def test_what_the_stock_exporter_sends_is_attributed(service: RunningService) -> None:
    provider = TracerProvider(resource=Resource.create({semconv.SERVICE_NAME: "stock"}))
    exporter = OTLPSpanExporter(endpoint=f"{service.otlp}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with (
        tracer.start_as_current_span("POST /chat", kind=SdkSpanKind.SERVER) as span,
        tracer.start_as_current_span("search", attributes={semconv.STAGE: "retrieve"}),
    ):
        time.sleep(0.01)
    provider.shutdown()

    found = service.request(f"{span.get_span_context().trace_id:032x}")
    ledger = found["ledger"]
    assert isinstance(ledger, dict)
    assert ledger["retrieve"] >= 10 * MS
    assert sum(ledger.values()) == found["duration_ns"]
    assert [span["name"] for span in found["spans"]] == ["POST /chat", "search"]  # type: ignore[attr-defined] # a list


def test_compressed_spans_are_taken(service: RunningService, trace_id: str) -> None:
    answer = service.post_gzip(otlp(root(trace_id)))

    assert answer.status_code == 200
    assert service.request(trace_id)["duration_ns"] == 100 * MS


def test_spans_in_json_are_taken(service: RunningService, trace_id: str) -> None:
    document = json_format.MessageToDict(message([root(trace_id)]))
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span.update(traceId=trace_id, spanId=ROOT)  # OTLP writes ids in hex, unlike protobuf's JSON
    answer = service.post(json.dumps(document).encode(), {"content-type": "application/json"})

    assert (answer.status_code, answer.json()) == (200, {})
    assert service.request(trace_id)["duration_ns"] == 100 * MS


def test_good_spans_beside_bad_ones_are_kept(service: RunningService, trace_id: str) -> None:
    sent = message([root(trace_id), one_span(trace_id)])
    sent.resource_spans[1].scope_spans[0].spans[0].span_id = b"short"
    answer = service.post(sent.SerializeToString())

    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert partial.rejected_spans == 1
    assert "span id" in partial.error_message
    assert service.request(trace_id)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(b"\xff\xff\xff", PROTOBUF, id="no protobuf"),
        pytest.param(b"{", {"content-type": "application/json"}, id="no JSON"),
        pytest.param(b"no gzip", {**PROTOBUF, "content-encoding": "gzip"}, id="no gzip"),
    ],
)
def test_what_is_no_otlp_is_refused_with_the_reason(
    service: RunningService, body: bytes, headers: dict[str, str]
) -> None:
    answer = service.post(body, headers)

    reason = (
        answer.json()["message"]
        if "json" in answer.headers["content-type"]
        else Status.FromString(answer.content).message
    )
    assert answer.status_code == 400
    assert reason


def test_logs_are_not_taken_and_the_sender_is_told(service: RunningService) -> None:
    answer = service.post(b"", path="/v1/logs")

    assert answer.status_code == 404
    assert "/v1/traces" in Status.FromString(answer.content).message


@pytest.mark.parametrize("headers", [PROTOBUF, {"content-type": "application/json"}])
def test_metrics_that_are_no_agents_are_rejected_by_partial_success(
    service: RunningService, headers: dict[str, str]
) -> None:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="process.cpu").gauge.data_points.add(as_double=0.5)
    is_json = "json" in headers["content-type"]
    body = json_format.MessageToJson(request).encode() if is_json else request.SerializeToString()

    answer = service.post(body, headers, path="/v1/metrics")

    response = ExportMetricsServiceResponse()
    if is_json:
        json_format.Parse(answer.text, response)
    else:
        response.ParseFromString(answer.content)
    assert answer.status_code == 200
    assert response.partial_success.rejected_data_points == 1


@pytest.mark.parametrize("headers", [PROTOBUF, {"content-type": "application/json"}])
def test_metrics_that_are_no_otlp_are_refused(
    service: RunningService, headers: dict[str, str]
) -> None:
    assert service.post(b"\xff{", headers, path="/v1/metrics").status_code == 400


def test_a_body_too_large_is_refused_before_its_end(service: RunningService) -> None:
    host, port = service.otlp.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/x-protobuf\r\nContent-Length: 999999999\r\n\r\n"
        )
        answer = connection.recv(100)

    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_late_span_revises_its_request(service: RunningService, trace_id: str) -> None:
    span = root(trace_id)
    service.post(otlp(span))
    service.request(trace_id)
    service.post(otlp(child(span, LATE_CHILD, Stage.DECODE, 50, 90)))

    found = service.request(trace_id, revision=2)
    assert found["ledger"] == {"decode": 40 * MS, "unattributed": 60 * MS}


def test_an_open_trace_is_not_found_and_says_why(service: RunningService, trace_id: str) -> None:
    service.post(otlp(child(root(trace_id), CHILD, Stage.DECODE, 0, 50)))
    answer = service.get(f"/api/v1/requests/{trace_id}")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "still open: the span of its request has not" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        (f"/api/v1/requests/{'0' * 32}", 404, "never arrived"),
        ("/api/v1/requests/abc", 400, "32 hex digits"),
        ("/api/v1/breakdown?since=yesterday", 400, "not a valid time"),
        ("/api/v1/requests?limit=0", 400, "limit"),
        ("/api/v1/breakdown?sevice=rag", 400, "'sevice' is no parameter here: use service, route"),
        ("/api/v1/tail?limit=5", 400, "since, until, quantile"),
        ("/api/v1/ledgers?fromat=csv", 400, "since, until, format"),
        ("/api/v1/requests?order=best", 400, "order"),
        (f"/api/v1/requests/{'0' * 32}?span=1", 400, "'span' is no parameter here: use span_id"),
        ("/api/v1/compare?a=version=1&since=1h&b=version=2", 400, "'since' is no parameter here"),
        ("/api/v1/requests?service=", 400, "service is empty: "),
        ("/api/v1/compare?a=route=&b=version=2", 400, "route is empty: "),
        ("/api/v1/no_such_view", 404, "/openapi.json"),
    ],
)
def test_a_question_that_has_no_answer_is_a_problem(
    service: RunningService, path: str, status: int, detail: str
) -> None:
    answer = service.get(path)

    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem.keys() == {"type", "title", "status", "detail"}
    assert detail in problem["detail"]


def test_every_address_of_the_api_refuses_a_parameter_that_it_does_not_know(
    service: RunningService,
) -> None:
    methods = {
        (method, path)
        for path, described in service.get("/openapi.json").json()["paths"].items()
        for method in described
        if path.startswith("/api/v1/")
    }
    answers = {
        one: service.client.request(
            one[0], service.url + re.sub("{.*?}", "none", one[1]) + "?foo=1", json={}
        )
        for one in methods
    }

    said = {one: (answer.status_code, answer.text) for one, answer in answers.items()}
    assert len(methods) > 30
    assert [
        f"{method} {path}: {status} {text}"
        for (method, path), (status, text) in said.items()
        if status != 400 or "'foo' is no parameter here: " not in text
    ] == []


def test_the_breakdown_counts_what_was_sent(service: RunningService, trace_id: str) -> None:
    span = root(trace_id)
    service.post(otlp(span, child(span, CHILD, Stage.RETRIEVE, 0, 60)))
    service.request(trace_id)

    found = service.ask("/breakdown?service=rag&since=15m")
    assert found["requests"]
    assert {"service": "rag", "routes": ["POST /chat"]} in service.ask("/services")["services"]  # type: ignore[operator] # a list


@pytest.mark.parametrize(
    ("command", "answered"),
    [
        (("breakdown",), "duration_ns"),
        (("requests",), "matching"),
        (("tail",), "quantile"),
        (("capacity", "--within", "1s"), "growth"),
        (("whatif", "--stage", "decode", "--faster", "50%"), "duration_ns"),
    ],
    ids=["breakdown", "requests", "tail", "capacity", "whatif"],
)
def test_a_service_that_nobody_has_is_an_error_beside_the_document(
    command: tuple[str, ...], answered: str, service: RunningService
) -> None:
    shown = latencytrace(*command, "--service", "typo", "--json", "--url", service.url)

    assert (shown.returncode, shown.stderr.partition(".")[0]) == (
        1,
        "latencytrace: No service is called 'typo'",
    )
    assert answered in json.loads(shown.stdout)


def test_metrics_name_traces_where_openmetrics_is_accepted(
    service: RunningService, trace_id: str
) -> None:
    service.post(otlp(root(trace_id)))
    service.request(trace_id)

    plain = service.get("/metrics")
    rich = service.get("/metrics", {"accept": "application/openmetrics-text; version=1.0.0"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert trace_id not in plain.text
    assert trace_id in rich.text
    assert "_created" not in rich.text
    assert service.metric("latencytrace_service_faulty_traces_total") == 0


@pytest.mark.long
def test_metrics_stay_out_of_a_folder_that_a_program_shares(tmp_path: Path, trace_id: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    env = {"PROMETHEUS_MULTIPROC_DIR": str(shared)}
    with RunningService(tmp_path / "data", env=env) as service:
        service.post(otlp(root(trace_id)))
        rich = {"accept": "application/openmetrics-text; version=1.0.0"}
        until(lambda: trace_id in service.get("/metrics", rich).text, service.said)

    assert not list(shared.iterdir())


def test_another_host_s_name_is_refused(service: RunningService) -> None:
    api = service.get("/api/v1/services", {"host": "rebound.example"})
    receiver = service.post(b"", {**PROTOBUF, "host": "rebound.example:4318"})

    assert (api.status_code, receiver.status_code) == (421, 421)
    assert "127.0.0.1" in api.json()["detail"]


def test_the_description_of_the_api_names_its_addresses(service: RunningService) -> None:
    described = service.get("/openapi.json").json()

    assert {"/api/v1/services", "/api/v1/breakdown", "/api/v1/requests"} <= set(described["paths"])


def test_a_service_says_where_it_takes_spans(service: RunningService) -> None:
    assert service.ask("/receivers") == {"otlp_http": service.otlp}


@pytest.mark.parametrize("flag", few(1, ["--listen", "--otlp-grpc"]))
def test_a_port_in_use_is_one_sentence(service: RunningService, tmp_path: Path, flag: str) -> None:
    address = {
        "--listen": service.url.removeprefix("http://"),
        "--otlp-grpc": service.otlp_grpc,
    }[flag]
    with RunningService(tmp_path / "other", flag, address, ready=False) as second:
        code = second.exit_code()

        assert code == 1
        assert second.said().count("\n") == 1
        assert f"cannot listen on {address}: Address already in use" in second.said()
        assert flag in second.said()


@pytest.mark.long
@pytest.mark.parametrize("flag", few(1, ["--listen", "--otlp-grpc"]))
def test_off_loopback_a_token_is_needed_to_start(tmp_path: Path, flag: str) -> None:
    with RunningService(tmp_path / "data", flag, "0.0.0.0:0", ready=False) as service:
        code = service.exit_code()

        assert code == 1
        assert "LATENCYTRACE_TOKEN" in service.said()


@pytest.mark.long
def test_it_says_that_a_token_is_not_asked_for_on_loopback(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data", env={"LATENCYTRACE_TOKEN": TOKEN}) as service:
        assert service.get("/api/v1/services").status_code == 200
        assert "on loopback, at 127.0.0.1:0, no request needs it" in service.said()

    with RunningService(tmp_path / "other") as service:
        assert "nobody is asked" not in service.said()


def test_off_loopback_a_token_is_asked_for(tmp_path: Path) -> None:
    env = {"LATENCYTRACE_TOKEN": TOKEN}
    with RunningService(tmp_path / "data", "--listen", "0.0.0.0:0", env=env) as service:
        none = service.get("/api/v1/services")
        wrong = service.get("/api/v1/services", {"authorization": "Bearer wrong"})
        right = service.get("/api/v1/services", {"authorization": f"Bearer {TOKEN}"})
        probe = service.get("/healthz")

    assert (none.status_code, wrong.status_code) == (401, 401)
    assert (right.status_code, probe.status_code) == (200, 200)


def test_a_folder_in_use_is_one_sentence(tmp_path: Path) -> None:
    with (
        RunningService(tmp_path / "data") as _,
        RunningService(tmp_path / "data", ready=False) as second,
    ):
        code = second.exit_code()

        assert code == 1
        assert "Traceback" not in second.said()
        assert str(tmp_path / "data") in second.said()


def test_what_was_sent_just_before_the_end_is_attributed(tmp_path: Path, trace_id: str) -> None:
    with RunningService(tmp_path / "data") as first:
        first.post(otlp(root(trace_id)))
        code = first.end()
    with RunningService(tmp_path / "data") as second:
        found = second.request(trace_id)

    assert code == 0
    assert found["revision"] == 1


@pytest.mark.long
def test_every_acknowledged_request_outlives_a_kill(tmp_path: Path) -> None:
    acknowledged: list[str] = []

    def send_until_it_dies(service: RunningService) -> None:
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            while True:
                trace_id = uuid4().hex
                span = root(trace_id)
                body = otlp(span, child(span, CHILD, Stage.RETRIEVE, 0, 60))
                try:
                    answer = client.post(
                        f"{service.otlp}/v1/traces", content=body, headers=PROTOBUF
                    )
                except httpx.HTTPError:
                    return
                if answer.is_success:
                    acknowledged.append(trace_id)

    with RunningService(tmp_path / "data") as first:
        senders = [threading.Thread(target=send_until_it_dies, args=[first]) for _ in range(4)]
        for sender in senders:
            sender.start()
        first.request(_first(acknowledged, senders[0]))
        first.end(signal.SIGKILL)
        for sender in senders:
            sender.join()
    with RunningService(tmp_path / "data") as second:

        def listed() -> list[str] | None:
            table = second.get("/api/v1/ledgers?format=csv").text  # however many there are
            ids = [row["trace_id"] for row in csv.DictReader(table.splitlines())]
            return ids if set(acknowledged) <= set(ids) else None

        ids = until(listed, lambda: f"{len(acknowledged)} were acknowledged")

    assert len(ids) == len(set(ids))


def _first(acknowledged: list[str], sender: threading.Thread) -> str:
    while not acknowledged:
        sender.join(0.05)
    return acknowledged[0]


@pytest.mark.long
def test_a_half_written_folder_is_opened_and_said_so(tmp_path: Path, trace_id: str) -> None:
    folder = tmp_path / "data"
    with RunningService(folder) as first:
        first.post(otlp(root(trace_id)))
        first.end()
    torn = max(folder.rglob("*.bin"), key=lambda path: path.stat().st_size)
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    with RunningService(folder) as second:
        other = uuid4().hex
        second.post(otlp(root(other)))
        found = second.request(other)
        said = second.said()

    assert found["revision"] == 1
    assert "WARNING" in said, said


def test_a_service_without_objectives_says_so(service: RunningService) -> None:
    assert service.ask("/objectives") == {"objectives": [], "maintenance": []}
    assert service.ask("/alerts") == {"alerts": []}
