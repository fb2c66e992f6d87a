"""The hook of Sanic, with its own server."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id, get_current_span
from websockets.sync.client import connect

from latencytrace.agent.hooks.sanic import SanicHook
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.hooked import Spans, interval_stages
from tests.support.servers.serving import Answer, get, running

sanic = pytest.importorskip("sanic")

HOOKS = (SanicHook,)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def application() -> Any:
    sanic.Sanic.test_mode = True  # of several applications in a process
    app = sanic.Sanic("shop", configure_logging=False)

    @app.get("/items/<item:int>")  # type: ignore[untyped-decorator] # Sanic need not be there
    async def item(_: Any, item: int) -> Any:
        await asyncio.sleep(0)
        current = get_current_span().get_span_context()
        return sanic.text(f"item {item} of {format_trace_id(current.trace_id)}")

    @app.get("/broken")  # type: ignore[untyped-decorator] # likewise
    async def broken(_: Any) -> Any:
        raise LookupError("a secret")

    @app.get("/missing")  # type: ignore[untyped-decorator] # likewise
    async def missing(_: Any) -> Any:
        raise sanic.NotFound("a secret")

    @app.get("/tokens")  # type: ignore[untyped-decorator] # likewise
    async def tokens(request: Any) -> None:
        made = MadeTokens()
        answer = await request.respond(content_type="text/plain")
        for _ in range(3):
            made.add()
            await answer.send("x")

    @app.websocket("/talk")  # type: ignore[untyped-decorator] # likewise
    async def talk(_: Any, connection: Any) -> None:
        current = get_current_span().get_span_context()
        await connection.send(format_trace_id(current.trace_id))

    return app


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    sanic.Sanic._app_registry.clear()


@contextmanager
def served() -> Iterator[str]:
    app, listener = application(), socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def serve(stopped: asyncio.Event) -> None:
        server = await app.create_server(sock=listener, return_asyncio_server=True)
        await server.startup()
        await stopped.wait()
        await server.close()

    with running(serve):
        yield url


def answers(*paths: str, **headers: str) -> list[Answer]:
    with served() as url:
        return [get(f"{url}{path}", **headers) for path in paths]


def test_a_request_is_one_server_span_in_the_trace_of_its_caller(spans: Spans) -> None:
    (answer,) = answers("/items/7?prompt=secret", traceparent=PARENT)

    spans.wait_for(1)
    assert answer.text == f"item 7 of {TRACE}"
    assert (spans.only.name, spans.only.kind) == ("GET /items/<item:int>", SpanKind.SERVER)
    noted = spans.only.attributes
    assert noted[semconv.HTTP_RESPONSE_STATUS_CODE] == 200
    assert noted[semconv.URL_PATH] == "/items/7"
    assert "secret" not in repr(dict(noted))
    assert "respond" in interval_stages(spans.only)


def test_errors_are_the_servers_own_or_the_callers(spans: Spans) -> None:
    assert [one.status for one in answers("/broken", "/missing", "/nowhere")] == [500, 404, 404]

    spans.wait_for(3)
    failed, missing, nowhere = spans.all
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert missing.status.status_code is nowhere.status.status_code is StatusCode.UNSET
    assert (missing.name, nowhere.name) == ("GET /missing", "GET")


def test_a_stream_tells_when_its_tokens_left(spans: Spans) -> None:
    (answer,) = answers("/tokens")

    spans.wait_for(1)
    assert answer.text == "xxx"
    times = unpack_token_times(str(spans.only.attributes[semconv.TOKEN_TIMES]), 0)
    assert len(times.lengths_ns) == 2


def test_a_websocket_is_no_request_but_belongs_to_who_opened_it(spans: Spans) -> None:
    with served() as url:
        address = url.replace("http:", "ws:")
        with connect(f"{address}/talk", additional_headers={"traceparent": PARENT}) as connection:
            assert connection.recv() == TRACE
        assert get(f"{url}/items/7").status == 200

    assert spans.names == ["GET /items/<item:int>"]
