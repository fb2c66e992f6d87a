"""The hook of gRPC's servers, called by real clients."""

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio
import pytest
from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorServer, GrpcInstrumentorServer
from opentelemetry.trace import SpanKind, StatusCode, format_span_id

from latencytrace.agent.hooks.grpc_server import GrpcServerHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, interval_stages, intervals_of
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.grpc_calls import (
    KINDS,
    REQUEST,
    SERVICE,
    Arrivals,
    AsyncHandlers,
    Handlers,
    Methods,
    answers,
    async_answers,
    async_serving,
    serving,
)
from tests.support.waiting import PATIENCE_S, until

HOOKS = (GrpcServerHook,)
TRACEPARENT = (("traceparent", f"00-{'1' * 32}-{'2' * 16}-01"),)
Call = Callable[[str], list[bytes]]


def answered(method: str, handlers: Methods | None = None) -> list[bytes]:
    """What a server in threads answers."""
    with serving(handlers) as address, grpc.insecure_channel(address) as channel:
        return answers(channel, method, TRACEPARENT)


def answered_async(method: str, handlers: Methods | None = None) -> list[bytes]:
    """What a server of asyncio's answers."""

    async def call() -> list[bytes]:
        async with (
            async_serving(handlers) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            return await async_answers(channel, method, TRACEPARENT)

    return asyncio.run(call())


both = pytest.mark.parametrize("call", [answered, answered_async], ids=["threads", "asyncio"])


@both
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_one_server_span_that_its_handler_runs_in(
    spans: Spans, call: Call, kind: str
) -> None:
    messages = call(kind)

    spans.wait_for(1)
    assert (spans.only.name, spans.only.kind) == (f"{SERVICE}/{kind}", SpanKind.SERVER)
    assert set(messages) == {format_span_id(spans.only.span_id).encode()}


@both
def test_a_span_is_the_callers_child_and_says_nothing_of_what_was_sent(
    spans: Spans, call: Call
) -> None:
    call("unary_unary")

    spans.wait_for(1)
    assert spans.only.parent is not None
    assert (spans.only.trace_id, spans.only.parent.span_id) == (
        int("1" * 32, 16),
        int("2" * 16, 16),
    )
    attributes = dict(spans.only.attributes)
    attributes.pop(semconv.INTERVALS, None)
    assert attributes == {
        semconv.RPC_SYSTEM_NAME: "grpc",
        semconv.RPC_METHOD: f"{SERVICE}/unary_unary",
        semconv.RPC_RESPONSE_STATUS_CODE: "OK",
        semconv.CONCURRENCY: 1,
    }
    assert "secret" not in attribute_text(spans)


@both
@pytest.mark.parametrize(
    ("method", "code", "error", "status"),
    [
        ("missing", "NOT_FOUND", "NOT_FOUND", StatusCode.UNSET),
        ("unavailable", "UNAVAILABLE", "UNAVAILABLE", StatusCode.ERROR),
        ("broken", "UNKNOWN", "LookupError", StatusCode.ERROR),
    ],
)
def test_a_status_passes_through_and_is_noted(
    spans: Spans, call: Call, method: str, code: str, error: str, status: StatusCode
) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        call(method)

    spans.wait_for(1)
    assert raised.value.code().name == code
    assert spans.only.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == code
    assert spans.only.attributes[semconv.ERROR_TYPE] == error
    assert spans.only.status.status_code is status
    assert "secret" not in attribute_text(spans)


def test_a_method_that_nobody_implements_makes_no_span(spans: Spans) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        answered("nobody_implements_this")

    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert spans.all == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_without_asyncio_is_timed_in_a_server_of_asyncios(
    spans: Spans, kind: str
) -> None:
    messages = answered_async(kind, Handlers())

    spans.wait_for(1)
    assert set(messages) == {format_span_id(spans.only.span_id).encode()}


def test_an_answer_that_is_written_instead_of_yielded_is_timed(spans: Spans) -> None:
    messages = answered_async("unary_stream_written")

    assert set(messages) == {format_span_id(spans.only.span_id).encode()}


class Plain(Handlers):
    """Streams from a function that is no generator itself, as decorators leave it."""

    def unary_stream(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Three answers."""
        return super().unary_stream(request, context)


def test_a_streaming_function_that_is_no_generator_is_timed_to_the_last_message(
    spans: Spans,
) -> None:
    messages = answered("unary_stream", Plain())

    spans.wait_for(1)
    assert set(messages) == {format_span_id(spans.only.span_id).encode()}


# --- time


class Gated(Handlers):
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def unary_unary(self, _: bytes, __: grpc.ServicerContext) -> bytes:
        """One answer."""
        self.open.wait(PATIENCE_S)
        return b""


def test_waiting_for_a_worker_is_queue_time(spans: Spans) -> None:
    gated, arrivals = Gated(), Arrivals()
    with (
        serving(gated, workers=1, interceptors=[arrivals]) as address,
        grpc.insecure_channel(address) as channel,
        ThreadPoolExecutor(2) as callers,
    ):
        calls = [callers.submit(answers, channel, "unary_unary") for _ in range(2)]
        until(lambda: len(arrivals.metadata) == 2)
        both_there_ns = time.monotonic_ns()
        gated.open.wait(0.02)  # nobody opens it
        opened_ns = time.monotonic_ns()
        gated.open.set()
        concurrent.futures.wait(calls)

    spans.wait_for(2)
    assert queued_ns(spans.all[1]) >= opened_ns - both_there_ns


def queued_ns(span: RecordedSpan) -> int:
    return sum(i.end_ns - i.start_ns for i in intervals_of(span) if i.stage is Stage.QUEUE)


@both
@pytest.mark.parametrize(
    ("kind", "stages"),
    [
        ("unary_stream", {Stage.RESPOND}),
        ("stream_unary", {Stage.NETWORK}),
        ("stream_stream", {Stage.NETWORK, Stage.RESPOND}),
    ],
)
def test_waits_for_the_caller_are_intervals_and_no_spans(
    spans: Spans, call: Call, kind: str, stages: set[str]
) -> None:
    call(kind)

    spans.wait_for(1)
    found = interval_stages(spans.only)
    assert found & {Stage.NETWORK, Stage.RESPOND} == stages


# --- calls that end early


class Endless(Handlers):
    """Goes on until nobody listens."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()

    def unary_unary(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer too late."""
        self.has_begun.set()
        while context.is_active() or context.time_remaining() > 0:
            threading.Event().wait(0.001)
        return b""

    def unary_stream(self, _: bytes, __: grpc.ServicerContext) -> Iterator[bytes]:
        """Never ask whether anybody listens."""
        while True:
            yield b"."


class AsyncEndless(AsyncHandlers):
    """The same for asyncio."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()

    async def unary_unary(self, _: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Be cancelled."""
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            while context.time_remaining() > 0:
                threading.Event().wait(0.001)
        return b""


def left(address: str, method: str) -> None:
    """Call, read one message, and leave."""
    with grpc.insecure_channel(address) as channel:
        messages = channel.unary_stream(f"/{SERVICE}/{method}")(REQUEST)
        next(messages)
        messages.cancel()


def late(address: str, has_begun: threading.Event) -> None:
    """Call and give up after a while, or a longer one if the call had not begun by then."""
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(PATIENCE_S)
        for timeout_s in (0.3, 3.0, PATIENCE_S):
            with contextlib.suppress(grpc.RpcError):
                channel.unary_unary(f"/{SERVICE}/unary_unary")(REQUEST, timeout=timeout_s)
            if has_begun.is_set():
                break


@pytest.mark.parametrize("method", ["unary_stream_endless", "unary_stream"])
def test_a_caller_that_leaves_ends_the_call_as_cancelled(spans: Spans, method: str) -> None:
    with serving(Endless()) as address:
        left(address, method)
        spans.wait_for(1)

    assert spans.only.attributes[semconv.CANCELLED] is True
    assert spans.only.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "CANCELLED"


def test_a_caller_that_leaves_a_server_of_asyncios_ends_the_call_as_cancelled(
    spans: Spans,
) -> None:
    async def serve() -> None:
        async with async_serving() as address:
            await asyncio.to_thread(left, address, "unary_stream_endless")
            await asyncio.to_thread(spans.wait_for, 1)

    asyncio.run(asyncio.wait_for(serve(), PATIENCE_S))

    assert spans.only.attributes[semconv.CANCELLED] is True


def test_a_deadline_that_passes_is_the_calls_status(spans: Spans) -> None:
    endless = Endless()
    with serving(endless) as address:
        late(address, endless.has_begun)
        spans.wait_for(1)

    assert {span.attributes[semconv.ERROR_TYPE] for span in spans.all} == {"DEADLINE_EXCEEDED"}
    assert {span.status.status_code for span in spans.all} == {StatusCode.ERROR}


def test_a_deadline_that_passes_with_asyncio_is_the_calls_status(spans: Spans) -> None:
    async def serve() -> None:
        endless = AsyncEndless()
        async with async_serving(endless) as address:
            await asyncio.to_thread(late, address, endless.has_begun)
            await asyncio.to_thread(spans.wait_for, 1)

    asyncio.run(asyncio.wait_for(serve(), 2 * PATIENCE_S))

    assert {span.attributes[semconv.ERROR_TYPE] for span in spans.all} == {"DEADLINE_EXCEEDED"}


# --- beside others


@both
@pytest.mark.parametrize("kind", KINDS)
def test_contribs_instrumentation_doubles_nothing(
    agent: TracedProgram, call: Call, kind: str
) -> None:
    instrumentors = [GrpcInstrumentorServer(), GrpcAioInstrumentorServer()]
    for instrumentor in instrumentors:
        instrumentor.instrument()
    try:
        call(kind)
    finally:
        for instrumentor in instrumentors:
            instrumentor.uninstrument()

    (server,) = [span for span in agent.spans(at_least=2) if span.kind is SpanKind.SERVER]
    assert server.scope.startswith("opentelemetry.instrumentation.grpc")


@both
def test_a_client_and_its_server_are_one_trace(agent: TracedProgram, call: Call) -> None:
    call("stream_stream")

    client, server = agent.named(f"{SERVICE}/stream_stream", 2)
    assert (client.kind, server.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert client.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "OK"


def test_an_interceptor_of_the_programs_sees_the_call_as_ever(spans: Spans) -> None:
    arrivals = Arrivals()

    with (
        serving(interceptors=[arrivals]) as address,
        grpc.insecure_channel(address) as channel,
    ):
        answers(channel, "unary_unary")

    spans.wait_for(1)
    assert len(arrivals.metadata) == 1


def test_an_interceptor_of_the_programs_works_in_the_trace_of_who_calls(spans: Spans) -> None:
    arrivals = Arrivals()
    caller = (("traceparent", f"00-{1:032x}-{2:016x}-01"),)

    with (
        serving(interceptors=[arrivals]) as address,
        grpc.insecure_channel(address) as channel,
    ):
        answers(channel, "unary_unary", metadata=caller)
        answers(channel, "unary_unary")

    spans.wait_for(2)
    assert arrivals.trace_ids == [1, 0]
