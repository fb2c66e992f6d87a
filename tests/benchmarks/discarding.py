"""A receiver of OTLP over HTTP in a process of its own that only counts what it gets."""

import gzip
import http.client
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_COUNT = "/spans/"
_DATADOG = "/v0."  # its agent's addresses; a pair of spans is a trace

_bodies: list[tuple[str, bytes]] = []  # looked into when asked, so that answers come at once
_counted: Counter[str] = Counter()


class _Answering(BaseHTTPRequestHandler):
    """Takes every post, and keeps traces; a GET says how many of a sender's spans came."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # status and headers leave in one packet: two would wait for each other
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path.startswith(_DATADOG):
            _counted["ddtrace"] += 2 * int(self.headers["x-datadog-trace-count"])
            self._answer(b"{}")
            return
        if self.path.endswith("/v1/traces"):
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            _bodies.append((self.path, body))
        self._answer(b"")

    def do_GET(self) -> None:
        if not self.path.startswith(_COUNT):
            self._answer(b"{}")
            return
        bodies, _bodies[:] = list(_bodies), []
        for path, body in bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    _counted[path.split("/")[1]] += len(scope.spans)
        self._answer(str(_counted[self.path.removeprefix(_COUNT)]).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _serve(port_to: Connection, handler: type[BaseHTTPRequestHandler]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    port_to.send(server.server_port)
    server.serve_forever()


@contextmanager
def served(context: SpawnContext, handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve from a process of its own until the end of the block; its port."""
    port_from, port_to = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(port_to, handler), daemon=True)
    process.start()
    try:
        yield port_from.recv()
    finally:
        process.kill()
        process.join()


@dataclass(frozen=True, slots=True)
class Discarding:
    """The receiver that runs; each sender has a path of its own."""

    port: int

    def address(self, sender: str) -> str:
        """The base address that a sender is told."""
        return f"http://127.0.0.1:{self.port}/{sender}"

    def spans(self, sender: str) -> int:
        """How many spans came from it so far."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", _COUNT + sender)
        count = int(connection.getresponse().read())
        connection.close()
        return count


@contextmanager
def receive(context: SpawnContext) -> Iterator[Discarding]:
    """A receiver that ends with the block."""
    with served(context, _Answering) as port:
        yield Discarding(port)
