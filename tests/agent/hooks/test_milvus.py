"""The hook of `pymilvus`, with both of its clients on milvus-lite."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from pymilvus import AsyncMilvusClient, MilvusClient
from pymilvus.exceptions import MilvusException

from latencytrace.agent.hooks.grpc_client import GrpcClientHook
from latencytrace.agent.hooks.milvus import MilvusHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked

ROWS: list[dict[str, Any]] = [
    {"id": number, "vector": [1.0, float(number)], "text": "a secret"} for number in range(5)
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MilvusClient]:
    client = MilvusClient(str(tmp_path / "milvus.db"))
    client.create_collection("passages", dimension=2)
    client.insert("passages", ROWS)
    yield client
    client.close()


@pytest.fixture
def spans(client: MilvusClient) -> Iterator[Spans]:
    """Those made once the collection is filled."""
    assert client.has_collection("passages")
    with hooked(MilvusHook) as spans:
        yield spans


def test_a_search_is_one_span_of_retrieving(spans: Spans, client: MilvusClient) -> None:
    found = client.search("passages", data=[[1.0, 0.0], [0.0, 1.0]], limit=3)

    assert [len(hits) for hits in found] == [3, 3]
    assert spans.only.name == "search"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "milvus",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.DB_OPERATION_BATCH_SIZE: 2,
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }


def test_reading_and_writing_are_told_apart(spans: Spans, client: MilvusClient) -> None:
    client.query("passages", filter="id > 2")
    client.get("passages", ids=[1])
    client.upsert("passages", ROWS[:1])
    client.delete("passages", ids=[1])

    assert spans.stages == [Stage.RETRIEVE, Stage.RETRIEVE, Stage.DATABASE, Stage.DATABASE]
    assert "secret" not in attribute_text(spans)


def test_the_call_of_the_server_lies_within_the_search(client: MilvusClient) -> None:
    with hooked(GrpcClientHook, MilvusHook) as spans:
        client.search("passages", data=[[1.0, 0.0]], limit=1)

    (search,) = spans.of(Stage.RETRIEVE)
    assert {span.parent_id for span in spans.of(Stage.NETWORK)} == {search.span_id}


def test_errors_of_the_client_pass_through(spans: Spans, client: MilvusClient) -> None:
    with pytest.raises(MilvusException):
        client.search("no_such_collection", data=[[1.0, 0.0]])

    assert spans.only.status.status_code is StatusCode.ERROR


def test_the_async_client_is_timed_while_it_is_awaited(spans: Spans, tmp_path: Path) -> None:
    async def search() -> int:
        client = AsyncMilvusClient(str(tmp_path / "milvus.db"))
        found = await client.search("passages", data=[[1.0, 0.0]], limit=2)
        await client.close()
        return len(found[0])

    assert asyncio.run(search()) == 2
    assert (spans.only.name, spans.stages) == ("search", [Stage.RETRIEVE])
