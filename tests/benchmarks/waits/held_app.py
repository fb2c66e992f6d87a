"""An application that holds its loop, or its worker, before and after its first token.

`GET /held?MS` answers with two events of a streamed chat, each after half of so many
milliseconds of `time.sleep`, under gevent of the one that no greenlet gives way in. `asgi` and
`wsgi` are for servers that load an application; run as a program with `aiohttp`, `grpc`,
`grpc.aio`, `sanic`, `tornado` or `werkzeug` and a port, it serves by that. Those of gRPC answer
to a call of `held.Server/Held`, whose request says for how long, with both events as messages.
"""

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

FIRST, SECOND = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % word
    for word in (b"one", b"two")
)
HEADERS = {"content-type": "text/event-stream"}
HELD = "/held"


def hold(query: str) -> None:
    """Hold the thread for half of the time that a query asks for."""
    gevent = sys.modules.get("gevent.monkey")
    sleep = time.sleep if gevent is None else gevent.get_original("time", "sleep")
    sleep(int(query or 0) / 2000)


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """Answer as an ASGI application."""
    if scope["type"] != "http":
        return
    await receive()
    query = scope["query_string"].decode()
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    hold(query)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": FIRST, "more_body": True})
    hold(query)
    await send({"type": "http.response.body", "body": SECOND})


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer as a WSGI application."""
    query = environ["QUERY_STRING"]
    hold(query)
    start_response("200 OK", list(HEADERS.items()))
    yield FIRST
    hold(query)
    yield SECOND


def by_aiohttp(port: int) -> None:
    """Serve by aiohttp."""
    from aiohttp import web

    async def held(request: web.Request) -> web.StreamResponse:
        hold(request.query_string)
        answer = web.StreamResponse(headers=HEADERS)
        await answer.prepare(request)
        await answer.write(FIRST)
        hold(request.query_string)
        await answer.write(SECOND)
        return answer

    app = web.Application()
    app.router.add_get(HELD, held)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None)


def held_methods(behavior: Callable[..., Any]) -> Any:
    """Return what finds the one method of a gRPC server."""
    import grpc

    method = grpc.unary_stream_rpc_method_handler(behavior)
    return grpc.method_handlers_generic_handler("held.Server", {"Held": method})


def by_grpc(port: int) -> None:
    """Serve by gRPC on two threads."""
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    def held(request: bytes, _: grpc.ServicerContext) -> Iterable[bytes]:
        hold(request.decode())
        yield FIRST
        hold(request.decode())
        yield SECOND

    server = grpc.server(ThreadPoolExecutor(2), (held_methods(held),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


def by_grpc_aio(port: int) -> None:
    """Serve by gRPC on an event loop."""
    import asyncio

    import grpc.aio

    async def held(request: bytes, _: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        hold(request.decode())
        yield FIRST
        hold(request.decode())
        yield SECOND

    async def serve() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((held_methods(held),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()

    asyncio.run(serve())


def by_sanic(port: int) -> None:
    """Serve by Sanic, in this process."""
    from sanic import HTTPResponse, Request, Sanic

    app = Sanic("held")

    async def held(request: Request) -> HTTPResponse | None:
        hold(request.query_string)
        answer = await request.respond(content_type=HEADERS["content-type"])
        await answer.send(FIRST.decode())
        hold(request.query_string)
        await answer.send(SECOND.decode())
        await answer.eof()
        return None

    app.add_route(held, HELD)
    app.run("127.0.0.1", port, single_process=True, motd=False, access_log=False)


def by_tornado(port: int) -> None:
    """Serve by Tornado."""
    import asyncio

    from tornado.web import Application, RequestHandler

    class Held(RequestHandler):
        async def get(self) -> None:
            hold(self.request.query)
            for name, value in HEADERS.items():
                self.set_header(name, value)
            self.write(FIRST)
            await self.flush()
            hold(self.request.query)
            self.write(SECOND)

    async def serve() -> None:
        Application([(HELD, Held)], log_function=lambda _: None).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(serve())


def by_werkzeug(port: int) -> None:
    """Serve by Flask on Werkzeug's own server, with one thread."""
    from flask import Flask, Response, request

    app = Flask("held")

    @app.get(HELD)
    def held() -> Response:
        query = request.query_string.decode()
        hold(query)

        def parts() -> Iterable[bytes]:
            yield FIRST
            hold(query)
            yield SECOND

        return Response(parts(), headers=HEADERS)

    app.run("127.0.0.1", port, threaded=False)


if __name__ == "__main__":
    serve = {
        "aiohttp": by_aiohttp,
        "grpc": by_grpc,
        "grpc.aio": by_grpc_aio,
        "sanic": by_sanic,
        "tornado": by_tornado,
        "werkzeug": by_werkzeug,
    }
    serve[sys.argv[1]](int(sys.argv[2]))
