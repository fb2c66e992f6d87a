"""How a call over gRPC ends, whatever becomes of its spans."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from latencytrace.errors import OtlpError, OverloadedError, SettingsError, StoreError
from latencytrace.service.ingest.grpc import EXPORT, GrpcReceiver
from latencytrace.service.ingest.intake import MAX_BYTES_READ, Intake
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.traces import CheckedRequest
from latencytrace.service.reports.gpu_samplers import MetricReports
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.fakes.contracts import FakeClock

SPANS = otlp(one_span())
Call = Callable[[bytes], Awaitable[bytes]]


def kept(_: CheckedRequest) -> Future[None]:
    """At once."""
    future: Future[None] = Future()
    future.set_result(None)
    return future


def failing(error: Exception) -> Callable[[CheckedRequest], Future[None]]:
    """A submit of which this becomes."""

    def submit(_: CheckedRequest) -> Future[None]:
        future: Future[None] = Future()
        future.set_exception(error)
        return future

    return submit


def answered(
    act: Callable[[Call, GrpcReceiver], Awaitable[None]],
    submit: Callable[[CheckedRequest], Future[None]],
    max_bytes: int = MAX_BYTES_READ,
) -> Telemetry:
    """Let `act` call a receiver, and return what was counted."""
    telemetry = Telemetry()

    async def run() -> None:
        reserved = socket.create_server(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        intake = Intake(submit, telemetry, max_bytes=max_bytes)
        receiver = GrpcReceiver(intake, MetricReports.of(FakeClock()), reserved, None)
        await receiver.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await act(channel.unary_unary(EXPORT), receiver)
        await receiver.stop(0)
        await receiver.stopped()

    asyncio.run(run())
    return telemetry


def refusal(
    submit: Callable[[CheckedRequest], Future[None]], max_bytes: int = MAX_BYTES_READ
) -> tuple[grpc.aio.AioRpcError, Telemetry]:
    errors = []

    async def act(call: Call, _: GrpcReceiver) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(SPANS)
        errors.append(caught.value)

    telemetry = answered(act, submit, max_bytes)
    return errors[0], telemetry


def refused_count(telemetry: Telemetry, code: str) -> float | None:
    return telemetry.registry.get_sample_value(
        "latencytrace_service_posts_refused_total", {"code": code}
    )


@pytest.mark.parametrize(
    ("error", "code", "counted"),
    [
        (OverloadedError("too much waits"), grpc.StatusCode.RESOURCE_EXHAUSTED, "429"),
        (StoreError("the disk is full"), grpc.StatusCode.UNAVAILABLE, "503"),
    ],
)
def test_what_can_be_sent_again_is_told_when(
    error: Exception, code: grpc.StatusCode, counted: str
) -> None:
    refused, telemetry = refusal(failing(error))

    trailers = dict(refused.trailing_metadata())
    told = Status.FromString(trailers["grpc-status-details-bin"])
    retry = RetryInfo()
    assert (refused.code(), refused.details()) == (code, str(error))
    assert (told.code, told.message) == (code.value[0], str(error))
    assert told.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1
    assert refused_count(telemetry, counted) == 1


def test_what_the_engine_cannot_read_is_not_to_be_sent_again() -> None:
    refused, telemetry = refusal(failing(OtlpError("no")))

    assert (refused.code(), refused.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "no")
    assert "grpc-status-details-bin" not in dict(refused.trailing_metadata())
    assert refused_count(telemetry, "400") == 1


def test_more_bytes_than_may_be_read_at_once_come_again_later() -> None:
    refused, telemetry = refusal(kept, max_bytes=len(SPANS) - 1)

    assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" in dict(refused.trailing_metadata())
    assert refused_count(telemetry, "429") == 1


def test_a_call_under_way_at_the_end_is_answered() -> None:
    keeping: Future[None] = Future()
    taken = asyncio.Event()
    answers = []

    def submit(_: CheckedRequest) -> Future[None]:
        taken.set()
        return keeping

    async def act(call: Call, receiver: GrpcReceiver) -> None:
        calling = asyncio.ensure_future(call(SPANS))
        await taken.wait()
        ending = asyncio.ensure_future(receiver.stop(30))
        await asyncio.sleep(0)
        assert not receiver.is_started
        assert not calling.done()
        keeping.set_result(None)
        answers.append(await calling)
        await ending

    answered(act, submit)

    assert answers == [b""]


def test_an_address_taken_in_the_meantime_is_an_error_that_names_it() -> None:
    reserved = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{reserved.getsockname()[1]}"
    intake = Intake(kept, Telemetry())
    receiver = GrpcReceiver(intake, MetricReports.of(FakeClock()), reserved.dup(), None)

    async def start() -> None:
        await receiver.start()

    with reserved, pytest.raises(SettingsError, match=address):
        asyncio.run(start())
