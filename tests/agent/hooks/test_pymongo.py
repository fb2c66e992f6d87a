"""The hook of `pymongo`, with both of its clients, against a server that speaks its protocol."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pymongo = pytest.importorskip("pymongo")

from latencytrace.agent.hooks.pymongo import PymongoHook  # noqa: E402 - after what may be absent
from latencytrace.model import Stage, semconv  # noqa: E402
from tests.support.agent.hooked import Spans, attribute_text, in_request  # noqa: E402
from tests.support.databases.mongo import DOCUMENTS, serving_mongo  # noqa: E402

HOOKS = (PymongoHook,)

NEAREST = [{"$vectorSearch": {"queryVector": [1.0], "path": "vector", "limit": 5}}]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving_mongo() as address:
        yield address


@pytest.fixture
def passages(address: str) -> Iterator[Any]:
    with pymongo.MongoClient(address) as client:
        yield client.test.passages


def test_a_search_by_vectors_is_retrieving(spans: Spans, passages: Any) -> None:
    in_request(spans, lambda: passages.aggregate(NEAREST).to_list())

    assert spans.names == ["aggregate passages", "request"]
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "mongodb",
        semconv.DB_OPERATION_NAME: "aggregate",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 5,
    }


def test_other_calls_are_the_databases_each_one_span(spans: Spans, passages: Any) -> None:
    def work() -> None:
        assert passages.find_one({"text": "a secret"}) == DOCUMENTS[0]
        passages.insert_one({"text": "a secret"})
        passages.aggregate([{"$match": {"text": "a secret"}}])

    passages.find_one()  # outside of any request
    in_request(spans, work)

    assert spans.names == [
        "find_one passages", "insert_one passages", "aggregate passages", "request",
    ]  # fmt: skip
    assert set(spans.stages[:3]) == {Stage.DATABASE}
    assert "secret" not in attribute_text(spans)


def test_a_cursor_is_timed_where_it_asks_the_server(spans: Spans, passages: Any) -> None:
    cursor = passages.find({})

    in_request(spans, lambda: list(cursor))

    assert spans.names == ["find passages", "getMore passages", "request"]


def test_an_error_of_the_server_passes_through(spans: Spans, passages: Any) -> None:
    def work() -> None:
        with pytest.raises(pymongo.errors.OperationFailure):
            passages.delete_one({})

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "OperationFailure"


def test_the_async_client_is_timed_while_it_is_awaited(spans: Spans, address: str) -> None:
    async def work() -> None:
        async with pymongo.AsyncMongoClient(address) as client:
            await (await client.test.passages.aggregate(NEAREST)).to_list()
            assert await client.test.passages.find({}).to_list() == DOCUMENTS

    in_request(spans, lambda: asyncio.run(work()))

    assert spans.names == [
        "aggregate passages", "find passages", "getMore passages", "request",
    ]  # fmt: skip
    assert spans.stages[:2] == [Stage.RETRIEVE, Stage.DATABASE]
