"""The hook of Meilisearch: its own client, against a server that answers as it does."""

import json
from collections.abc import Iterator

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.vector_databases import MeilisearchHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.servers.recording import Received, RecordingServer, Response

meilisearch = pytest.importorskip("meilisearch")

HOOKS = (MeilisearchHook,)
FOUND = {"hits": [{"id": 1, "text": "a secret"}], "query": "a secret", "processingTimeMs": 1}
TASK = {
    "taskUid": 1, "indexUid": "passages", "status": "enqueued",
    "type": "documentAdditionOrUpdate", "enqueuedAt": "2026-01-31T15:04:05.000000Z",
}  # fmt: skip


def answer(received: Received) -> Response:
    """Answers of the service to a search, to several, to a write, and to unknown names."""
    told = {"content-type": "application/json"}
    if "/missing/" in received.path:
        gone = {"message": "no index", "code": "index_not_found", "type": "invalid_request"}
        return Response(404, json.dumps(gone).encode(), told)
    if received.path == "/multi-search":
        return Response(body=json.dumps({"results": [FOUND, FOUND]}).encode(), headers=told)
    if received.path.endswith(("/search", "/similar")):
        return Response(body=json.dumps(FOUND).encode(), headers=told)
    return Response(202, json.dumps(TASK).encode(), told)


@pytest.fixture
def url() -> Iterator[str]:
    with RecordingServer(answer) as server:
        yield server.url


def test_a_search_is_retrieving_and_a_write_the_databases(spans: Spans, url: str) -> None:
    passages = meilisearch.Client(url, "of a test").index("passages")

    found = passages.search("a secret", {"limit": 3})
    passages.add_documents([{"id": 1, "text": "a secret"}, {"id": 2, "text": "a secret"}])

    assert [hit["id"] for hit in found["hits"]] == [1]
    assert (spans.names, spans.stages) == (
        ["search", "add_documents"], [Stage.RETRIEVE, Stage.DATABASE],
    )  # fmt: skip
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "meilisearch",
        semconv.DB_COLLECTION_NAME: "passages",
    }
    assert spans.all[1].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)


def test_similar_documents_are_retrieving_and_deleting_is_the_databases(
    spans: Spans, url: str
) -> None:
    passages = meilisearch.Client(url, "of a test").index("passages")

    passages.get_similar_documents({"id": 1, "embedder": "default"})
    passages.delete_document(1)

    assert (spans.names, spans.stages) == (
        ["get_similar_documents", "delete_document"], [Stage.RETRIEVE, Stage.DATABASE],
    )  # fmt: skip


def test_several_searches_at_once_are_one_span(spans: Spans, url: str) -> None:
    queries = [{"indexUid": "passages", "q": "a secret"}] * 2

    found = meilisearch.Client(url, "of a test").multi_search(queries)

    assert len(found["results"]) == 2
    assert (spans.names, spans.stages) == (["multi_search"], [Stage.RETRIEVE])
    assert spans.only.attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2


def test_what_the_library_raises_reaches_the_program(spans: Spans, url: str) -> None:
    missing = meilisearch.Client(url, "of a test").index("missing")

    with pytest.raises(meilisearch.errors.MeilisearchApiError):
        missing.search("a secret")

    assert spans.only.status.status_code is StatusCode.ERROR
