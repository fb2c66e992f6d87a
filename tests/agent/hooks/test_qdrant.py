"""The hook of `qdrant-client`, with both of its clients in memory."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry.trace import StatusCode
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from latencytrace.agent.hooks.qdrant import QdrantHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked

VECTORS = models.VectorParams(size=2, distance=models.Distance.COSINE)
POINTS = [
    models.PointStruct(id=number, vector=[1.0, float(number)], payload={"text": "a secret"})
    for number in range(1, 6)
]


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    client.create_collection("passages", vectors_config=VECTORS)
    client.upsert("passages", POINTS)
    yield client
    client.close()


@pytest.fixture
def spans(client: QdrantClient) -> Iterator[Spans]:
    """What is made once the collection is filled."""
    assert client.collection_exists("passages")
    with hooked(QdrantHook) as spans:
        yield spans


def test_a_search_is_one_span_of_retrieving(spans: Spans, client: QdrantClient) -> None:
    found = client.query_points("passages", query=[1.0, 0.0], limit=3)

    assert len(found.points) == 3
    assert spans.only.name == "query_points"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "qdrant",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }


def test_positional_arguments_are_read_as_well(spans: Spans, client: QdrantClient) -> None:
    client.retrieve("passages", [1, 2])

    assert spans.only.attributes[semconv.DB_COLLECTION_NAME] == "passages"
    assert "secret" not in attribute_text(spans)


@pytest.mark.parametrize("method", ["scroll", "query_batch_points", "query_points_groups"])
def test_every_way_to_search_is_one_span_of_retrieving(
    spans: Spans, client: QdrantClient, method: str
) -> None:
    arguments: dict[str, dict[str, object]] = {
        "scroll": {"limit": 2},
        "query_batch_points": {"requests": [models.QueryRequest(query=[1.0, 0.0], limit=2)]},
        "query_points_groups": {"query": [1.0, 0.0], "group_by": "text"},
    }

    getattr(client, method)(collection_name="passages", **arguments[method])

    assert (spans.only.name, spans.stages) == (method, [Stage.RETRIEVE])


def test_writing_is_a_span_of_the_database(spans: Spans, client: QdrantClient) -> None:
    client.upsert("passages", POINTS[:1])

    assert spans.stages == [Stage.DATABASE]


def test_what_the_client_raises_passes_through(spans: Spans, client: QdrantClient) -> None:
    with pytest.raises(ValueError, match="no_such_collection"):
        client.query_points("no_such_collection", query=[1.0, 0.0])

    assert spans.only.status.status_code is StatusCode.ERROR


def test_the_async_client_is_timed_while_it_is_awaited(spans: Spans) -> None:
    async def search() -> int:
        client = AsyncQdrantClient(":memory:")
        await client.create_collection("passages", vectors_config=VECTORS)
        await client.upsert("passages", POINTS)
        found = await client.query_points("passages", query=[1.0, 0.0], limit=2)
        await client.close()
        return len(found.points)

    assert asyncio.run(search()) == 2
    assert spans.names == ["upsert", "query_points"]
    assert spans.stages == [Stage.DATABASE, Stage.RETRIEVE]
