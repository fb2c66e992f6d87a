"""What an application gets to send with: it is awaited, left and cancelled as a coroutine is."""

import asyncio
import gc
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.hooks.asgi import time_application
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.toolkit.answer_events import AnswerEvents
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.agent.toolkit.token_times import TokenRecorder
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, intervals_of
from tests.support.waiting import PATIENCE_S

Send = Callable[[dict[str, Any]], Awaitable[None]]
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
BODY = {"type": "http.response.body", "body": b"ok"}
STREAM = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream")],
}


def chunk(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


class Application:
    """As Starlette's, as far as the hook looks at it."""

    middleware_stack = object()

    def __init__(self, serve: Callable[[Send], Coroutine[Any, Any, None]]) -> None:
        self.serve = serve


def run(
    spans: Spans,
    serve: Callable[[Send], Coroutine[Any, Any, None]],
    send: Send,
    **scoped: object,
) -> None:
    """Serve two requests, timed: the first in Python, which looks at the application's layers.

    Args:
        spans: Of them.
        serve: What answers.
        send: The server's.
        scoped: More of their scope.
    """

    async def original(self: Application, _scope: object, _receive: object, send: Send) -> None:
        await self.serve(send)

    call: Timed = time_application(spans.recorder, original)
    application = Application(serve)
    for _ in range(2):
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "http_version": "1"}
        asyncio.run(call(application, {**scope, **scoped}, None, send))


