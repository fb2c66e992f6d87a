"""Requests that lie in their socket while a server's only thread serves another."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from wsgiref import simple_server

import pytest
import tornado.web
import waitress.server  # noqa: F401 - its hook waits for it
from aiohttp import web
from flask import Flask
from tornado import httpserver, netutil
from werkzeug.serving import make_server

from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.hooks.tornado import TornadoHook
from latencytrace.agent.hooks.wsgi import WsgiHook, WsgirefHook
from tests.support.agent.held import (
    HOLDS,
    WAITS,
    Gate,
    Serving,
    a_request_begins_when_it_came,
    what_is_behind_another_does_not_wait,
)
from tests.support.servers.serving import Quiet, running, serving_forever, serving_waitress

HOOKS = (AiohttpHook, EventLoopHook, TornadoHook, WsgiHook, WsgirefHook)


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


def under_werkzeug(gate: Gate) -> AbstractContextManager[str]:
    return serving_forever(make_server("127.0.0.1", 0, flask_application(gate), threaded=False))


def under_wsgiref(gate: Gate) -> AbstractContextManager[str]:
    return serving_forever(
        simple_server.make_server("127.0.0.1", 0, flask_application(gate), handler_class=Quiet)
    )


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
    [under_waitress, under_werkzeug, under_aiohttp, under_tornado],
    ids=["waitress", "werkzeug", "aiohttp", "tornado"],
)


def test_a_request_begins_when_it_came_to_the_standard_librarys_server() -> None:
    a_request_begins_when_it_came(under_wsgiref, *HOOKS)


@SERVERS
def test_a_request_begins_when_it_came_though_the_thread_was_held(serve: Serving) -> None:
    a_request_begins_when_it_came(serve, *HOOKS)


@SERVERS
def test_a_request_behind_another_on_its_connection_does_not_wait_for_the_thread(
    serve: Serving,
) -> None:
    what_is_behind_another_does_not_wait(serve, *HOOKS)
