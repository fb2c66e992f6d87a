"""A receiver of OTLP in the notebook's own process, on a free port of loopback.

The agent posts here as it would to a service, and so do the child processes of the notebook.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.messages import message_of
from latencytrace.service.otlp.traces import MAX_BYTES, PROTOBUF, decompressed

PATIENCE_S = 30.0  # for a body that its sender does not end


class Receiver(ThreadingHTTPServer):
    """Listens until it is closed.

    Args:
        take: Called with each post of traces, on a thread of its own.
    """

    daemon_threads = True

    def __init__(self, take: Callable[[ExportTraceServiceRequest], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.take = take
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(
            target=self.serve_forever, name="latencytrace-notebook", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Take no more."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers one sender."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    server: Receiver

    def do_POST(self) -> None:
        """Take traces; drop metrics of the agent."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BYTES:
            self._answer(413)
            return
        body = self.rfile.read(int(length))
        if (
            self.headers.get("content-type") != PROTOBUF
        ):  # a page in a browser cannot send it unasked
            self._answer(415)
        elif self.path != "/v1/traces":
            self._answer(200)
        else:
            self._take(body)

    def _take(self, body: bytes) -> None:
        try:
            plain = decompressed(body, self.headers.get("content-encoding"))
            message = message_of(plain, Mending())
        except OtlpError:
            self._answer(400)
        else:
            self.server.take(message)
            self._answer(200)

    def _answer(self, status: int) -> None:
        self.close_connection = status != 200  # noqa: PLR2004 - its body may not have been read
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        """Say nothing: standard error is shown below the cell."""
