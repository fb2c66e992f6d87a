"""The hooks of Elasticsearch and OpenSearch: their clients, a server that answers like theirs."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.elasticsearch import ElasticsearchHook
from latencytrace.agent.hooks.opensearch import OpensearchHook
from latencytrace.agent.timing.hook import Hook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request
from tests.support.servers.recording import Received, RecordingServer, Response

HOOKS: dict[str, type[Hook]] = {"elasticsearch": ElasticsearchHook, "opensearch": OpensearchHook}
NEAREST = {"field": "vector", "query_vector": [1.0, 0.0], "k": 3, "num_candidates": 9}
ASKED = {"elasticsearch": {"knn": NEAREST}, "opensearch": {"size": 3, "query": {"knn": {}}}}


def answered(received: Received) -> Response:
    """One hit, as both engines answer, with what tells Elasticsearch from others."""
    found = {"took": 1, "hits": {"hits": [{"_id": "1", "_source": {"text": "a secret"}}]}}
    status = 404 if received.path.startswith("/nowhere") else 200
    told = {"content-type": "application/json", "X-Elastic-Product": "Elasticsearch"}
    return Response(status, json.dumps(found).encode(), told)


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer(answered) as server:
        yield server


@pytest.fixture(params=HOOKS)
def system(request: pytest.FixtureRequest) -> str:
    """One of both, whose library is here."""
    name = str(request.param)
    pytest.importorskip({"opensearch": "opensearchpy"}.get(name, name))
    return name


@pytest.fixture
def spans(system: str) -> Iterator[Spans]:
    client_of(system, "http://127.0.0.1:9").close()  # what it imports late is there
    with hooked(HOOKS[system]) as spans:
        yield spans


def client_of(system: str, url: str, *, asynchronous: bool = False) -> Any:  # noqa: ANN401 - of two libraries
    """A client; Elasticsearch's own tracing is off."""
    if system == "opensearch":
        import opensearchpy  # noqa: PLC0415 - it need not be there

        return getattr(opensearchpy, "AsyncOpenSearch" if asynchronous else "OpenSearch")(url)
    import elasticsearch  # noqa: PLC0415 - likewise

    client = getattr(elasticsearch, "AsyncElasticsearch" if asynchronous else "Elasticsearch")(url)
    client._otel.enabled = False  # noqa: SLF001 - as OTEL_PYTHON_INSTRUMENTATION_ELASTICSEARCH_ENABLED does
    return client


def searched(system: str, client: Any) -> Any:  # noqa: ANN401
    if system == "opensearch":
        return client.search(index="passages", body=ASKED[system])
    return client.search(index="passages", **ASKED[system])


def test_a_search_is_retrieving_with_its_index_and_how_many_it_wants(
    spans: Spans, system: str, server: RecordingServer
) -> None:
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


def test_any_other_request_is_the_databases_and_tells_no_id(
    spans: Spans, system: str, server: RecordingServer
) -> None:
    with client_of(system, server.url) as client:
        client.get(index="passages", id="a-secret-id")  # outside of any request
        in_request(spans, lambda: client.get(index="passages", id="a-secret-id"))

    assert (spans.names, spans.stages[0]) == (["doc", "request"], Stage.DATABASE)
    assert "secret" not in attribute_text(spans)


def test_an_error_passes_through_and_fails_its_span(
    spans: Spans, system: str, server: RecordingServer
) -> None:
    def work(client: Any) -> None:  # noqa: ANN401
        with pytest.raises(Exception, match="404"):
            client.search(index="nowhere")

    with client_of(system, server.url) as client:
        in_request(spans, lambda: work(client))

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "NotFoundError"


def test_the_async_client_is_timed_while_it_is_awaited(
    spans: Spans, system: str, server: RecordingServer
) -> None:
    async def search() -> None:
        client = client_of(system, server.url, asynchronous=True)
        await searched(system, client)
        await client.close()

    in_request(spans, lambda: asyncio.run(search()))

    assert (spans.names, spans.stages[0]) == (["search", "request"], Stage.RETRIEVE)


def test_a_request_that_elasticsearch_traces_itself_is_not_timed_again(
    server: RecordingServer,
) -> None:
    elasticsearch = pytest.importorskip("elasticsearch")
    with hooked(ElasticsearchHook) as spans, elasticsearch.Elasticsearch(server.url) as client:
        client._otel.tracer = spans.provider.get_tracer("elasticsearch-api")  # noqa: SLF001 - of the global provider
        in_request(spans, lambda: client.search(index="passages", **ASKED["elasticsearch"]))

    assert spans.names == ["search", "request"]
    assert spans.all[0].attributes["db.operation.name"] == "search"
    assert semconv.STAGE not in spans.all[0].attributes
