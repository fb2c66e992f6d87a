"""Metrics sent to real receivers, over HTTP and gRPC, and to none."""

import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
)

from latencytrace.errors import SettingsError
from latencytrace.model import Stage, semconv
from latencytrace.service.metrics import sender as metrics_sender
from latencytrace.service.metrics.endpoint import MetricsEndpoint
from latencytrace.service.metrics.sender import sending_metrics
from tests.support.agent.receiving import Receiver
from tests.support.builders.made_requests import TRACE, made_request
from tests.support.builders.metric_points import Point, points
from tests.support.waiting import until

STAGE = "latencytrace.request.stage.duration"
SECOND_NS = 1_000_000_000


class Failures:
    """Count the times that metrics could not be sent."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        """Count one more."""
        self.count += 1


class GrpcReceiver(MetricsServiceServicer):
    """Takes metrics over gRPC with the stock server."""

    def __init__(self, port: int) -> None:
        self.endpoint = MetricsEndpoint(url=f"http://127.0.0.1:{port}", grpc=True)
        self.reports: list[ExportMetricsServiceRequest] = []

    def Export(  # noqa: N802 - the contract
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        """Keep them."""
        del context
        self.reports.append(request)
        return ExportMetricsServiceResponse()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def grpc_receiver() -> Iterator[GrpcReceiver]:
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        receiver = GrpcReceiver(server.add_insecure_port("127.0.0.1:0"))
        add_MetricsServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call] # generated
        server.start()
        yield receiver
        server.stop(0).wait()


@contextmanager
def hanging() -> Iterator[str]:
    """An address that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/metrics"


def over_http(url: str) -> MetricsEndpoint:
    return MetricsEndpoint(url=url, grpc=False)


def sent_by_the_end(
    endpoint: MetricsEndpoint, reports: list[ExportMetricsServiceRequest], *services: str
) -> list[Point]:
    """The points of a request of each service, which the end sends."""
    failures = Failures()
    with sending_metrics(endpoint, instance="latencytrace@here", failed=failures) as record:
        record([made_request(stages={Stage.DECODE: SECOND_NS}, service=name) for name in services])
    assert failures.count == 0
    return points(reports, STAGE)


def test_each_service_has_a_resource_of_its_own(receiver: Receiver) -> None:
    endpoint = over_http(f"{receiver.endpoint}/v1/metrics")

    found = sent_by_the_end(endpoint, receiver.reports, "rag", "search")

    assert [(point.service, point.instance) for point in found] == [
        ("rag", "latencytrace@here"),
        ("search", "latencytrace@here"),
    ]
    assert all(semconv.SERVICE_NAME not in point.attributes for point in found)
    assert [(point.count, point.sum, point.unit) for point in found] == [(1, 1.0, "s")] * 2
    assert {point.traces for point in found} == {frozenset({TRACE})}


def test_over_grpc_they_are_the_same(grpc_receiver: GrpcReceiver) -> None:
    found = sent_by_the_end(grpc_receiver.endpoint, grpc_receiver.reports, "rag", "search")

    assert [(point.service, point.sum) for point in found] == [("rag", 1.0), ("search", 1.0)]


def test_over_grpc_many_points_are_sent_in_several_posts(
    grpc_receiver: GrpcReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_sender, "MOST_POINTS", 2)

    found = sent_by_the_end(grpc_receiver.endpoint, grpc_receiver.reports, *"abcde")

    assert [point.service for point in found] == ["a", "b", "c", "d", "e"]
    assert len(grpc_receiver.reports) == 3


@pytest.mark.parametrize(
    ("name", "value", "kind", "temporality"),
    [
        ("TEMPORALITY_PREFERENCE", "delta", "histogram", AGGREGATION_TEMPORALITY_DELTA),
        (
            "DEFAULT_HISTOGRAM_AGGREGATION",
            "base2_exponential_bucket_histogram",
            "exponential_histogram",
            AGGREGATION_TEMPORALITY_CUMULATIVE,
        ),
    ],
)
def test_histograms_are_as_the_sdks_variables_say(
    name: str,
    value: str,
    kind: str,
    temporality: int,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_METRICS_{name}", value)

    sent_by_the_end(over_http(f"{receiver.endpoint}/v1/metrics"), receiver.reports, "rag")

    (metric,) = receiver.reports[0].resource_metrics[0].scope_metrics[0].metrics
    assert metric.WhichOneof("data") == kind
    assert getattr(metric, kind).aggregation_temporality == temporality


def test_they_are_sent_again_and_again(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    endpoint = over_http(f"{receiver.endpoint}/v1/metrics")

    def counts() -> set[int]:
        return {point.count for point in points(receiver.reports, STAGE)}

    with sending_metrics(endpoint, instance="here", failed=Failures()) as record:
        record([made_request()])
        until(lambda: counts() >= {1})
        record([made_request()])
        until(lambda: counts() >= {1, 2})


def test_headers_of_metrics_are_sent(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20ours")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=Bearer%20theirs")
    endpoint = over_http(f"{receiver.endpoint}/v1/metrics")

    sent_by_the_end(endpoint, receiver.reports, "rag")

    assert [headers["authorization"] for headers in receiver.report_headers] == ["Bearer theirs"]


def test_a_receiver_that_is_not_there_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failures = Failures()

    with (
        caplog.at_level(logging.CRITICAL, "opentelemetry"),
        sending_metrics(
            over_http(f"http://127.0.0.1:{port}/v1/metrics"), instance="here", failed=failures
        ) as record,
    ):
        record([made_request()])

    assert failures.count == 1


def test_the_log_says_once_why_they_are_not_sent_and_when_they_are_again(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    failures = Failures()
    receiver.report_status = 400

    with sending_metrics(
        over_http(f"{receiver.endpoint}/v1/metrics"), instance="here", failed=failures
    ) as record:
        record([made_request()])
        until(lambda: failures.count >= 3)
        receiver.report_status = 200
        until(lambda: "metrics are sent again" in caplog.messages)

    refused = [message for message in caplog.messages if "400" in message]
    assert len(refused) == 1
    assert caplog.messages.count("metrics are sent again") == 1


@pytest.mark.parametrize("is_grpc", [False, True], ids=["http", "grpc"])
def test_a_receiver_that_hangs_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, is_grpc: bool
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "10")
    monkeypatch.setattr(metrics_sender, "GRACE_MS", 200)

    # It is given up after an hour: neither the recording nor the end waits for that.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "3600")
    with hanging() as url, caplog.at_level(logging.CRITICAL, "opentelemetry"):
        endpoint = MetricsEndpoint(url=url, grpc=is_grpc)
        with sending_metrics(endpoint, instance="here", failed=Failures()) as record:
            for number in range(100):
                record([made_request(route=f"GET /{number}")])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "sometimes"),
    ],
)
def test_what_the_sdk_cannot_read_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    with (
        pytest.raises(SettingsError, match="metrics cannot be sent over OTLP"),
        sending_metrics(over_http("http://otel"), instance="here", failed=Failures()),
    ):
        pass
