"""What a caller sends beside its span is current in what serves it: baggage, and of whom else."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import flask
import grpc
import pytest
from aiohttp import web
from opentelemetry import baggage, propagate
from opentelemetry.context import Context
from opentelemetry.trace import get_current_span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from latencytrace.agent.context import current
from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.grpc_server import GrpcServerHook
from latencytrace.agent.hooks.tornado import TornadoHook
from latencytrace.agent.hooks.wsgi import WsgiHook
from latencytrace.agent.toolkit.queues.messages import begun_work
from tests.support.agent.hooked import Spans
from tests.support.servers.grpc_calls import Methods, answers
from tests.support.servers.grpc_calls import serving as serving_grpc
from tests.support.servers.serving import get, running, serving, serving_wsgi

tornado = pytest.importorskip("tornado.web")
netutil = pytest.importorskip("tornado.netutil")
httpserver = pytest.importorskip("tornado.httpserver")

HOOKS = (AsgiHook, WsgiHook, TornadoHook, AiohttpHook, GrpcServerHook)
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"


def told() -> dict[str, str]:
    """The headers of a call that is made now."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def by_starlette(**headers: str) -> str:
    """Ask a handler of Starlette."""

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(told())

    with serving(Starlette(routes=[Route("/", answer)])) as url:
        return get(url, **headers).text


def by_flask(**headers: str) -> str:
    """Ask a handler of Flask."""
    app = flask.Flask("shop")
    app.add_url_rule("/", view_func=told)
    with serving_wsgi(app) as url:
        return get(url, **headers).text


class _Handler(tornado.RequestHandler):  # type: ignore[misc,name-defined]  # it has no types here
    def get(self) -> None:
        self.write(told())


def by_tornado(**headers: str) -> str:
    """Ask a handler of Tornado."""
    (listener,) = netutil.bind_sockets(0, "127.0.0.1")

    async def serve(stopped: asyncio.Event) -> None:
        server: Any = httpserver.HTTPServer(tornado.Application([("/", _Handler)]))
        server.add_sockets([listener])
        await stopped.wait()
        server.stop()
        await server.close_all_connections()

    with running(serve):
        return get(f"http://127.0.0.1:{listener.getsockname()[1]}/", **headers).text


def by_aiohttp(**headers: str) -> str:
    """Ask a handler of aiohttp."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(told())

    async def call() -> str:
        app = web.Application()
        app.router.add_get("/", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            return (await asyncio.to_thread(get, url, **headers)).text
        finally:
            await runner.cleanup()

    return asyncio.run(call())


class _Handlers(Methods):
    def unary_unary(self, _: bytes, __: grpc.ServicerContext) -> bytes:
        return str(told()).encode()


def by_grpc(**headers: str) -> str:
    """Ask a handler of gRPC's."""
    with serving_grpc(_Handlers()) as address, grpc.insecure_channel(address) as channel:
        (answer,) = answers(channel, "unary_unary", tuple(headers.items()))
    return answer.decode()


every_server = pytest.mark.parametrize(
    "ask",
    [by_starlette, by_flask, by_tornado, by_aiohttp, by_grpc],
    ids=lambda ask: ask.__name__.removeprefix("by_"),
)


@every_server
def test_the_baggage_of_a_caller_goes_on_to_whom_a_handler_calls(
    spans: Spans, ask: Callable[..., str]
) -> None:
    answer = ask(traceparent=CALLER, baggage="tenant=acme")

    spans.wait_for(1)
    assert "tenant=acme" in answer
    assert TRACE in answer
    assert CALLER not in answer  # but below the handler's own span


@every_server
def test_baggage_without_a_trace_goes_on_too(spans: Spans, ask: Callable[..., str]) -> None:
    answer = ask(baggage="tenant=acme")

    spans.wait_for(1)
    assert "tenant=acme" in answer


@pytest.mark.parametrize("headers", [{}, {"traceparent": CALLER}], ids=["nothing", "a trace"])
def test_the_work_on_a_message_has_the_baggage_of_who_sent_it(headers: Mapping[str, str]) -> None:
    before = current()
    work = begun_work(Spans().recorder, "work", {**headers, "baggage": "tenant=acme"})
    assert work is not None

    work.activate()
    within, around = baggage.get_all(), get_current_span()
    work.deactivate()
    work.end()

    assert within == {"tenant": "acme"}
    assert around is work.span
    assert current() == before


def test_what_was_current_where_work_belongs_otherwise_is_not_made_current() -> None:
    elsewhere = baggage.set_baggage("tenant", "acme", Context())
    work = begun_work(Spans().recorder, "work", {}, otherwise=elsewhere)
    assert work is not None

    work.activate()
    within = baggage.get_all()
    work.deactivate()
    work.end()

    assert within == {}
