"""A server in a thread that answers as a model's API does, by one of the files beside this one."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("one", "two", "three")


@dataclass(frozen=True)
class Answer:
    """An answer in one piece."""

    document: object
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Stream:
    """An answer that is streamed, chunk by chunk, ready to be sent."""

    content_type: str
    chunks: Iterator[bytes]
    held_after: int = 1  # so many more chunks than one leave before the test lets it go on


Dialect = Callable[[str, Any], Answer | Stream | None]  # of a path and a document; None: 404


class ModelApi(ThreadingHTTPServer):
    """Answers; how often it fails first, and when a stream goes on, is up to the test."""

    daemon_threads = True

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.dialect = dialect
        self.failures = 0  # that come before the next answer
        self.parents: list[str | None] = []  # `traceparent` of each request
        self.go_on = threading.Event()  # after the first word of a stream
        self.go_on.set()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        """Base address, as clients of OpenAI's want it."""
        return f"{self.address}/v1"


def events(documents: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Write server-sent events, named where the document says its type."""
    for document in documents:
        kind = document.get("type")
        named = f"event: {kind}\n" if kind else ""
        yield f"{named}data: {json.dumps(document)}\n\n".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelApi

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        self.server.parents.append(self.headers.get("traceparent"))
        if self.server.failures:
            self.server.failures -= 1
            self._answer(Answer({"error": {"message": "busy"}, "message": "busy"}), 503)
            return
        answer = self.server.dialect(self.path.partition("?")[0], asked)
        if answer is None:
            self._answer(Answer({"error": {"message": "no such address"}}), 404)
        elif isinstance(answer, Stream):
            self._stream(answer)
        else:
            self._answer(answer)

    do_GET = do_POST  # noqa: N815 - the base's name

    def _answer(self, answer: Answer, status: int = 200) -> None:
        body = json.dumps(answer.document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("retry-after-ms", "1")
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", stream.content_type)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for number, chunk in enumerate(stream.chunks):
                if number == stream.held_after + 1:
                    self.server.go_on.wait(40)
                self.wfile.write(chunk)
        except OSError:  # who asked has enough
            pass
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving_models(dialect: Dialect) -> Iterator[ModelApi]:
    """The server, while it runs."""
    with ModelApi(dialect) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()
