"""The hook of python-socketio, with its own client and server."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.socketio import SocketioHook
from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, intervals_of
from tests.support.servers.serving import serving, serving_wsgi
from tests.support.waiting import until

socketio = pytest.importorskip("socketio")
aiohttp = pytest.importorskip("aiohttp")
# Of its client, which closes none of its connections that a server of a poll still holds.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(AsgiHook, SocketioHook, ThreadsHook) as spans:
        yield spans


def events_of(spans: Spans) -> list[Any]:
    """The requests that are events of the program's, without connecting and leaving."""
    return [
        span
        for span in spans.all
        if span.name.startswith("socket.io") and "connect" not in span.name
    ]


@asynccontextmanager
async def connected(url: str, *namespaces: str) -> AsyncIterator[Any]:
    """A client, by polls, which needs nothing more installed."""
    async with aiohttp.ClientSession() as session:
        client = socketio.AsyncClient(http_session=session)
        await client.connect(url, transports=["polling"], namespaces=[*namespaces] or None)
        yield client
        polls = client.eio.read_loop_task
        await client.eio.disconnect(abort=True)  # else it may wait for its last poll
        polls.cancel()
        await asyncio.gather(polls, return_exceptions=True)


async def asked(url: str, *events: str) -> list[Any]:
    """What a server answers to events."""
    async with connected(url) as client:
        return [await client.call(event, "a secret") for event in events]


def test_each_event_is_a_request_of_its_own(spans: Spans) -> None:
    server = socketio.AsyncServer(async_mode="asgi")

    async def chat(_: str, text: str) -> str:
        with _stage(spans):
            return text

    async def others(event: str, _: str, __: str) -> str:
        return event

    server.on("chat", chat)
    server.on("*", others)
    with serving(socketio.ASGIApp(server), timeout_graceful_shutdown=1) as url:
        answers = asyncio.run(asked(url, "chat", "chat", "made up by a caller"))

    chats = events_of(spans)
    assert answers == ["a secret", "a secret", "made up by a caller"]
    assert [one.name for one in chats] == ["socket.io /chat"] * 2 + ["socket.io /*"]
    assert {one.kind for one in chats} == {SpanKind.SERVER}
    assert len({one.context.trace_id for one in chats}) == 3
    assert not any(one.parent_id for one in chats)
    parents = {stage.parent_id for stage in spans.of(Stage.RERANK)}
    assert parents == {chats[0].span_id, chats[1].span_id}
    assert not any("secret" in repr(dict(one.attributes)) for one in spans.all)


def _stage(spans: Spans) -> Any:
    class Stages:
        def __enter__(self) -> None:
            self.timing = spans.recorder.start("rerank", Stage.RERANK)

        def __exit__(self, *_: object) -> None:
            self.timing.end()

    return Stages()


def test_a_handler_that_raises_is_a_failed_request(spans: Spans) -> None:
    server = socketio.AsyncServer(async_mode="asgi", async_handlers=False)
    seen: list[object] = []

    class Rooms(socketio.AsyncNamespace):  # type: ignore[misc,name-defined] # of a library that need not be there
        async def on_leave(self, _: str, __: str) -> None:
            seen.append(get_current_span())
            raise LookupError("a secret")

    server.register_namespace(Rooms("/rooms"))

    async def leave(url: str) -> None:
        async with connected(url, "/rooms") as client:
            await client.emit("leave", "a secret", namespace="/rooms")
            while not seen:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    with serving(socketio.ASGIApp(server), timeout_graceful_shutdown=1) as url:
        asyncio.run(leave(url))

    (left,) = events_of(spans)
    assert left.name == "socket.io /rooms/leave"
    assert left.attributes[semconv.ERROR_TYPE] == "LookupError"


async def emitted(url: str, event: str, last: str) -> None:
    """Emit an event, and stay until what ends its answer has come."""
    async with connected(url) as client:
        came = asyncio.Event()
        client.on(last, lambda _: came.set())
        await client.emit(event, "a secret")
        await came.wait()


