"""Metrics of requests, sent by a real service to a real receiver of OTLP metrics."""

import signal
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from latencytrace.errors import SettingsError
from latencytrace.model import Span, SpanKind, Stage, semconv
from latencytrace.service.app import serve
from latencytrace.settings import service_settings
from tests.support.agent.receiving import Receiver
from tests.support.builders.metric_points import Point, points
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

MS = 1_000_000
ROOT = "00000000000000a1"
GENERATION = "00000000000000a2"
LATE = "00000000000000a3"
HTTP = "http.server.request.duration"
GEN_AI = "gen_ai.server.request.duration"
FIRST_TOKEN = "gen_ai.server.time_to_first_token"
TOKEN = "gen_ai.server.time_per_output_token"
STAGE = "latencytrace.request.stage.duration"


def chat(trace_id: str) -> list[Span]:
    """A request of 100 ms that generates 11 tokens in 60 ms, the first of them after 20 ms."""
    start_ns = time.time_ns() - 1000 * MS
    root = one_span(
        trace_id,
        ROOT,
        start_ns=start_ns,
        end_ns=start_ns + 100 * MS,
        attributes={
            semconv.HTTP_REQUEST_METHOD: "POST",
            semconv.HTTP_ROUTE: "/chat",
            semconv.URL_SCHEME: "http",
            semconv.HTTP_RESPONSE_STATUS_CODE: 200,
            semconv.SERVER_ADDRESS: "127.0.0.1",
            semconv.SERVER_PORT: 8000,
            semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 0.05,
        },
    )
    generation = one_span(
        trace_id,
        GENERATION,
        parent_id=ROOT,
        name="chat tiny",
        kind=SpanKind.INTERNAL,
        start_ns=start_ns + 30 * MS,
        end_ns=start_ns + 100 * MS,
        attributes={
            semconv.STAGE: Stage.DECODE.value,
            semconv.GEN_AI_OPERATION_NAME: "chat",
            semconv.GEN_AI_PROVIDER_NAME: "transformers",
            semconv.GEN_AI_REQUEST_MODEL: "tiny",
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 11,
        },
    )
    return [root, generation]


def last(receiver: Receiver, name: str) -> Point:
    """The newest point of a metric."""
    until(lambda: bool(points(receiver.reports, name)))
    return points(receiver.reports, name)[-1]


def told_stages(receiver: Receiver) -> dict[str, Point]:
    """The points of stages that came with an exemplar, which is sent once."""
    told = [point for point in points(receiver.reports, STAGE) if point.traces]
    return {str(point.attributes["latencytrace.stage"]): point for point in told}


def test_a_requests_metrics_reach_the_receiver(tmp_path: Path, receiver: Receiver) -> None:
    env = {
        "LATENCYTRACE_METRICS_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE,  # for agents, not for the service
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }
    with RunningService(tmp_path / "data", env=env) as service:
        trace_id = uuid4().hex
        service.post(otlp(*chat(trace_id)))
        http, gen_ai = last(receiver, HTTP), last(receiver, GEN_AI)

    assert (http.service, http.count) == ("rag", 1)
    assert http.sum == pytest.approx(0.1)
    assert http.instance.startswith("latencytrace@")
    assert http.attributes == {
        "http.request.method": "POST",
        "http.route": "/chat",
        "url.scheme": "http",
        "http.response.status_code": 200,
    }
    assert gen_ai.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "transformers",
        "gen_ai.request.model": "tiny",
        "server.address": "127.0.0.1",
        "server.port": 8000,
    }
    assert last(receiver, FIRST_TOKEN).sum == pytest.approx(0.05)
    assert last(receiver, TOKEN).sum == pytest.approx(0.007)  # as the model decoded
    until(lambda: len(told_stages(receiver)) == 2)
    stages = told_stages(receiver)
    assert {stage: point.sum for stage, point in stages.items()} == {
        "unattributed": pytest.approx(0.03),
        "decode": pytest.approx(0.07),
    }
    assert http.traces | {trace for point in stages.values() for trace in point.traces} == {
        trace_id
    }


@pytest.mark.long
def test_the_end_sends_what_was_not_sent_yet_and_a_late_span_counts_no_request_twice(
    tmp_path: Path, receiver: Receiver
) -> None:
    env = {
        "LATENCYTRACE_METRICS_ENDPOINT": receiver.endpoint,
        "OTEL_METRIC_EXPORT_INTERVAL": "3600000",  # never, before the end
    }
    with RunningService(tmp_path / "data", env=env) as service:
        trace_id = uuid4().hex
        root, generation = chat(trace_id)
        service.post(otlp(root, generation))
        service.request(trace_id)
        service.post(otlp(replace(generation, span_id=LATE, end_ns=generation.end_ns - 10 * MS)))
        service.request(trace_id, revision=2)
        before = len(receiver.reports)

        assert service.end(signal.SIGTERM) == 0

    assert before == 0
    for name in (HTTP, GEN_AI):
        (point,) = points(receiver.reports, name)
        assert (point.count, point.traces) == (1, frozenset({trace_id}))


@pytest.mark.long
def test_a_receiver_that_is_not_there_stops_nothing(tmp_path: Path) -> None:
    env = {
        "LATENCYTRACE_METRICS_ENDPOINT": NOWHERE,
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "0.1",
    }
    with RunningService(tmp_path / "data", env=env) as service:
        trace_id = uuid4().hex
        service.post(otlp(*chat(trace_id)))

        service.request(trace_id)
        until(lambda: service.metric("latencytrace_service_metrics_unsent_total") > 0)
        assert service.end(signal.SIGTERM) == 0


def test_a_service_that_would_send_to_itself_does_not_start(tmp_path: Path) -> None:
    port = free_port()
    settings = service_settings(
        folder=tmp_path,
        listen="127.0.0.1:0",
        otlp_http=f"127.0.0.1:{port}",
        otlp_grpc="off",
        environ={"LATENCYTRACE_METRICS_ENDPOINT": f"http://localhost:{port}"},
    )

    with pytest.raises(SettingsError, match="this service's own receiver"):
        serve(settings, lambda *_: None, insecure=False)
