"""The hook of gRPC's clients, against real servers."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence

import grpc
import grpc.aio
import grpc.experimental
import pytest
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorClient, GrpcInstrumentorClient
from opentelemetry.trace import SpanKind, StatusCode, format_span_id

from latencytrace.agent.hooks.grpc_client import GrpcClientHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.grpc_calls import (
    KINDS,
    SERVICE,
    Arrivals,
    answers,
    async_answers,
    serving,
)
from tests.support.waiting import until

HOOKS = (GrpcClientHook,)
SINGLE_THREADED = ((grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_one_client_span_and_its_servers_parent(
    spans: Spans, address: str, kind: str
) -> None:
    with grpc.insecure_channel(address) as channel:
        messages = answers(channel, kind)

    spans.wait_for(1)
    assert (spans.only.name, spans.only.kind) == (f"{SERVICE}/{kind}", SpanKind.CLIENT)
    assert messages[-1].decode().split("-")[2] == format_span_id(spans.only.span_id)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_with_asyncio_is_one_client_span_too(spans: Spans, address: str, kind: str) -> None:
    async def call() -> list[bytes]:
        async with grpc.aio.insecure_channel(address) as channel:
            return await async_answers(channel, kind)

    messages = asyncio.run(call())

    assert (spans.only.name, spans.only.kind) == (f"{SERVICE}/{kind}", SpanKind.CLIENT)
    assert messages[-1].decode().split("-")[2] == format_span_id(spans.only.span_id)


def test_a_span_says_what_was_called_and_where_and_never_what_was_sent(
    spans: Spans, address: str
) -> None:
    with grpc.insecure_channel(address) as channel:
        answers(channel, "unary_unary")

    host, _, port = address.partition(":")
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.NETWORK,
        semconv.RPC_SYSTEM_NAME: "grpc",
        semconv.RPC_METHOD: f"{SERVICE}/unary_unary",
        semconv.RPC_RESPONSE_STATUS_CODE: "OK",
        semconv.SERVER_ADDRESS: host,
        semconv.SERVER_PORT: int(port),
    }


@pytest.mark.parametrize("how", ["with_call", "future"])
@pytest.mark.parametrize("kind", ["unary_unary", "stream_unary"])
def test_the_other_ways_to_call_are_timed_too(
    spans: Spans, address: str, kind: str, how: str
) -> None:
    request = b"" if kind == "unary_unary" else iter([b"a secret"] * 3)
    with grpc.insecure_channel(address) as channel:
        callee = getattr(channel, kind)(f"/{SERVICE}/{kind}")
        answer = getattr(callee, how)(request)
        _ = answer.result() if how == "future" else answer

    spans.wait_for(1)
    assert spans.only.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "OK"


@pytest.mark.parametrize("options", [(), SINGLE_THREADED], ids=["threads", "single-threaded"])
def test_a_streamed_answer_ends_its_span_with_its_last_message(
    spans: Spans, address: str, options: Sequence[tuple[str, int]]
) -> None:
    with grpc.insecure_channel(address, options) as channel:
        messages = channel.unary_stream(f"/{SERVICE}/unary_stream")(b"")
        next(messages)
        open_after_the_first = not spans.all
        list(messages)

    spans.wait_for(1)
    assert open_after_the_first


def test_a_streamed_answer_that_is_dropped_is_cancelled_and_ends_its_span(
    spans: Spans, address: str
) -> None:
    with grpc.insecure_channel(address) as channel:
        messages = channel.unary_stream(f"/{SERVICE}/unary_stream_endless")(b"")
        next(messages)

        gc.disable()  # freed at once, then: no cycle keeps it
        del messages
        until(lambda: bool(spans.all))
        gc.enable()

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_streamed_answer_left_half_way_with_asyncio_ends_its_span_with_its_channel(
    spans: Spans, address: str
) -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            messages = channel.unary_stream(f"/{SERVICE}/unary_stream_endless")(b"")
            await anext(aiter(messages))

    asyncio.run(call())

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_call_that_is_cancelled_says_so(spans: Spans, address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        messages = channel.unary_stream(f"/{SERVICE}/unary_stream_endless")(b"")
        messages.cancel()

    spans.wait_for(1)
    assert spans.only.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "CANCELLED"
    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_task_that_is_cancelled_cancels_its_call(spans: Spans, address: str) -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            messages = channel.unary_stream(f"/{SERVICE}/unary_stream_endless")(b"")
            async with asyncio.timeout(0.05):
                async for _ in messages:
                    pass

    with pytest.raises(TimeoutError):
        asyncio.run(call())

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_deadline_that_passes_is_an_error(spans: Spans, address: str) -> None:
    with (
        grpc.insecure_channel(address) as channel,
        pytest.raises(grpc.RpcError),
    ):
        list(channel.unary_stream(f"/{SERVICE}/unary_stream_endless")(b"", timeout=0.05))

    spans.wait_for(1)
    assert spans.only.attributes[semconv.ERROR_TYPE] == "DEADLINE_EXCEEDED"
    assert spans.only.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    "key", ["suppress_instrumentation", _SUPPRESS_INSTRUMENTATION_KEY], ids=["old", "new"]
)
def test_what_an_exporter_sends_is_not_traced(spans: Spans, address: str, key: str) -> None:
    token = attach(set_value(key, value=True))

    with grpc.insecure_channel(address) as channel:
        messages = answers(channel, "unary_unary")

    detach(token)
    assert messages == [b""]
    assert spans.all == []


def test_a_status_that_is_an_error_passes_through_and_is_noted(spans: Spans, address: str) -> None:
    with (
        grpc.insecure_channel(address) as channel,
        pytest.raises(grpc.RpcError) as raised,
    ):
        channel.unary_unary(f"/{SERVICE}/missing")(b"")

    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    assert spans.only.attributes[semconv.ERROR_TYPE] == "NOT_FOUND"
    assert "secret" not in attribute_text(spans)


def test_a_status_that_is_an_error_is_noted_with_asyncio_too(spans: Spans, address: str) -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            await channel.unary_unary(f"/{SERVICE}/missing")(b"")

    with pytest.raises(grpc.aio.AioRpcError):
        asyncio.run(call())

    assert spans.only.attributes[semconv.ERROR_TYPE] == "NOT_FOUND"


@pytest.mark.parametrize("kind", KINDS)
def test_the_programs_metadata_is_sent_as_well(spans: Spans, kind: str) -> None:
    arrivals = Arrivals()

    with (
        serving(interceptors=[arrivals]) as address,
        grpc.insecure_channel(address) as channel,
    ):
        answers(channel, kind, metadata=(("color", "red"),))

    spans.wait_for(1)
    assert arrivals.metadata[0]["color"] == "red"
    assert "traceparent" in arrivals.metadata[0]


def test_a_programs_own_traceparent_is_left_alone(spans: Spans, address: str) -> None:
    parent = f"00-{'1' * 32}-{'2' * 16}-01"

    with grpc.insecure_channel(address) as channel:
        messages = answers(channel, "unary_unary", metadata=(("traceparent", parent),))

    assert messages == [parent.encode()]
    assert len(spans.all) == 1


class Passing(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc] # untyped
    """An interceptor of the program's."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, bytes], Awaitable[grpc.aio.Call]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: bytes,
    ) -> grpc.aio.Call:
        """Pass it on."""
        return await continuation(client_call_details, request)


