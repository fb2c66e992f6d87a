"""A stand-in for the service that remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

import pytest

from latencytrace.service.alerting.document import objective_document
from tests.support.builders.documents import (
    MS,
    breakdown_document,
    gpus_document,
    request_document,
)
from tests.support.builders.notices import made_alert, made_notice


class RecordingApi(ThreadingHTTPServer):
    """Answers every question with fixed documents."""

    TABLE = b'"trace_id","duration_ns"\n"1f3c9a",100\n'

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.promised = made_alert()
        self.listed = [request_document()]
        self.asked: list[tuple[str, dict[str, str]]] = []  # paths and their parameters
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str) -> bytes:
        """A body."""
        if path == "/api/v1/ledgers":
            return self.TABLE
        request, alert = request_document(), self.promised
        documents: dict[str, object] = {
            "/api/v1/services": {"services": [{"service": "rag", "routes": ["POST /chat"]}]},
            "/api/v1/breakdown": breakdown_document(retrieve=10 * MS, decode=90 * MS),
            "/api/v1/gpu": gpus_document(),
            "/api/v1/objectives": {"objectives": [objective_document(alert.standing)]},
            "/api/v1/alerts": {"alerts": [made_notice(alert=alert).alert]},
            "/api/v1/requests": {"requests": self.listed},
        }
        return json.dumps(documents.get(path, request)).encode()


class _Handler(BaseHTTPRequestHandler):
    server: RecordingApi

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.asked.append((path, dict(parse_qsl(query))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.answer(path))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
        pass


@pytest.fixture
def recording_api() -> Iterator[RecordingApi]:
    """One that runs."""
    with RecordingApi() as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()
