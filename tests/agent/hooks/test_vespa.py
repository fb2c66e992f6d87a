"""The hook of Vespa: its own client, against a server that answers as it does."""

import json
from collections.abc import Iterator

import pytest

from latencytrace.agent.hooks.vector_databases import VespaHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.servers.recording import RecordingServer, Response

application = pytest.importorskip("vespa.application")

HOOKS = (VespaHook,)
ASKED = {"yql": "select * from passages where true", "query": "a secret", "hits": 3}


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    told = {"content-type": "application/json"}
    body = json.dumps({"root": {"children": [{"id": "1"}]}, "id": "1", "pathId": "1"}).encode()
    with RecordingServer(Response(body=body, headers=told)) as server:
        yield server


def test_a_query_is_retrieving_and_a_write_the_databases(
    spans: Spans, server: RecordingServer
) -> None:
    vespa = application.Vespa(url="http://127.0.0.1", port=server.server_port)

    found = vespa.query(ASKED)
    vespa.feed_data_point("passages", "1", {"text": "a secret"})

    assert found.hits == [{"id": "1"}]
    assert (spans.names, spans.stages) == (
        ["query", "feed_data_point"], [Stage.RETRIEVE, Stage.DATABASE],
    )  # fmt: skip
    assert spans.all[1].attributes[semconv.DB_COLLECTION_NAME] == "passages"
    assert "secret" not in attribute_text(spans)
