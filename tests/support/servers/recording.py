"""An HTTP server on loopback that answers as a test tells it to, and keeps what it was asked."""

import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qsl

from tests.support.waiting import PATIENCE_S


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    method: str
    target: str  # path and query
    headers: Mapping[str, str]  # by lower-case name
    body: bytes

    @property
    def path(self) -> str:
        """Where to, without the query."""
        return self.target.partition("?")[0]

    @property
    def parameters(self) -> dict[str, str]:
        """The query."""
        return dict(parse_qsl(self.target.partition("?")[2]))

    @cached_property
    def document(self) -> object:
        """The body, which is JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; a body in parts without a length of its own ends with the connection."""

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None  # in the place of the status' own words


Answer = Callable[[Received], Response]


class RecordingServer(ThreadingHTTPServer):
    """Runs as long as its block.

    Args:
        answer: What it answers, or who decides that; an `OSError` of theirs breaks the
            connection.
        port: To listen on; 0: any that is free.
        tls: Of a server that is asked over https.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        answer: Answer | Response | None = None,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer or Response()
        self.received: list[Received] = []
        self.connections = 0
        self.release = threading.Event()  # cleared: no request is answered
        self.release.set()
        self.host = f"127.0.0.1:{self.server_port}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"
        self._arrived = threading.Condition()
        self._faults: list[BaseException] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def documents(self) -> list[object]:
        """The JSON of every request so far."""
        return [received.document for received in list(self.received)]

    def wait_for(self, count: int) -> None:
        """Wait until so many requests have come."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.received) >= count, PATIENCE_S)

    def respond(self, received: Received) -> Response:
        """Keep a request, and answer it once answers are let go."""
        with self._arrived:
            self.received.append(received)
            self._arrived.notify_all()
        self.release.wait(PATIENCE_S)
        return self.answer if isinstance(self.answer, Response) else self.answer(received)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep a fault of the test's own for its end; senders may leave before their answer."""
        del request, client_address
        fault = sys.exception()
        if fault is not None and not isinstance(fault, OSError):
            self._faults.append(fault)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.shutdown()
        self.server_close()
        self._thread.join()
        for fault in self._faults:
            raise fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RecordingServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        sent = self.headers
        body = self.rfile.read(int(sent.get("content-length", 0)))
        headers = {name.lower(): ", ".join(sent.get_all(name, ())) for name in sent}
        response = self.server.respond(Received(self.command, self.path, headers, body))
        self.send_response(response.status, response.reason)
        for name, value in response.headers.items():
            self.send_header(name, value)
        parts = response.body
        if isinstance(parts, bytes):
            parts = (parts,)
            if "Content-Length" not in response.headers:
                self.send_header("Content-Length", str(len(parts[0])))
        elif "Content-Length" not in response.headers:
            self.send_header("Connection", "close")
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    do_POST = do_GET  # noqa: N815 - the base's name
    do_DELETE = do_GET  # noqa: N815 - likewise

    def log_message(self, *_: object) -> None:
        """Say nothing."""
