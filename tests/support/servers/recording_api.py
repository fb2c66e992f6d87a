"""A stand-in for the service that remembers what it was asked."""

import json
from collections.abc import Iterator

import pytest

from latencytrace.service.alerting.document import objective_document
from tests.support.builders.documents import (
    MS,
    breakdown_document,
    gpus_document,
    request_document,
)
from tests.support.builders.notices import made_alert, made_notice
from tests.support.servers.recording import Received, RecordingServer, Response


class RecordingApi(RecordingServer):
    """Answers every question with fixed documents."""

    TABLE = b'"trace_id","duration_ns"\n"1f3c9a",100\n'

    def __init__(self) -> None:
        super().__init__(self._document)
        self.promised = made_alert()
        self.listed = [request_document()]

    @property
    def asked(self) -> list[tuple[str, dict[str, str]]]:
        """Paths and their parameters."""
        return [(one.path, one.parameters) for one in self.received]

    def _document(self, received: Received) -> Response:
        if received.path == "/api/v1/ledgers":
            return Response(body=self.TABLE)
        request, alert = request_document(), self.promised
        chat = breakdown_document(retrieve=10 * MS, decode=90 * MS)
        documents: dict[str, object] = {
            "/api/v1/services": {"services": [{"service": "rag", "routes": ["POST /chat"]}]},
            "/api/v1/breakdown": chat,
            "/api/v1/breakdown/routes": {
                "routes": [{"service": "rag", "route": "POST /chat", **chat}],
                "route_count": 1,
            },
            "/api/v1/gpu": gpus_document(),
            "/api/v1/objectives": {"objectives": [objective_document(alert.standing)]},
            "/api/v1/alerts": {"alerts": [made_notice(alert=alert).alert]},
            "/api/v1/requests": {"requests": self.listed},
            "/api/v1/traces": {"trace_ids": [request["trace_id"]]},
        }
        return Response(body=json.dumps(documents.get(received.path, request)).encode())


@pytest.fixture
def recording_api() -> Iterator[RecordingApi]:
    """One that runs."""
    with RecordingApi() as server:
        yield server
