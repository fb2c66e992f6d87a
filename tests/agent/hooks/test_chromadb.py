"""The hook of `chromadb`, in the process and against a real server."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from chromadb.telemetry import opentelemetry as native_tracing
from opentelemetry.trace import SpanKind, StatusCode

from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.vector_databases import ChromadbHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.servers.ports import free_port
from tests.support.waiting import until

IDS = ["one", "two", "three"]
VECTORS: Any = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
QUERY: Any = [[1.0, 0.1]]


class Lengths(chromadb.EmbeddingFunction[chromadb.Documents]):  # type: ignore[misc]
    """Embeds a text as its length."""

    def __init__(self) -> None:
        pass

    def __call__(self, input: chromadb.Documents) -> chromadb.Embeddings:  # noqa: A002 - chromadb's
        """Embed each text."""
        return [np.array([len(text), 1.0], np.float32) for text in input]

    @staticmethod
    def name() -> str:
        """What collections remember it by."""
        return "lengths"

    @staticmethod
    def build_from_config(_: dict[str, Any]) -> "Lengths":
        """Make it again."""
        return Lengths()

    def get_config(self) -> dict[str, Any]:
        """What `build_from_config` gets."""
        return {}


def settings() -> Settings:
    """New ones each time: a client writes into those that it gets."""
    return Settings(anonymized_telemetry=False, allow_reset=True)


@pytest.fixture
def collection() -> Iterator[chromadb.Collection]:
    client = chromadb.EphemeralClient(settings())
    collection = client.create_collection("passages", embedding_function=Lengths())
    collection.add(ids=IDS, embeddings=VECTORS, documents=["a secret"] * 3)
    yield collection
    client.reset()


@pytest.fixture
def spans(collection: chromadb.Collection) -> Iterator[Spans]:
    """What is made once the collection is filled."""
    assert collection.count() == 3
    with hooked(ChromadbHook, HttpxHook) as spans:
        yield spans


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where a server listens that is no part of this process."""
    port = free_port()
    chroma = [sys.executable, "-c", "from chromadb.cli.cli import app; app()", "run"]
    folder = tmp_path_factory.mktemp("chroma")
    command = [*chroma, "--host", "127.0.0.1", "--port", str(port), "--path", str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, cwd=folder
    ) as server:  # it logs there
        try:
            until(lambda: listens(port))
            yield port
        finally:
            server.terminate()


@pytest.fixture
def remote(port: int) -> Iterator[chromadb.Collection]:
    """A collection of the server's, filled."""
    client: Any = chromadb.HttpClient("127.0.0.1", port, settings=settings())
    collection = client.get_or_create_collection("passages", embedding_function=None)
    collection.upsert(ids=IDS, embeddings=VECTORS)
    yield collection
    client._server._session.close()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_search_is_one_span_of_retrieving(spans: Spans, collection: chromadb.Collection) -> None:
    found = collection.query(QUERY, n_results=2)

    assert found["ids"] == [["one", "three"]]
    assert spans.only.name == "query"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "chroma",
        semconv.DB_COLLECTION_NAME: "passages",
        semconv.GEN_AI_RETRIEVAL_TOP_K: 2,
    }


@pytest.mark.parametrize(
    ("name", "call", "stage"),
    [
        ("get", lambda records: records.get(["one"]), Stage.RETRIEVE),
        ("peek", lambda records: records.peek(2), Stage.RETRIEVE),
        ("add", lambda records: records.add("four", QUERY[0]), Stage.DATABASE),
        ("upsert", lambda records: records.upsert("one", QUERY[0]), Stage.DATABASE),
        ("update", lambda records: records.update("one", QUERY[0]), Stage.DATABASE),
        ("delete", lambda records: records.delete(["one"]), Stage.DATABASE),
    ],
)
def test_what_else_a_collection_does_is_a_span_too(
    spans: Spans,
    collection: chromadb.Collection,
    name: str,
    call: Callable[[chromadb.Collection], object],
    stage: Stage,
) -> None:
    call(collection)

    assert (spans.names, spans.stages) == ([name], [stage])
    assert spans.only.attributes[semconv.DB_COLLECTION_NAME] == "passages"


def test_texts_are_embedded_within_the_search(
    spans: Spans, collection: chromadb.Collection
) -> None:
    collection.query(query_texts=["a secret", "another secret"], n_results=1)

    embedding, search = spans.all
    assert (embedding.name, spans.stages) == ("embed", [Stage.EMBED, Stage.RETRIEVE])
    assert embedding.parent == search.get_span_context()
    assert embedding.attributes[semconv.BATCH_SIZE] == 2
    assert "secret" not in attribute_text(spans)


def test_an_embedding_function_with_a_hook_of_its_own_makes_no_second_span(
    spans: Spans, collection: chromadb.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_as_inner: list[bool] = []
    original = Lengths.__call__

    def look(self: Lengths, input: chromadb.Documents) -> chromadb.Embeddings:  # noqa: A002
        seen_as_inner.append(spans.recorder.inside(Stage.EMBED))
        return original(self, input)

    monkeypatch.setattr(Lengths, "__call__", look)

    collection.query(query_texts=["text"], n_results=1)

    assert seen_as_inner == [True]


def test_what_chromadb_raises_passes_through(
    spans: Spans, collection: chromadb.Collection
) -> None:
    with pytest.raises(ValueError, match=r"\$secret"):
        collection.query(QUERY, where={"topic": {"$secret": 1}})

    assert spans.only.status.status_code is StatusCode.ERROR
    assert "secret" not in attribute_text(spans)


def test_a_search_over_http_has_its_exchange_inside(
    remote: chromadb.Collection, spans: Spans
) -> None:
    found = remote.query(QUERY, n_results=2)

    exchange, search = spans.all
    assert found["ids"] == [["one", "three"]]
    assert spans.stages == [Stage.NETWORK, Stage.RETRIEVE]
    assert exchange.kind is SpanKind.CLIENT
    assert exchange.parent == search.get_span_context()


def test_the_async_client_is_timed_while_it_is_awaited(spans: Spans, port: int) -> None:
    async def search() -> list[list[str]]:
        client: Any = await chromadb.AsyncHttpClient("127.0.0.1", port, settings=settings())
        collection = await client.get_or_create_collection(
            "passages", embedding_function=Lengths()
        )
        await collection.upsert(ids=IDS, embeddings=VECTORS)
        spans.all.clear()
        found = await collection.query(query_texts=["text"], n_results=1)
        await client._server.__aexit__(None, None, None)
        ids: list[list[str]] = found["ids"]
        return ids

    found = asyncio.run(search())

    embedding, exchange, query = spans.all
    assert found
    assert spans.stages == [Stage.EMBED, Stage.NETWORK, Stage.RETRIEVE]
    assert embedding.parent == exchange.parent == query.get_span_context()


def test_chromadbs_own_spans_lie_within_ours(
    remote: chromadb.Collection, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = spans.provider.get_tracer(native_tracing.__name__)
    monkeypatch.setattr(native_tracing, "tracer", own)
    monkeypatch.setattr(native_tracing, "granularity", native_tracing.OpenTelemetryGranularity.ALL)

    remote.query(QUERY, n_results=2)

    exchange, native, search = spans.all
    assert (native.name, native.tracer.name) == ("FastAPI._query", native_tracing.__name__)
    assert exchange.trace_id == native.trace_id == search.trace_id
    assert search.parent is None
