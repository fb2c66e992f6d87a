"""Real servers of ASGI and WSGI applications in a thread, and clients that no hook knows."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import HTTPServer
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler

import uvicorn
from werkzeug.serving import make_server

from tests.support.waiting import PATIENCE_S


class _Connection(HTTPConnection):
    """Is not timed: its methods are those from before a hook was applied."""

    request = HTTPConnection.request
    getresponse = HTTPConnection.getresponse


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


SMALL_BYTES = 4096  # the kernel makes some more of it, but never grows it


def serving(application: Any, **options: Any) -> AbstractContextManager[str]:
    """The base address of an application under uvicorn."""
    return serving_as(uvicorn.Config(application, log_config=None, **options))


@contextmanager
def serving_as(config: uvicorn.Config) -> Iterator[str]:
    """The base address of a server of uvicorn.

    Its connections have a small buffer for what they send, so that a client that reads nothing
    is felt: the kernel's own grows to megabytes.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BYTES)  # they inherit it
        listener.bind(("127.0.0.1", 0))
        server = _Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        assert server.listens.wait(PATIENCE_S)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@contextmanager
def serving_wsgi(application: Any) -> Iterator[str]:
    """The base address of an application under Werkzeug; at the end all requests have ended."""
    server = make_server("127.0.0.1", 0, application, threaded=True)
    server.daemon_threads = False  # type: ignore[attr-defined]  # so that closing it joins them
    with serving_forever(server) as url:
        yield url


class Quiet(WSGIRequestHandler):
    """A handler of `wsgiref` that logs nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving_forever(server: HTTPServer) -> Iterator[str]:
    """The base address of a server of the standard library's kind, which a thread serves."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


@contextmanager
def serving_waitress(application: Any) -> Iterator[str]:
    """The base address of an application under waitress."""
    from waitress.server import create_server

    server = create_server(application, host="127.0.0.1", port=0, threads=1)
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            # By poll, for `select` takes no more than 1024 files.
            server.asyncore.loop(0.01, use_poll=True, map=server._map, count=1)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        stopped.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        server.task_dispatcher.shutdown()
        server.asyncore.close_all(server._map)


@contextmanager
def serving_hypercorn(application: Any) -> Iterator[str]:
    """The base address of an application under hypercorn."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # it closes it
    config.errorlog = None
    with running(lambda stopped: serve(application, config, shutdown_trigger=stopped.wait)):
        yield url


@contextmanager
def running(serve: Any) -> Iterator[None]:
    """Have a server run in an event loop of its own, until the block ends."""
    ready: list[Any] = []
    begun = threading.Event()

    async def run() -> None:
        stopped = asyncio.Event()
        ready.extend((asyncio.get_running_loop(), stopped))
        begun.set()
        await serve(stopped)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    try:
        yield
    finally:
        loop, stopped = ready
        loop.call_soon_threadsafe(stopped.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    text: str


def get(url: str, **headers: str) -> Answer:
    """Ask with the standard library, which leaves no span."""
    parts = urlsplit(url)
    connection = _Connection(parts.netloc, timeout=PATIENCE_S)
    try:
        connection.request("GET", url.removeprefix(f"http://{parts.netloc}"), headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.read().decode())
    finally:
        connection.close()


def raw_socket(url: str) -> socket.socket:
    """A connection with a receive buffer too small for much."""
    host, _, port = url.removeprefix("http://").partition(":")
    client = socket.socket()
    client.settimeout(PATIENCE_S)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BYTES)
    client.connect((host, int(port)))
    return client


def raw_get(url: str, path: str) -> socket.socket:
    """Ask, and leave the answer to the caller."""
    client = raw_socket(url)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    return client


def drain(client: socket.socket) -> None:
    """Read to the end."""
    while client.recv(1 << 20):
        pass
