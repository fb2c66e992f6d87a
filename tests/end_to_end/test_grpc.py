"""OTLP over gRPC, into the service as senders meet it."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind as SdkSpanKind

from latencytrace.model import semconv
from latencytrace.service.ingest.grpc import EXPORT, EXPORT_METRICS
from latencytrace.service.otlp.traces import MAX_BYTES
from tests.support.builders.spans.otlp_messages import message, one_span
from tests.support.servers.running_service import RunningService
from tests.support.waiting import PATIENCE_S

TOKEN = "correct horse"
LONG = (("grpc.max_send_message_length", -1),)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("grpc") / "data") as running:
        yield running


@pytest.fixture
def trace_id() -> str:
    return uuid4().hex


@pytest.fixture
def channel(service: RunningService) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(service.otlp_grpc, options=LONG) as opened:
        yield opened


def exported(
    channel: grpc.Channel,
    request: ExportTraceServiceRequest,
    metadata: tuple[tuple[str, str], ...] = (),
    compression: grpc.Compression | None = None,
) -> ExportTraceServiceResponse:
    answer: ExportTraceServiceResponse = TraceServiceStub(channel).Export(  # type: ignore[no-untyped-call] # generated
        request, metadata=metadata, compression=compression, timeout=PATIENCE_S
    )
    return answer


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_what_the_stock_exporter_sends_is_attributed(
    service: RunningService, compression: grpc.Compression
) -> None:
    provider = TracerProvider(resource=Resource.create({semconv.SERVICE_NAME: "stock-grpc"}))
    exporter = OTLPSpanExporter(service.otlp_grpc, insecure=True, compression=compression)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with (
        tracer.start_as_current_span("POST /chat", kind=SdkSpanKind.SERVER) as span,
        tracer.start_as_current_span("search", attributes={semconv.STAGE: "retrieve"}),
    ):
        pass
    provider.shutdown()

    found = service.request(f"{span.get_span_context().trace_id:032x}")

    assert found["service"] == "stock-grpc"
    assert set(found["ledger"]) == {"retrieve", "unattributed"}  # type: ignore[call-overload] # a document


def test_good_spans_beside_bad_ones_are_kept(
    service: RunningService, channel: grpc.Channel, trace_id: str
) -> None:
    sent = message([one_span(trace_id), one_span(trace_id)])
    sent.resource_spans[1].scope_spans[0].spans[0].span_id = b"short"

    partial = exported(channel, sent).partial_success

    assert partial.rejected_spans == 1
    assert "span id" in partial.error_message
    assert service.request(trace_id)


def test_what_is_no_otlp_is_refused_with_the_reason(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(EXPORT)(b"\xff\xff\xff", timeout=PATIENCE_S)

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "protobuf" in refused.value.details()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_too_large_is_refused(
    channel: grpc.Channel, compression: grpc.Compression
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(EXPORT)(
            bytes(MAX_BYTES + 1), compression=compression, timeout=PATIENCE_S
        )

    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(refused.value.trailing_metadata())


def test_logs_are_not_taken_and_the_sender_is_told(
    service: RunningService, channel: grpc.Channel
) -> None:
    method = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(method)(b"", timeout=PATIENCE_S)

    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert EXPORT in refused.value.details()
    assert service.metric("latencytrace_service_posts_refused_total") >= 1


def test_metrics_that_are_no_agents_are_rejected_by_partial_success(
    channel: grpc.Channel,
) -> None:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="mine")
    metric.gauge.data_points.add(as_int=1)

    answer = channel.unary_unary(EXPORT_METRICS)(request.SerializeToString(), timeout=PATIENCE_S)

    partial = ExportMetricsServiceResponse.FromString(answer).partial_success
    assert partial.rejected_data_points == 1


@pytest.mark.long
def test_off_loopback_a_token_is_asked_for(tmp_path: Path, trace_id: str) -> None:
    env = {"LATENCYTRACE_TOKEN": TOKEN}
    request = message([one_span(trace_id)])
    with RunningService(tmp_path / "data", "--otlp-grpc", "0.0.0.0:0", env=env) as service:
        address = service.otlp_grpc.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - asked on loopback
        with grpc.insecure_channel(address) as channel:
            with pytest.raises(grpc.RpcError) as none:
                exported(channel, request)
            with pytest.raises(grpc.RpcError) as wrong:
                exported(channel, request, (("authorization", "Bearer wrong"),))
            exported(channel, request, (("authorization", f"bearer  {TOKEN}"),))
        assert service.request(trace_id)

    assert none.value.code() is wrong.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "LATENCYTRACE_TOKEN" in none.value.details()


@pytest.mark.long
def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path, trace_id: str) -> None:
    with RunningService(tmp_path / "data") as first:
        with grpc.insecure_channel(first.otlp_grpc) as channel:
            exported(channel, message([one_span(trace_id)]))
        first.end(signal.SIGKILL)
    with RunningService(tmp_path / "data") as second:
        assert second.request(trace_id)


@pytest.mark.long
def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data", "--otlp-grpc", "off") as service:
        assert "gRPC" not in service.said()
        assert service.end() == 0
