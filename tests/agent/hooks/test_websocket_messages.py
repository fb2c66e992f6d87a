"""Messages of WebSockets as requests, under aiohttp, Tornado and websockets."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import websockets.asyncio.server
import websockets.sync.server
from aiohttp import web
from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.tornado import TornadoHook
from latencytrace.agent.hooks.websockets import WebsocketsHook
from latencytrace.agent.toolkit import websocket_messages
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, intervals_of

httpclient = pytest.importorskip("tornado.httpclient")
httpserver = pytest.importorskip("tornado.httpserver")
netutil = pytest.importorskip("tornado.netutil")
tornado_web = pytest.importorskip("tornado.web")
websocket = pytest.importorskip("tornado.websocket")

HOOKS = (AiohttpHook, TornadoHook, WebsocketsHook)
PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
Serving = Callable[["Talk"], AbstractAsyncContextManager[str]]


class Talk:
    """What each server does with a message, and what it saw."""

    def __init__(self) -> None:
        self.traces: list[int] = []
        self.done_ns: list[int] = []

    def answers(self, message: str | bytes) -> list[str | bytes]:
        """Return what is sent for a message, one after another.

        Raises:
            LookupError: The message is `bad`.
        """
        self.traces.append(get_current_span().get_span_context().trace_id)
        if message == "bad":
            raise LookupError
        return [message] if isinstance(message, bytes) else [f"{message} 1", f"{message} 2"]

    def done(self) -> None:
        """Note that a message is answered."""
        self.done_ns.append(monotonic_ns())


@asynccontextmanager
async def aiohttp_server(talk: Talk) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        async for message in connection:
            for answer in talk.answers(message.data):
                if isinstance(answer, str):
                    await connection.send_str(data=answer)
                else:
                    await connection.send_bytes(answer)
            talk.done()
        return connection

    application = web.Application()
    application.router.add_get("/rooms/{room}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/rooms/7"
    finally:
        await runner.cleanup()


def _tornado(is_async: bool) -> Serving:
    @asynccontextmanager
    async def serving(talk: Talk) -> AsyncIterator[str]:
        class AtOnce(websocket.WebSocketHandler):  # type: ignore[misc,name-defined]
            def on_message(self, message: str | bytes) -> None:
                for answer in talk.answers(message):
                    self.write_message(answer, binary=isinstance(answer, bytes))
                talk.done()

        class Later(websocket.WebSocketHandler):  # type: ignore[misc,name-defined]
            async def on_message(self, message: str | bytes) -> None:
                await asyncio.sleep(0)
                for answer in talk.answers(message):
                    await self.write_message(answer, binary=isinstance(answer, bytes))
                talk.done()

        route = (r"/rooms/(\w+)", Later if is_async else AtOnce)
        for kind in (Later, AtOnce):
            kind.open = kind.on_close = lambda *_: None
            kind.log_exception = lambda *_: None
        server = httpserver.HTTPServer(tornado_web.Application([route]))
        (listener,) = netutil.bind_sockets(0, "127.0.0.1")
        server.add_sockets([listener])
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}/rooms/7"
        finally:
            server.stop()
            await server.close_all_connections()

    return serving


@asynccontextmanager
async def websockets_server(talk: Talk) -> AsyncIterator[str]:
    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        async for message in connection:
            for answer in talk.answers(message):
                await connection.send(answer)
            talk.done()

    async with websockets.asyncio.server.serve(handle, "127.0.0.1", 0) as server:
        (listener,) = server.sockets
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/rooms/7"


@asynccontextmanager
async def threaded_server(talk: Talk) -> AsyncIterator[str]:
    def handle(connection: websockets.sync.server.ServerConnection) -> None:
        for message in connection:
            for answer in talk.answers(message):
                connection.send(answer)
            talk.done()

    with websockets.sync.server.serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/rooms/7"
        finally:
            await asyncio.to_thread(server.shutdown)
            await asyncio.to_thread(thread.join)


SERVERS = pytest.mark.parametrize(
    ("serving", "name"),
    [
        pytest.param(aiohttp_server, "WEBSOCKET /rooms/{room}", id="aiohttp"),
        pytest.param(_tornado(is_async=False), r"WEBSOCKET /rooms/(\w+)", id="tornado"),
        pytest.param(_tornado(is_async=True), r"WEBSOCKET /rooms/(\w+)", id="tornado-async"),
        pytest.param(websockets_server, "WEBSOCKET", id="websockets"),
        pytest.param(threaded_server, "WEBSOCKET", id="websockets-threads"),
    ],
)


def said(serving: Serving, talk: Talk, *messages: str | bytes, **headers: str) -> list[object]:
    """What a server answers to messages, two to a text and one to bytes; None: it has closed."""

    async def converse() -> list[object]:
        answers = list[object]()
        async with serving(talk) as address:
            request = httpclient.HTTPRequest(address, headers=headers)
            client = await websocket.websocket_connect(request)  # a client that is not traced
            for message in messages:
                await client.write_message(message, binary=isinstance(message, bytes))
                for _ in range(1 if message == "bad" else len(Talk().answers(message))):
                    answers.append(await client.read_message())
            client.close()
            while None not in answers and await client.read_message() is not None:
                pass  # until it is closed
        return answers

    return asyncio.run(converse())


@SERVERS
def test_each_text_is_a_request_until_it_is_answered(
    spans: Spans, serving: Serving, name: str
) -> None:
    talk = Talk()

    assert said(serving, talk, "one", "two") == ["one 1", "one 2", "two 1", "two 2"]

    spans.wait_for(2)
    one, two = spans.all
    assert (one.name, two.name) == (name, name)
    assert one.kind is SpanKind.SERVER
    assert talk.traces == [one.trace_id, two.trace_id]
    assert one.started_ns < talk.done_ns[0] <= one.ended_ns <= two.started_ns
    sends = intervals_of(one)
    assert [interval.stage for interval in sends] == [Stage.RESPOND] * 2
    assert int(str(one.attributes[semconv.STREAMED_FIRST_BODY])) >= 0


@SERVERS
def test_bytes_are_no_request(spans: Spans, serving: Serving, name: str) -> None:
    talk = Talk()

    assert said(serving, talk, b"sound", "one") == [b"sound", "one 1", "one 2"]

    spans.wait_for(1)
    assert spans.only.name == name
    assert talk.traces == [0, spans.only.trace_id]


@SERVERS
def test_what_a_traced_client_says_belongs_to_its_trace(
    spans: Spans, serving: Serving, name: str
) -> None:
    talk = Talk()
    said(serving, talk, "one", traceparent=PARENT)

    assert talk.traces == [int("a" * 32, 16)]
    assert spans.all == []


@SERVERS
def test_a_message_whose_handler_raises_has_failed(
    spans: Spans, serving: Serving, name: str
) -> None:
    assert said(serving, Talk(), "bad") == [None]

    spans.wait_for(1)
    bad = spans.only
    assert bad.attributes[semconv.ERROR_TYPE] == "LookupError"


@SERVERS
def test_a_fault_of_our_own_is_counted_and_takes_no_message_away(
    spans: Spans, serving: Serving, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, counted = RuntimeError(name), list[Exception]()

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(spans.recorder, "on_fault", lambda _, raised: counted.append(raised))
    monkeypatch.setattr(websocket_messages.Messages, "asked", fail)

    assert said(serving, Talk(), b"sound") == [b"sound"]
    assert set(counted) == {fault}


def conversed(
    handle: Callable[[websockets.asyncio.server.ServerConnection], Awaitable[None]],
    *messages: str,
) -> None:
    """Send messages to a handler of websockets, and wait until it has ended."""

    async def converse() -> None:
        ended = asyncio.Event()

        async def handled(connection: websockets.asyncio.server.ServerConnection) -> None:
            try:
                await handle(connection)
            finally:
                ended.set()

        async with websockets.asyncio.server.serve(handled, "127.0.0.1", 0) as server:
            (listener,) = server.sockets
            address = f"ws://127.0.0.1:{listener.getsockname()[1]}"
            client = await websocket.websocket_connect(address)
            for message in messages:
                await client.write_message(message)
            await ended.wait()
            client.close()

    asyncio.run(converse())


def test_a_request_ends_where_another_task_takes_the_next_message(spans: Spans) -> None:
    open_then: list[int] = []

    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        await connection.recv()
        await asyncio.create_task(connection.recv())
        open_then.append(len(spans.recorder.open_requests.open))

    conversed(handle, "log in", "question")

    assert open_then == [0]
    assert spans.names == ["WEBSOCKET"]


def test_a_handler_that_is_cancelled_leaves_no_request_open(spans: Spans) -> None:
    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        await connection.recv()
        raise asyncio.CancelledError

    conversed(handle, "stop")

    spans.wait_for(1)
    assert not spans.recorder.open_requests.open


def test_a_client_that_has_left_is_no_fault_of_the_handler(spans: Spans) -> None:
    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        await connection.recv()
        raise websockets.exceptions.ConnectionClosedOK(None, None)

    conversed(handle, "bye")

    assert spans.only.attributes[semconv.CANCELLED] is True
    assert semconv.ERROR_TYPE not in spans.only.attributes


@pytest.mark.parametrize("inner", [aiohttp_server, websockets_server, _tornado(is_async=True)])
def test_what_is_said_over_another_connection_meanwhile_is_of_that(
    spans: Spans, inner: Serving
) -> None:
    """A handler asks another server, by a client of Tornado's, before it answers."""
    seen: list[int] = []

    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        await connection.recv()
        async with inner(Talk()) as address:
            client = await websocket.websocket_connect(address)
            await client.write_message(b"sound", binary=True)
            await client.read_message()
            seen.append(get_current_span().get_span_context().trace_id)
            client.close()
        await connection.send("answer")

    conversed(handle, "question")

    assert spans.only.name == "WEBSOCKET"
    assert seen == [spans.only.trace_id]
    assert not spans.recorder.open_requests.open


@SERVERS
def test_nothing_keeps_a_connection_that_has_ended(
    spans: Spans, serving: Serving, name: str
) -> None:
    assert len(said(serving, Talk(), "one")) == 2

    gc.collect()
    assert len(websocket_messages._conversations) == 0