async def serve_stream(send: Send) -> None:
    """Answer with 100 events and an end."""
    await send(STREAM)
    for _ in range(100):
        await send(chunk(b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'))
    await send(chunk(b"", more=False))


async def sent(_: dict[str, Any]) -> None:
    """Take a message at once."""


async def sent_later(_: dict[str, Any]) -> None:
    """Take a message after a turn of the loop."""
    await asyncio.sleep(0)


@pytest.mark.parametrize("send", [sent, sent_later])
def test_each_send_is_timed(spans: Spans, send: Send) -> None:
    async def serve(send: Send) -> None:
        await send(START)
        await send(BODY)

    run(spans, serve, send)

    for span in spans.all:
        assert span.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
        assert len(intervals_of(span)) == 2


def test_what_send_returns_is_used_as_a_coroutine(spans: Spans) -> None:
    looked: list[object] = []

    async def serve(send: Send) -> None:
        sending: Any = send(START)
        looked.append((asyncio.iscoroutinefunction(send), asyncio.iscoroutine(sending)))
        looked.append(inspect.isawaitable(sending))
        await asyncio.create_task(sending)
        with pytest.raises(RuntimeError, match="already awaited"):
            await sending
        await asyncio.wait_for(send(BODY), PATIENCE_S)

    run(spans, serve, sent_later)

    assert looked == [(True, True), True] * 2


def test_what_the_server_raises_reaches_the_application(spans: Spans) -> None:
    async def refused(message: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        raise ConnectionResetError(message["type"])

    async def serve(send: Send) -> None:
        for message in (START, BODY):
            with pytest.raises(ConnectionResetError, match=str(message["type"])):
                await send(message)

    run(spans, serve, refused)

    for span in spans.all:
        assert len(intervals_of(span)) == 2


def test_what_is_no_coroutine_function_is_called_as_ever(spans: Spans) -> None:
    class Sent:
        def __await__(self) -> Generator[Any, Any, str]:
            yield from asyncio.sleep(0).__await__()
            return "sent"

    async def serve(send: Send) -> None:
        await send(START)
        with pytest.raises(TypeError, match="await"):
            await send(None)  # type: ignore[arg-type] # a message that is none
        await send(BODY)

    run(spans, serve, lambda message: Sent() if message else "nothing")  # type: ignore[return-value, arg-type]

    assert len(spans.all) == 2


def test_a_send_is_cancelled(spans: Spans) -> None:
    cancelled: list[str] = []

    async def stuck(message: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(message["type"])
            raise

    async def serve(send: Send) -> None:
        task = asyncio.ensure_future(send(START))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(spans, serve, stuck)

    assert cancelled == ["http.response.start"] * 2
    for span in spans.all:
        assert len(intervals_of(span)) == 1


def test_a_send_goes_on_after_an_exception_that_the_server_handles(spans: Spans) -> None:
    async def patient(_: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    async def serve(send: Send) -> None:
        task = asyncio.ensure_future(send(START))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await task

    run(spans, serve, patient)

    assert len(spans.all) == 2


def test_a_send_that_is_dropped_half_way_is_left_and_noted(spans: Spans) -> None:
    left: list[str] = []

    async def stuck(message: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            left.append(message["type"])

    async def serve(send: Send) -> None:
        unused: Any = send(START)
        unused.close()
        dropped: Any = send(START)
        dropped.send(None)
        del dropped
        closed: Any = send(BODY)
        closed.send(None)
        closed.close()
        with pytest.raises(RuntimeError, match="already awaited"):
            closed.send(None)
        thrown: Any = send(BODY)
        with pytest.raises(ValueError, match="never"):
            thrown.throw(ValueError("never"))

    run(spans, serve, stuck)

    assert left == ["http.response.start", "http.response.body"] * 2


def test_nothing_outlives_a_request(spans: Spans) -> None:
    gone: list[Any] = []

    async def serve(send: Send) -> None:
        gone.append(ref(send))
        await serve_stream(send)

    gc.disable()
    try:
        run(spans, serve, sent)
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_a_stream_of_many_chunks_keeps_count(spans: Spans) -> None:
    async def serve(send: Send) -> None:
        await send(STREAM)
        for _ in range(2_500):
            await send(chunk(b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'))
        await send(chunk(b"data: [DONE]\n\n", more=False))

    run(spans, serve, sent)

    for span in spans.all:
        assert span.attributes[semconv.STREAMED_EVENTS] == 2_499
        assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in span.attributes


def test_streams_that_wait_to_be_sent_are_no_work_for_the_collector(spans: Spans) -> None:
    def served() -> int:
        before = Counter(map(type, gc.get_objects()))
        run(spans, serve_stream, sent, route=SimpleNamespace(path_format="/"))
        after = Counter(map(type, gc.get_objects()))
        return sum((after - before)[kind] for kind in (AnswerStream, AnswerEvents, TokenRecorder))

    gc.collect()
    assert [served() for _ in range(3)][1:] == [0, 0]
    assert all(semconv.TOKEN_TIMES in span.attributes for span in spans.all)


@pytest.mark.parametrize("names", [("type", "body", "more_body"), ("more_body", "body", "type")])
def test_keys_of_a_message_may_be_any_that_are_equal(spans: Spans, names: tuple[str, ...]) -> None:
    def again(message: dict[str, Any]) -> dict[str, Any]:
        """Return it with names that are equal and not the same objects, in this order."""
        return {"".join(list(name)): message[name] for name in names}

    async def serve(send: Send) -> None:
        await send(STREAM)
        for _ in range(20):
            await send(again(chunk(b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n')))
        await send(again(chunk(b"", more=False)))

    run(spans, serve, sent)

    assert [span.attributes[semconv.STREAMED_EVENTS] for span in spans.all] == [19, 19]


EVENT = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
ODD = (EVENT * 2, EVENT.replace(b"word", b""), b": ping\n\n", b"", EVENT[:20], EVENT[20:], b"word")
ORDERS = (
    ("type", "body", "more_body"), ("more_body", "body", "type"), ("body", "more_body", "type"),
    ("trailers", "type", "body", "more_body"), ("type", "body", "trailers", "more_body"),
)  # fmt: skip
bodies = st.sampled_from((EVENT, EVENT, EVENT, EVENT.replace(b"word", b"a longer word"), *ODD))


@given(st.lists(st.tuples(bodies, st.sampled_from(ORDERS)), min_size=5, max_size=40))
def test_a_stream_says_the_same_whatever_its_messages_are(
    chunks: list[tuple[bytes, tuple[str, ...]]],
) -> None:
    async def serve(send: Send) -> None:
        await send(STREAM)
        for body, order in chunks:
            message = {**chunk(body), "trailers": False}
            await send({name: message[name] for name in order})
        await send(chunk(b"", more=False))

    spans = Spans()
    run(spans, serve, sent)

    in_python, in_c = (of_the_hook(span.attributes) for span in spans.all)
    assert in_python.keys() == in_c.keys()
    counted = (semconv.STREAMED_EVENTS, semconv.STREAMED_TOKENS, semconv.STREAMED_CHOICES)
    assert [in_python.get(name) for name in counted] == [in_c.get(name) for name in counted]
    for name in (semconv.INTERVALS, semconv.TOKEN_TIMES):
        assert signs_in(in_python.get(name)) == signs_in(in_c.get(name))


def of_the_hook(attributes: Mapping[str, object]) -> dict[str, object]:
    """Return what the hook says of a request, whatever kept its process waiting meanwhile."""
    said = {name: value for name, value in attributes.items() if name != semconv.RUNTIME_GAPS}
    groups = str(said.pop(semconv.INTERVALS, "")).split(";")
    left = ";".join(one for one in groups if not one.startswith(f"{Stage.RUNTIME}:"))
    return said | ({semconv.INTERVALS: left} if left else {})


def signs_in(packed: object) -> Counter[str]:
    """Count the signs between packed times: they tell their form and how many there are."""
    return Counter(sign for sign in str(packed) if sign in "+,;:")
