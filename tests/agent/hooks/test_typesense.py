"""The hook of Typesense: its own clients, against a server that answers as it does."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.vector_databases import TypesenseHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.servers.recording import RecordingServer, Response

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of how it is made
typesense = pytest.importorskip("typesense")

HOOKS = (TypesenseHook,)


@pytest.fixture
def options() -> Iterator[dict[str, Any]]:
    """What a client is made with."""
    told = {"content-type": "application/json"}
    body = json.dumps({"found": 1, "hits": [], "results": []}).encode()
    with RecordingServer(Response(body=body, headers=told)) as server:
        node = {"host": "127.0.0.1", "port": str(server.server_port), "protocol": "http"}
        yield {"nodes": [node], "api_key": "of a test", "connection_timeout_seconds": 30}


def test_a_search_is_retrieving_and_a_write_the_databases(
    spans: Spans, options: dict[str, Any]
) -> None:
    client = typesense.Client(options)
    passages = client.collections["passages"].documents

    found = passages.search({"q": "a secret", "query_by": "text"})
    passages.upsert({"id": "1", "text": "a secret"})
    client.api_call.close()

    assert found["found"] == 1
    assert (spans.names, spans.stages) == (
        ["search", "upsert"], [Stage.RETRIEVE, Stage.DATABASE],
    )  # fmt: skip
    assert spans.all[0].attributes[semconv.DB_COLLECTION_NAME] == "passages"
    assert "secret" not in attribute_text(spans)


def test_several_searches_at_once_are_one_span(spans: Spans, options: dict[str, Any]) -> None:
    queries = {"searches": [{"collection": "passages", "q": "*"}] * 2}
    client = typesense.Client(options)

    client.multi_search.perform(queries, {"query_by": "text"})
    client.api_call.close()

    assert (spans.names, spans.stages) == (["perform"], [Stage.RETRIEVE])


def test_the_async_client_is_timed_while_it_is_awaited(
    spans: Spans, options: dict[str, Any]
) -> None:
    async def search() -> None:
        client = typesense.AsyncClient(options)
        await client.collections["passages"].documents.search({"q": "*", "query_by": "text"})
        await client.api_call.aclose()

    asyncio.run(search())

    assert (spans.names, spans.stages) == (["search"], [Stage.RETRIEVE])
