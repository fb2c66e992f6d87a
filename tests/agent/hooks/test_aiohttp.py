"""The hook of aiohttp, both ends, over loopback."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import ThreadedResolver, web
from opentelemetry.trace import (
    SpanKind,
    StatusCode,
    format_span_id,
    format_trace_id,
    get_current_span,
)

from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked

Program = Callable[[aiohttp.ClientSession, str], Awaitable[object]]


async def _echo(request: web.Request) -> web.Response:
    return web.Response(text=",".join(request.headers.getall("traceparent", [])))


async def _stream(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(3):
        await answer.write(b"part")
    return answer


async def _fail(_: web.Request) -> web.Response:
    raise RuntimeError("of the handler")


async def _missing(_: web.Request) -> web.Response:
    raise web.HTTPNotFound


async def _talk(request: web.Request) -> web.WebSocketResponse:
    connection = web.WebSocketResponse()
    await connection.prepare(request)
    current = get_current_span().get_span_context()
    await connection.send_str(format_trace_id(current.trace_id))
    return connection


async def _stream_to_nobody(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"part")
        await asyncio.sleep(0)


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/echo/{name}", _echo)
    app.router.add_get("/stream", _stream)
    app.router.add_get("/fail", _fail)
    app.router.add_get("/talk", _talk)
    app.router.add_get("/endless", _stream_to_nobody)
    app.router.add_get("/missing", _missing)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def traced(program: Program) -> Spans:
    async def main() -> None:
        async with serving() as url, aiohttp.ClientSession() as session:
            await program(session, url)

    with hooked(AiohttpHook) as spans:
        asyncio.run(main())
    return spans


def test_a_request_is_one_span_at_each_end_and_the_inner_one_below_the_outer() -> None:
    told: list[str] = []

    async def program(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(f"{url}/echo/x?secret=1") as answer:
            told.append(await answer.text())

    spans = traced(program)

    (client,) = spans.of(Stage.NETWORK)
    (server,) = [span for span in spans.all if span.kind is SpanKind.SERVER]
    assert (client.name, client.kind) == ("GET", SpanKind.CLIENT)
    assert server.name == "GET /echo/{name}"
    assert (server.trace_id, server.parent_id) == (client.trace_id, client.span_id)
    assert [header.split("-")[2] for header in told] == [format_span_id(client.span_id)]
    assert client.attributes[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert "secret" not in attribute_text(spans)


def test_a_callers_own_header_and_the_others_are_sent() -> None:
    told: list[str] = []
    own = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"

    async def program(session: aiohttp.ClientSession, url: str) -> None:
        headers = {"Traceparent": own, "x-other": "kept"}
        async with session.get(f"{url}/echo/x", headers=headers) as answer:
            told.append(await answer.text())
            told.append(answer.request_info.headers["x-other"])

    traced(program)

    assert told == [own, "kept"]


def test_a_host_is_named_as_it_is_asked_for_in_the_network() -> None:
    class Loopback(ThreadedResolver):
        async def resolve(self, host: str, *given: Any, **named: Any) -> Any:
            assert host == "xn--bcher-kva.example"
            return await super().resolve("127.0.0.1", *given, **named)

    async def program(_: aiohttp.ClientSession, url: str) -> None:
        connector = aiohttp.TCPConnector(resolver=Loopback())
        async with aiohttp.ClientSession(connector=connector) as session:
            there = url.replace("127.0.0.1", "bücher.example")
            async with session.get(f"{there}/echo/x") as answer:
                await answer.read()

    (client,) = traced(program).of(Stage.NETWORK)
    assert client.attributes[semconv.SERVER_ADDRESS] == "xn--bcher-kva.example"


def test_a_span_ends_with_the_last_byte_of_the_body() -> None:
    open_after: list[bool] = []

    async def program(session: aiohttp.ClientSession, url: str) -> None:
        answer = await session.get(f"{url}/stream")
        await answer.read()
        open_after.append(answer.closed)

    spans = traced(program)

    (client,) = spans.of(Stage.NETWORK)
    assert open_after == [True]
    assert client.ended_ns > 0


def test_the_parts_of_a_streamed_answer_are_timed_where_they_are_sent() -> None:
    async def program(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(f"{url}/stream") as answer:
            assert await answer.read() == b"part" * 3

    spans = traced(program)

    (served,) = [span for span in spans.all if span.kind is SpanKind.SERVER]
    first_ns = int(str(served.attributes[semconv.STREAMED_FIRST_BODY]))
    assert 0 < first_ns <= served.ended_ns - served.started_ns
    assert Stage.RESPOND in str(served.attributes[semconv.INTERVALS])


def test_an_answer_that_is_dropped_ends_its_span() -> None:
    async def program(session: aiohttp.ClientSession, url: str) -> None:
        answer = await session.get(f"{url}/stream")
        answer.close()
        del answer
        gc.collect()

    assert len(traced(program).of(Stage.NETWORK)) == 1


def test_a_request_that_nobody_answers_is_an_error_of_its_span() -> None:
    async def program(session: aiohttp.ClientSession, _: str) -> None:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get("http://127.0.0.1:1/")

    (client,) = traced(program).of(Stage.NETWORK)
    assert client.attributes[semconv.ERROR_TYPE] == "ClientConnectorError"


@pytest.mark.parametrize(
    ("path", "status", "error"), [("/fail", 500, "RuntimeError"), ("/missing", 404, None)]
)
def test_a_handler_that_raises_is_noted_at_both_ends(
    path: str, status: int, error: str | None
) -> None:
    async def program(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(f"{url}{path}") as answer:
            assert answer.status == status
            await answer.read()

    spans = traced(program)

    (client,) = spans.of(Stage.NETWORK)
    (server,) = [span for span in spans.all if span.kind is SpanKind.SERVER]
    assert client.attributes[semconv.ERROR_TYPE] == str(status)
    assert server.attributes.get(semconv.ERROR_TYPE) == error


def test_a_websocket_is_no_request_and_belongs_to_who_opened_it() -> None:
    told: list[str] = []

    async def program(session: aiohttp.ClientSession, url: str) -> None:
        async with session.ws_connect(f"{url}/talk") as connection:
            told.append(await connection.receive_str())

    spans = traced(program)

    assert [span.kind for span in spans.all] == [SpanKind.CLIENT]
    assert told == [format_trace_id(spans.only.trace_id)]


def test_a_handler_whose_caller_is_gone_is_cancelled() -> None:
    async def program(session: aiohttp.ClientSession, url: str) -> None:
        answer = await session.get(f"{url}/endless")
        await answer.content.read(4)
        answer.close()

    spans = traced(program)

    (served,) = [span for span in spans.all if span.kind is SpanKind.SERVER]
    assert served.attributes[semconv.CANCELLED] is True
    assert served.status.status_code is StatusCode.UNSET
