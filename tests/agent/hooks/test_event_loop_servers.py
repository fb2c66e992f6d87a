"""A loop that one request holds, under the servers that are no ASGI servers, and under uvloop."""

import asyncio
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

import grpc.aio
import pytest
import uvloop
from aiohttp import web
from opentelemetry.trace import SpanKind
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.grpc_server import GrpcServerHook
from latencytrace.agent.hooks.tornado import TornadoHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.holds import Wait
from latencytrace.agent.timing.runtime_gaps import LOOP
from latencytrace.agent.toolkit.http.own_sockets import opened, sockets
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.held import HELD_NS as GATED_NS
from tests.support.agent.held import JIFFY_NS, Gate, looks_each_time
from tests.support.agent.hooked import Spans, hooked
from tests.support.servers.grpc_calls import SERVICE, Methods, async_answers, async_serving
from tests.support.servers.serving import get
from tests.support.waiting import PATIENCE_S, until

HELD_S = 0.2
HELD_NS = round(HELD_S * 1e9)
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]
BOTH = ("one", "other")  # methods of a `Pair`


class Pair:
    """`other` waits for `one`, which lets it go and then holds the loop."""

    def __init__(self) -> None:
        self.arrived, self.go_on = asyncio.Event(), asyncio.Event()

    async def other(self) -> None:
        """Wait."""
        self.arrived.set()
        await self.go_on.wait()

    async def one(self) -> None:
        """Hold the loop."""
        await self.arrived.wait()
        self.go_on.set()
        time.sleep(HELD_S)  # noqa: ASYNC251 - what is tested
        await asyncio.sleep(0)  # it goes on, too


