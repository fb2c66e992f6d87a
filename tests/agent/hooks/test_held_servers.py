"""Requests that lie in their socket while a server's only thread serves another."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import hypercorn.asyncio.tcp_server
import hypercorn.protocol.h11
import pytest
import tornado.web
import waitress.server  # noqa: F401 - its hook waits for it
from aiohttp import web
from flask import Flask
from tornado import httpserver, netutil
from werkzeug.serving import make_server

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.hypercorn import HypercornHook
from latencytrace.agent.hooks.tornado import TornadoHook
from latencytrace.agent.hooks.wsgi import WsgiHook
from tests.support.agent.held import (
    HELD_NS,
    HOLDS,
    JIFFY_NS,
    WAITS,
    Gate,
    connected,
    read_all,
    request,
    requests_to,
    sent_while_held,
    waits_of,
)
from tests.support.agent.hooked import hooked
from tests.support.servers.serving import running, serving_hypercorn, serving_waitress
from tests.support.waiting import PATIENCE_S, until

assert hypercorn
HOOKS = (AiohttpHook, AsgiHook, EventLoopHook, HypercornHook, TornadoHook, WsgiHook)
Serving = Callable[[Gate], AbstractContextManager[str]]


def flask_application(gate: Gate) -> Flask:
    app = Flask("held")

    @app.get(HOLDS)
    def holds() -> str:
        gate.hold()
        return ""

    @app.route(WAITS, methods=["GET", "POST"])
    def waits() -> str:
        return ""

    return app


def under_waitress(gate: Gate) -> AbstractContextManager[str]:
    return serving_waitress(flask_application(gate))


@contextmanager
def under_werkzeug(gate: Gate) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, flask_application(gate), threaded=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def under_hypercorn(gate: Gate) -> AbstractContextManager[str]:
    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            return
        if scope["path"] == HOLDS:
            gate.hold()
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body"})

    return serving_hypercorn(app)


@contextmanager
def under_aiohttp(gate: Gate) -> Iterator[str]:
    async def holds(_: web.Request) -> web.Response:
        gate.hold()
        return web.Response()

    async def waits(_: web.Request) -> web.Response:
        return web.Response()

    (listener,) = netutil.bind_sockets(0, "127.0.0.1")

    async def serve(stopped: asyncio.Event) -> None:
        app = web.Application()
        app.router.add_get(HOLDS, holds)
        app.router.add_get(WAITS, waits)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        await stopped.wait()
        await runner.cleanup()

    with running(serve):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def under_tornado(gate: Gate) -> Iterator[str]:
    class Holds(tornado.web.RequestHandler):
        def get(self) -> None:
            gate.hold()

    class Waits(tornado.web.RequestHandler):
        def get(self) -> None:
            pass

    routes = [(HOLDS, Holds), (WAITS, Waits)]
    (listener,) = netutil.bind_sockets(0, "127.0.0.1")

    async def serve(stopped: asyncio.Event) -> None:
        application = tornado.web.Application(routes, log_function=lambda _: None)
        server: Any = httpserver.HTTPServer(application)
        server.add_sockets([listener])
        await stopped.wait()
        server.stop()
        await server.close_all_connections()

    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with running(serve):
        yield url


SERVERS = pytest.mark.parametrize(
    "serve",
    [under_waitress, under_werkzeug, under_hypercorn, under_aiohttp, under_tornado],
    ids=["waitress", "werkzeug", "hypercorn", "aiohttp", "tornado"],
)


@SERVERS
def test_a_request_begins_when_it_came_though_the_thread_was_held(serve: Serving) -> None:
    gate = Gate()
    with hooked(*HOOKS) as spans, serve(gate) as url:
        sent = sent_while_held(url, gate)

        (span,) = requests_to(spans, WAITS)
        (wait,) = waits_of(spans, span)
        assert gate.began_ns - JIFFY_NS <= span.started_ns <= sent.at_ns + JIFFY_NS
        assert wait.started_ns == span.started_ns
        assert wait.ended_ns >= sent.at_ns + HELD_NS
        assert " held by GET" in wait.name


@SERVERS
def test_a_request_behind_another_on_its_connection_does_not_wait_for_the_thread(
    serve: Serving,
) -> None:
    gate = Gate()
    with hooked(*HOOKS) as spans, serve(gate) as url:
        with connected(url) as client:
            client.sendall(request(HOLDS, last=False) + request(WAITS))
            assert gate.holds.wait(PATIENCE_S)
            until(lambda: monotonic_ns() - gate.began_ns >= HELD_NS)
            gate.opened.set()
            served = read_all(client).count(b" 200 ")

        if served == 1:
            pytest.skip("this server answers one request of a connection")
        (span,) = requests_to(spans, WAITS)
        (before,) = requests_to(spans, HOLDS)
        assert span.started_ns >= before.ended_ns
