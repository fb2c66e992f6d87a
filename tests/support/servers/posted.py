"""A real HTTP server on loopback that keeps what is posted to it."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

LONGEST_S = 20


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a sender that left before its answer."""


class Posted:
    """Answers every post with one status, and keeps its path, headers and document."""

    def __init__(self, status: int = 200, *, hangs: bool = False) -> None:
        self.status = status
        self.documents: list[object] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self._arrived = threading.Condition()
        self._let_go = threading.Event()
        if not hangs:
            self._let_go.set()
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                kept.keep(self.path, dict(self.headers), json.loads(body))
                kept._let_go.wait(LONGEST_S)
                self.send_response(kept.status)
                if kept.status in {301, 302}:
                    self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(b"so it says")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"

    def keep(self, path: str, headers: Mapping[str, str], document: object) -> None:
        """Keep a post."""
        with self._arrived:
            self.paths.append(path)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            self.documents.append(document)
            self._arrived.notify_all()

    def wait_for(self, count: int, patience_s: float = LONGEST_S) -> None:
        """Until so many have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.documents) >= count, patience_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