async def under_aiohttp(pair: Pair, called: Sequence[str] = BOTH) -> None:
    async def answer(request: web.Request) -> web.Response:
        await getattr(pair, request.match_info["which"])()
        return web.Response()

    app = web.Application()
    app.router.add_get("/{which}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with asyncio.TaskGroup() as calls:
            for which in reversed(called):
                calls.create_task(asyncio.to_thread(get, f"{address}/{which}"))
                if which == "other":  # for then `one` holds the loop in its first step, if eager
                    await pair.arrived.wait()
    finally:
        await runner.cleanup()


class PairHandlers(Methods):
    """The two as methods."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    async def unary_unary_one(self, _: bytes, __: grpc.aio.ServicerContext) -> bytes:
        """See `Pair.one`."""
        await self._pair.one()
        return b""

    async def unary_unary_other(self, _: bytes, __: grpc.aio.ServicerContext) -> bytes:
        """See `Pair.other`."""
        await self._pair.other()
        return b""


async def under_tornado(pair: Pair, called: Sequence[str] = BOTH) -> None:
    class Handler(RequestHandler):
        async def get(self, which: str) -> None:
            await getattr(pair, which)()

    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/(.*)", Handler)]))
    server.add_sockets(sockets)
    try:
        address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        paths = (f"{address}/{which}" for which in called)
        await asyncio.gather(*(asyncio.to_thread(get, path) for path in paths))
    finally:
        server.stop()
        await server.close_all_connections()


async def under_grpc(pair: Pair, called: Sequence[str] = BOTH) -> None:
    async with (
        async_serving(PairHandlers(pair)) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        calls = (channel.unary_unary(f"/{SERVICE}/unary_unary_{which}") for which in called)
        await asyncio.gather(*(call(b"") for call in calls))


Serve = Callable[..., Awaitable[None]]
SERVERS = pytest.mark.parametrize("serve", [under_aiohttp, under_tornado, under_grpc])


def traced(new_loop: NewLoop, serve: Serve) -> Spans:
    """Serve a pair."""

    async def main() -> None:
        await serve(Pair())

    with hooked(EventLoopHook, AiohttpHook, TornadoHook, GrpcServerHook) as spans:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())
        assert spans.recorder.open_requests.open == set()
    return spans


def waited_ns(span: RecordedSpan) -> int:
    packed = str(span.attributes.get(semconv.RUNTIME_GAPS, ""))
    return sum(end - start for name, start, end in unpack_named(packed, 0) if name == LOOP)


@pytest.mark.usefixtures("late_is_in_time")
@LOOPS
@SERVERS
def test_who_waits_for_a_held_loop_has_a_gap_and_who_holds_it_none(
    new_loop: NewLoop, serve: Serve
) -> None:
    spans = traced(new_loop, serve)

    served = (span for span in spans.all if span.kind is SpanKind.SERVER)
    one, other = sorted(served, key=waited_ns)
    assert waited_ns(other) >= HELD_NS
    # It may have waited, too, yet not while it held the loop itself.
    assert waited_ns(one) <= one.ended_ns - one.started_ns - HELD_NS


@LOOPS
@SERVERS
def test_a_server_s_first_request_is_seen_to_hold_the_loop(
    new_loop: NewLoop, serve: Serve
) -> None:
    class Holding(Pair):
        held_ns = (0, 0)

        async def one(self) -> None:
            started_ns = monotonic_ns()
            time.sleep(HELD_S)  # noqa: ASYNC251 - what is tested
            self.held_ns = started_ns, monotonic_ns()

    async def main(spans: Spans) -> Wait | None:
        pair = Holding()
        await serve(pair, ["one"])
        return spans.recorder.open_requests.holds.wait(*pair.held_ns)

    with (
        hooked(EventLoopHook, AiohttpHook, TornadoHook, GrpcServerHook) as spans,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        wait = runner.run(main(spans))
    assert wait is not None
    assert wait.by in {span.name for span in spans.all if span.kind is SpanKind.SERVER}


@LOOPS
def test_who_holds_a_loop_between_the_messages_of_a_stream_does_not_wait_for_itself(
    new_loop: NewLoop,
) -> None:
    class Streams(Methods):
        async def unary_stream(
            self, _: bytes, __: grpc.aio.ServicerContext
        ) -> AsyncIterator[bytes]:
            """Hold the loop before the second message."""
            yield b"one"
            await asyncio.sleep(0)
            time.sleep(HELD_S)  # noqa: ASYNC251 - what is tested
            yield b"two"

    async def main(spans: Spans) -> None:
        async with (
            async_serving(Streams()) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            assert await async_answers(channel, "unary_stream") == [b"one", b"two"]
        holds = spans.recorder.open_requests.holds
        now_ns = monotonic_ns()
        held = holds.wait(now_ns - 10 * HELD_NS, now_ns)
        assert held is not None
        assert held.by == f"{SERVICE}/unary_stream"

    with (
        hooked(EventLoopHook, GrpcServerHook) as spans,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(main(spans))

    (served,) = (span for span in spans.all if span.kind is SpanKind.SERVER)
    assert waited_ns(served) <= served.ended_ns - served.started_ns - HELD_NS


def segments_at(port: int) -> int:
    """Return how many segments with bytes have come to a server of this process."""
    found = 0
    for number in sockets():
        with suppress(OSError, IndexError), opened(number) as one:  # not connected, or not by TCP
            if one.getsockname()[1] == port and one.getpeername():
                told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
                found += struct.unpack_from("=I", told, 152)[0]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when bytes came")
@LOOPS
@pytest.mark.parametrize("host", ["127.0.0.1", "[::]"])
def test_a_call_of_grpc_begins_when_it_came_though_the_loop_was_held(
    new_loop: NewLoop, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks_each_time(monkeypatch)
    gate = Gate()

    class Gated(Methods):
        async def unary_unary_holds(self, _: bytes, __: grpc.aio.ServicerContext) -> bytes:
            """Hold the loop until the other call has lain long enough."""
            gate.hold()
            return b""

        async def unary_unary_waits(self, _: bytes, __: grpc.aio.ServicerContext) -> bytes:
            """Answer at once."""
            return b""

    def call(port: int) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as one:
            holding = one.unary_unary(f"/{SERVICE}/unary_unary_holds").future(b"")
            assert gate.holds.wait(PATIENCE_S)
            own = (("grpc.use_local_subchannel_pool", 1),)
            with grpc.insecure_channel(f"127.0.0.1:{port}", own) as other:
                grpc.channel_ready_future(other).result(PATIENCE_S)
                before = segments_at(port)
                waiting = other.unary_unary(f"/{SERVICE}/unary_unary_waits").future(b"")
                until(lambda: segments_at(port) > before)  # it has come
                gate.open(monotonic_ns() + GATED_NS)
                holding.result()
                waiting.result()

    async def main() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Gated(),))
        port = server.add_insecure_port(f"{host}:0")
        await server.start()
        await asyncio.to_thread(call, port)
        await server.stop(0)

    with (
        hooked(EventLoopHook, GrpcServerHook) as spans,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(main())

    (served,) = (span for span in spans.all if span.name == f"{SERVICE}/unary_unary_waits")
    (wait,) = (span for span in spans.of(Stage.QUEUE) if span.parent_id == served.span_id)
    assert wait.name == f"event loop held by {SERVICE}/unary_unary_holds"
    assert served.started_ns == wait.started_ns
    assert gate.began_ns - JIFFY_NS <= wait.started_ns <= gate.opened_ns <= wait.ended_ns


def test_what_a_callback_of_uvloop_raises_reaches_the_loop_s_handler() -> None:
    seen: list[object] = []

    async def main(spans: Spans) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        gaps = spans.recorder.open_requests.begin(on_loop=True)
        loop.call_soon(int, "no number")
        loop.call_soon_threadsafe(int, "none either")
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        spans.recorder.open_requests.end(gaps)

    with hooked(EventLoopHook) as spans:
        uvloop.run(main(spans))

    assert [type(error) for error in seen] == [ValueError, ValueError]


def test_uvloop_is_left_as_it_was() -> None:
    before = dict(vars(uvloop.Loop))

    with hooked(EventLoopHook):
        during = dict(vars(uvloop.Loop))

    assert dict(vars(uvloop.Loop)) == before
    assert during.keys() - before.keys() == {"call_soon", "call_soon_threadsafe"}