def test_an_interceptor_of_the_programs_changes_nothing(spans: Spans, address: str) -> None:
    async def call() -> list[bytes]:
        async with grpc.aio.insecure_channel(address, interceptors=[Passing()]) as channel:
            return await async_answers(channel, "unary_unary")

    (message,) = asyncio.run(call())

    assert message.decode().split("-")[2] == format_span_id(spans.only.span_id)
    assert spans.only.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "OK"


@pytest.mark.parametrize("kind", KINDS)
def test_contribs_instrumentation_doubles_nothing(
    agent: TracedProgram, address: str, kind: str
) -> None:
    instrumentor = GrpcInstrumentorClient()
    instrumentor.instrument()
    try:
        with grpc.insecure_channel(address) as channel:
            (*_, message) = answers(channel, kind)
    finally:
        instrumentor.uninstrument()

    (span,) = agent.spans(at_least=1)
    assert span.scope == "opentelemetry.instrumentation.grpc"
    assert message.decode().split("-")[2] == span.span_id


@pytest.mark.parametrize("kind", KINDS)
def test_contribs_instrumentation_of_asyncio_doubles_nothing(
    agent: TracedProgram, address: str, kind: str
) -> None:
    async def call() -> list[bytes]:
        async with grpc.aio.insecure_channel(address) as channel:
            return await async_answers(channel, kind)

    instrumentor = GrpcAioInstrumentorClient()
    instrumentor.instrument()
    try:
        asyncio.run(call())
    finally:
        instrumentor.uninstrument()

    (span,) = agent.spans(at_least=1)
    assert span.scope == "opentelemetry.instrumentation.grpc"