@dataclass
class Left:
    """A handler's task as Chainlit has it: it answers when the handler has returned."""

    server: Any
    fails: bool = False
    returned: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    async def handle(self, sid: str, _: str) -> None:
        self.tasks.append(asyncio.create_task(self.answer(sid)))
        asyncio.get_running_loop().call_soon(self.returned.set)

    async def answer(self, sid: str) -> None:
        await self.returned.wait()
        await asyncio.gather(self.step(sid))
        if self.fails:
            raise LookupError("a secret")

    async def step(self, sid: str) -> None:
        for word in ("a", "b"):
            await self.server.emit("word", word, to=sid)
        await self.server.emit("over", "", to=sid)


@pytest.mark.parametrize(("loop", "fails"), [("asyncio", False), ("uvloop", True)])
def test_an_event_without_an_acknowledgement_ends_with_what_its_task_emits(
    spans: Spans, loop: str, *, fails: bool
) -> None:
    server = socketio.AsyncServer(async_mode="asgi")
    left = Left(server, fails)
    server.on("chat", left.handle)

    with serving(socketio.ASGIApp(server), loop=loop, timeout_graceful_shutdown=1) as url:
        asyncio.run(emitted(url, "chat", "over"))

    (chat,) = events_of(spans)
    sends = [one for one in intervals_of(chat) if one.stage is Stage.RESPOND]
    assert len(sends) == 3
    assert sends[-1].end_ns == chat.ended_ns - chat.started_ns
    assert chat.attributes.get(semconv.ERROR_TYPE) == ("LookupError" if fails else None)


def test_what_is_emitted_after_a_silence_is_no_answer(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latencytrace.agent.hooks.socketio.SILENT_NS", -1)
    server = socketio.AsyncServer(async_mode="asgi")
    server.on("chat", Left(server).handle)

    with serving(socketio.ASGIApp(server), timeout_graceful_shutdown=1) as url:
        asyncio.run(emitted(url, "chat", "over"))

    (chat,) = events_of(spans)
    assert not intervals_of(chat)


def test_an_event_whose_task_goes_on_ends_with_its_connection(spans: Spans) -> None:
    server = socketio.AsyncServer(async_mode="asgi")
    tasks: list[asyncio.Task[None]] = []

    async def tick(sid: str) -> None:
        await server.emit("tick", "", to=sid)
        await server.disconnect(sid)
        await asyncio.Event().wait()

    async def subscribe(sid: str, _: str) -> None:
        tasks.append(asyncio.create_task(tick(sid)))

    server.on("subscribe", subscribe)
    server.on("disconnect", lambda *_: None)
    with serving(socketio.ASGIApp(server), timeout_graceful_shutdown=1) as url:
        asyncio.run(emitted(url, "subscribe", "tick"))
        until(lambda: events_of(spans))

    (subscribed,) = events_of(spans)
    (sent,) = intervals_of(subscribed)
    assert sent.end_ns == subscribed.ended_ns - subscribed.started_ns


def test_a_thread_that_a_handler_begins_answers_its_event(spans: Spans) -> None:
    server = socketio.Server(async_mode="threading")
    returned = threading.Event()

    def answer(sid: str) -> None:
        returned.wait()
        server.emit("over", "", to=sid)

    def chat(sid: str, _: str) -> None:
        server.start_background_task(answer, sid)

    def returns(*given: Any) -> Any:
        try:
            return handle(*given)
        finally:
            returned.set()

    server.on("chat", chat)
    handle, server._handle_event_internal = server._handle_event_internal, returns
    with serving_wsgi(socketio.WSGIApp(server)) as url:
        asyncio.run(emitted(url, "chat", "over"))
        until(lambda: events_of(spans))

    (over,) = events_of(spans)
    (sent,) = intervals_of(over)
    assert sent.end_ns == over.ended_ns - over.started_ns


def test_the_events_of_a_server_of_threads_are_requests_too(spans: Spans) -> None:
    server = socketio.Server(async_mode="threading")
    server.on("chat", lambda _, text: text)

    with serving_wsgi(socketio.WSGIApp(server)) as url:
        answers = asyncio.run(asked(url, "chat"))

    assert answers == ["a secret"]
    assert [one.name for one in events_of(spans)] == ["socket.io /chat"]
