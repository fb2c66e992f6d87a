"""A loop that one request holds, under the servers that are no ASGI servers, and under uvloop."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest
import uvloop
from aiohttp import web
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.grpc_server import GrpcServerHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.runtime_gaps import LOOP
from latencytrace.model import semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans, hooked
from tests.support.servers.grpc_calls import SERVICE, Methods, async_serving
from tests.support.servers.serving import get

HELD_S = 0.2
HELD_NS = round(HELD_S * 1e9)
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


class Pair:
    """`other` waits for `one`, which lets it go and then holds the loop."""

    def __init__(self) -> None:
        self.arrived, self.go_on = asyncio.Event(), asyncio.Event()

    async def other(self) -> None:
        """Wait."""
        self.arrived.set()
        await self.go_on.wait()

    async def one(self) -> None:
        """Hold the loop; in the first step, if the other is there already."""
        await self.arrived.wait()
        self.go_on.set()
        time.sleep(HELD_S)  # noqa: ASYNC251 - what is tested
        await asyncio.sleep(0)  # it goes on, too


async def under_aiohttp(pair: Pair) -> None:
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
        other = asyncio.create_task(asyncio.to_thread(get, f"{address}/other"))
        await pair.arrived.wait()  # `one` holds the loop in its first step, which may be eager
        await asyncio.gather(other, asyncio.to_thread(get, f"{address}/one"))
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


async def under_grpc(pair: Pair) -> None:
    async with (
        async_serving(PairHandlers(pair)) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        calls = (
            channel.unary_unary(f"/{SERVICE}/unary_unary_{which}") for which in ("one", "other")
        )
        await asyncio.gather(*(call(b"") for call in calls))


def traced(new_loop: NewLoop, serve: Callable[[Pair], Awaitable[None]]) -> Spans:
    """Serve a pair."""

    async def main() -> None:
        await serve(Pair())

    with hooked(EventLoopHook, AiohttpHook, GrpcServerHook) as spans:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())
        assert spans.recorder.open_requests.open == set()
    return spans


def waited_ns(span: RecordedSpan) -> int:
    packed = str(span.attributes.get(semconv.RUNTIME_GAPS, ""))
    return sum(end - start for name, start, end in unpack_named(packed, 0) if name == LOOP)


@pytest.mark.usefixtures("late_is_in_time")
@LOOPS
@pytest.mark.parametrize("serve", [under_aiohttp, under_grpc])
def test_who_waits_for_a_held_loop_has_a_gap_and_who_holds_it_none(
    new_loop: NewLoop, serve: Callable[[Pair], Awaitable[None]]
) -> None:
    spans = traced(new_loop, serve)

    served = (span for span in spans.all if span.kind is SpanKind.SERVER)
    one, other = sorted(served, key=waited_ns)
    assert waited_ns(other) >= HELD_NS
    # It may have waited, too, yet not while it held the loop itself.
    assert waited_ns(one) <= one.ended_ns - one.started_ns - HELD_NS


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
