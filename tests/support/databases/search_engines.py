"""A server that answers as search engines do, and what their hooks must make of their clients."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request
from tests.support.servers.recording import Received, RecordingServer, Response

NEAREST = {"field": "vector", "query_vector": [1.0, 0.0], "k": 3, "num_candidates": 9}
ASKED: dict[str, dict[str, Any]] = {
    "elasticsearch": {"knn": NEAREST},
    "opensearch": {"size": 3, "query": {"knn": {}}},
}


def answered(received: Received) -> Response:
    """One hit, as both engines answer, with what tells Elasticsearch from others."""
    found = {"took": 1, "hits": {"hits": [{"_id": "1", "_source": {"text": "a secret"}}]}}
    status = 404 if received.path.startswith("/nowhere") else 200
    told = {"content-type": "application/json", "X-Elastic-Product": "Elasticsearch"}
    return Response(status, json.dumps(found).encode(), told)


@contextmanager
def serving_searches() -> Iterator[RecordingServer]:
    """It runs."""
    with RecordingServer(answered) as server:
        yield server


def client_of(system: str, url: str, *, asynchronous: bool = False) -> Any:
    """A client; Elasticsearch's own tracing is off."""
    if system == "opensearch":
        import opensearchpy

        return getattr(opensearchpy, "AsyncOpenSearch" if asynchronous else "OpenSearch")(url)
    import elasticsearch

    client = getattr(elasticsearch, "AsyncElasticsearch" if asynchronous else "Elasticsearch")(url)
    client._otel.enabled = False
    return client


def searched(system: str, client: Any) -> Any:
    """Search for the three nearest passages."""
    if system == "opensearch":
        return client.search(index="passages", body=ASKED[system])
    return client.search(index="passages", **ASKED[system])


def check_search(spans: Spans, system: str, server: RecordingServer) -> None:
    """Assert that a search is retrieving, with its index and how many it wants."""
    with client_of(system, server.url) as client:
        found: list[Any] = []
        in_request(spans, lambda: found.append(searched(system, client)))

    assert found[0]["hits"]["hits"][0]["_id"] == "1"
    assert spans.names == ["search", "request"]
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: system,
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.DB_OPERATION_NAME: "search",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }


def check_other_request(spans: Spans, system: str, server: RecordingServer) -> None:
    """Assert that any other request is the database's, and tells no id."""
    with client_of(system, server.url) as client:
        client.get(index="passages", id="a-secret-id")  # outside of any request
        in_request(spans, lambda: client.get(index="passages", id="a-secret-id"))

    assert (spans.names, spans.stages[0]) == (["doc", "request"], Stage.DATABASE)
    assert "secret" not in attribute_text(spans)


def check_error(spans: Spans, system: str, server: RecordingServer) -> None:
    """Assert that an error passes through and fails its span."""

    def work(client: Any) -> None:
        with pytest.raises(Exception, match="404"):
            client.search(index="nowhere")

    with client_of(system, server.url) as client:
        in_request(spans, lambda: work(client))

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "NotFoundError"


def check_async_search(spans: Spans, system: str, server: RecordingServer) -> None:
    """Assert that the async client is timed while it is awaited."""

    async def search() -> None:
        client = client_of(system, server.url, asynchronous=True)
        await searched(system, client)
        await client.close()

    in_request(spans, lambda: asyncio.run(search()))

    assert (spans.names, spans.stages[0]) == (["search", "request"], Stage.RETRIEVE)
