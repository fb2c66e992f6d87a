"""The hook of turbopuffer: its own clients, against a server that answers as it does."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.vector_databases import TurbopufferHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.servers.recording import Received, RecordingServer, Response

turbopuffer = pytest.importorskip("turbopuffer")

HOOKS = (TurbopufferHook,)
ROW = {"id": 1, "$dist": 0.1, "text": "a secret"}
BILLING = {"billable_logical_bytes_queried": 1, "billable_logical_bytes_returned": 1}
TIMES = {
    "approx_namespace_size": 1, "cache_hit_ratio": 1.0, "cache_temperature": "hot",
    "exhaustive_search_count": 1, "query_execution_ms": 1, "server_total_ms": 1,
}  # fmt: skip


def answer(received: Received) -> Response:
    """Answers of the service to a query, to several, to a write, and to unknown names."""
    said: dict[str, object] = {"billing": BILLING, "performance": TIMES}
    if "/missing" in received.path:
        gone = {"status": "error", "error": "namespace 'missing' was not found"}
        return Response(404, json.dumps(gone).encode(), {"content-type": "application/json"})
    if not received.path.endswith("/query"):
        said |= {"status": "OK", "message": "OK", "rows_affected": 2}
    elif "stainless_overload" in received.target:
        said["results"] = [{"rows": [ROW]}, {"rows": [ROW]}]
    else:
        said["rows"] = [ROW]
    return Response(body=json.dumps(said).encode(), headers={"content-type": "application/json"})


@pytest.fixture
def url() -> Iterator[str]:
    with RecordingServer(answer) as server:
        yield server.url


def test_a_search_is_retrieving_and_a_write_the_databases(spans: Spans, url: str) -> None:
    with turbopuffer.Turbopuffer(api_key="of a test", base_url=url) as client:
        passages = client.namespace("passages")
        found = passages.query(rank_by=("vector", "ANN", [0.1, 0.2]), top_k=3)
        passages.write(
            upsert_rows=[{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1]}],
            distance_metric="cosine_distance",
        )

    assert [row.id for row in found.rows] == [1]
    assert (spans.names, spans.stages) == (
        ["query", "write"], [Stage.RETRIEVE, Stage.DATABASE],
    )  # fmt: skip
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "turbopuffer",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }
    assert spans.all[1].attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)


def test_several_searches_at_once_are_one_span(spans: Spans, url: str) -> None:
    queries = [{"rank_by": ("vector", "ANN", [0.1]), "limit": 2}] * 2

    with turbopuffer.Turbopuffer(api_key="of a test", base_url=url) as client:
        found = client.namespace("passages").multi_query(queries=queries)

    assert len(found.results) == 2
    assert (spans.names, spans.stages) == (["multi_query"], [Stage.RETRIEVE])
    assert spans.only.attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2


def test_the_async_client_is_timed_while_it_is_awaited(spans: Spans, url: str) -> None:
    async def search() -> None:
        async with turbopuffer.AsyncTurbopuffer(api_key="of a test", base_url=url) as client:
            found = await client.namespace("passages").query(rank_by=("id", "asc"), top_k=5)
            assert [row.id for row in found.rows] == [1]

    asyncio.run(search())

    assert (spans.names, spans.stages) == (["query"], [Stage.RETRIEVE])
    assert spans.only.attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] == 5


def test_what_the_library_raises_reaches_the_program(spans: Spans, url: str) -> None:
    with (
        turbopuffer.Turbopuffer(api_key="of a test", base_url=url) as client,
        pytest.raises(turbopuffer.NotFoundError),
    ):
        client.namespace("missing").query(rank_by=("id", "asc"), top_k=5)

    assert spans.only.status.status_code is StatusCode.ERROR
