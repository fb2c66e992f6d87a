"""The hook of `weaviate-client`: its own clients, and a server made of its own protocol."""

import asyncio
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from latencytrace.agent.hooks.vector_databases import WeaviateHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text
from tests.support.servers.recording import RecordingServer, Response

weaviate = pytest.importorskip("weaviate")

HOOKS = (WeaviateHook,)


class _Servicer:
    """Finds one object, whatever is searched for, and takes every batch."""

    def Search(self, request: Any, context: Any) -> Any:  # noqa: N802 - as gRPC names it
        if request.collection == "Nowhere":
            context.abort(grpc.StatusCode.NOT_FOUND, "no such collection")
        reply = _search().SearchReply(took=0.1)
        reply.results.add().metadata.id = "00000000-0000-0000-0000-000000000001"
        return reply

    def BatchObjects(self, _: Any, __: Any) -> Any:  # noqa: N802
        return _batch().BatchObjectsReply(took=0.1)


def _search() -> Any:
    from weaviate.connect import v4

    return v4.search_get_pb2


def _batch() -> Any:
    from weaviate.connect import v4

    return v4.batch_pb2


@pytest.fixture(scope="module")
def address() -> Iterator[dict[str, Any]]:
    """What a client finds both of its doors by."""
    from weaviate.proto.v1 import weaviate_pb2_grpc

    class Servicer(_Servicer, weaviate_pb2_grpc.WeaviateServicer):  # type: ignore[misc]  # it has no types
        """Answers the rest with UNIMPLEMENTED."""

    server = grpc.server(futures.ThreadPoolExecutor(2))
    weaviate_pb2_grpc.add_WeaviateServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    told = {"content-type": "application/json"}
    with RecordingServer(Response(body=b'{"version": "1.34.0"}', headers=told)) as rest:
        yield {
            "http_host": "127.0.0.1", "http_port": rest.server_port, "http_secure": False,
            "grpc_host": "127.0.0.1", "grpc_port": port, "grpc_secure": False,
            "skip_init_checks": True,
        }  # fmt: skip
    server.stop(None).wait()


@contextmanager
def collection(address: dict[str, Any], name: str) -> Iterator[Any]:
    """One of a client that is connected."""
    with weaviate.connect_to_custom(**address) as client:
        yield client.collections.get(name)


@pytest.mark.parametrize("kind", ["near_vector", "bm25", "hybrid", "fetch_objects"])
def test_whatever_a_query_asks_by_it_is_retrieving(
    spans: Spans, address: dict[str, Any], kind: str
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "near_vector": {"near_vector": [1.0, 0.0]},
        "bm25": {"query": "a secret"},
        "hybrid": {"query": "a secret", "vector": [1.0, 0.0]},
        "fetch_objects": {},
    }
    with collection(address, "Passages") as passages:
        found = getattr(passages.query, kind)(limit=3, **asked[kind])

    assert len(found.objects) == 1
    assert spans.only.name == "search"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "weaviate",
        semconv.DB_COLLECTION_NAME: "Passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 3,
    }


def test_the_async_client_is_timed_while_it_is_awaited(
    spans: Spans, address: dict[str, Any]
) -> None:
    async def search() -> None:
        async with weaviate.use_async_with_custom(**address) as client:
            await client.collections.get("Passages").query.near_vector([1.0, 0.0], limit=3)

    asyncio.run(search())

    assert (spans.only.name, spans.stages) == ("search", [Stage.RETRIEVE])


def test_an_error_of_the_server_passes_through(spans: Spans, address: dict[str, Any]) -> None:
    with (
        collection(address, "Nowhere") as nowhere,
        pytest.raises(weaviate.exceptions.WeaviateQueryError),
    ):
        nowhere.query.bm25("a secret")

    assert spans.only.attributes[semconv.ERROR_TYPE] == "WeaviateQueryError"
    assert "secret" not in attribute_text(spans)
