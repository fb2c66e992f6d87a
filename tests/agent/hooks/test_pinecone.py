"""The hook of Pinecone: its clients, against a server that speaks its HTTP as it is documented."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from latencytrace.agent.hooks.vector_databases import PineconeHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.servers.recording import RecordingServer, Response

pinecone = pytest.importorskip("pinecone")
FOUND = {
    "matches": [{"id": "a secret", "score": 0.5}],
    "namespace": "passages",
    "upsertedCount": 2,
}


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    told = {"content-type": "application/json"}
    with RecordingServer(Response(body=json.dumps(FOUND).encode(), headers=told)) as server:
        yield server


@pytest.fixture
def spans() -> Iterator[Spans]:
    assert pinecone.Index
    assert pinecone.AsyncIndex  # both are imported late
    with hooked(PineconeHook) as spans:
        yield spans


def test_searches_and_writes_are_told_apart(spans: Spans, server: RecordingServer) -> None:
    with pinecone.Index(host=server.url, api_key="none") as index:
        found = index.query(top_k=3, vector=[1.0, 0.0], namespace="passages")
        index.upsert(vectors=[("a secret", [1.0, 0.0]), ("two", [0.0, 1.0])], namespace="passages")

    assert found.matches[0].id == "a secret"
    assert (spans.names, spans.stages) == (["query", "upsert"], [Stage.RETRIEVE, Stage.DATABASE])
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "pinecone",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }
    assert spans.all[1].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)


def test_the_async_client_is_timed_while_it_is_awaited(
    spans: Spans, server: RecordingServer
) -> None:
    async def search() -> None:
        async with pinecone.AsyncIndex(host=server.url, api_key="none") as index:
            await index.query(top_k=3, vector=[1.0, 0.0])

    asyncio.run(search())

    assert (spans.only.name, spans.stages) == ("query", [Stage.RETRIEVE])
    assert semconv.DB_COLLECTION_NAME not in spans.only.attributes  # the default namespace


def test_an_error_of_the_server_passes_through(spans: Spans, server: RecordingServer) -> None:
    server.answer = Response(404, b'{"message": "none"}', {"content-type": "application/json"})

    with (
        pinecone.Index(host=server.url, api_key="none") as index,
        pytest.raises(pinecone.PineconeException),
    ):
        index.fetch(ids=["a secret"])

    assert spans.only.attributes[semconv.ERROR_TYPE] == "NotFoundError"
