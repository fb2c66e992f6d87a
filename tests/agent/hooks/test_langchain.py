"""The hook of LangChain: its own tools, retrievers and stores, and a graph of LangGraph's."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.langchain import LangchainHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

caches = pytest.importorskip("langchain_core.caches")
tools = pytest.importorskip("langchain_core.tools")
retrievers = pytest.importorskip("langchain_core.retrievers")
splitters = pytest.importorskip("langchain_text_splitters")
stores = pytest.importorskip("langchain_core.vectorstores.in_memory")
embeddings = pytest.importorskip("langchain_core.embeddings.fake")
documents = pytest.importorskip("langchain_core.documents")
messages = pytest.importorskip("langchain_core.messages")
prebuilt = pytest.importorskip("langgraph.prebuilt")
graph = pytest.importorskip("langgraph.graph")

HOOKS = (LangchainHook,)


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def fail(secret: str) -> None:
    """Fail, whatever it is given."""
    raise LookupError(secret)


ADD = tools.tool(add)
FAIL = tools.tool(fail)


def test_a_tool_is_one_span_under_its_name(spans: Spans) -> None:
    assert ADD.invoke({"one": 1, "other": 2}) == 3

    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.TOOL,
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
    }
    assert spans.only.name == "execute_tool add"


def test_a_tool_that_is_awaited_and_fails_ends_its_span_with_its_error(spans: Spans) -> None:
    with pytest.raises(LookupError):
        asyncio.run(FAIL.ainvoke({"secret": "a secret"}))

    assert spans.only.name == "execute_tool fail"
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_tools_that_a_graph_calls_are_spans_of_its_request(spans: Spans) -> None:
    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("tools", prebuilt.ToolNode([ADD]))
    builder.add_edge(graph.START, "tools")
    called = {"name": "add", "args": {"one": 1, "other": 2}, "id": "1", "type": "tool_call"}
    asked = messages.AIMessage("", tool_calls=[called, {**called, "id": "2"}])
    answered: list[Any] = []

    in_request(spans, lambda: answered.append(builder.compile().invoke({"messages": [asked]})))

    assert [message.content for message in answered[0]["messages"][1:]] == ["3", "3"]
    assert spans.names == ["execute_tool add", "execute_tool add", "request"]
    assert {span.parent_id for span in spans.all[:2]} == {spans.all[2].span_id}


def test_a_search_of_the_store_in_memory_is_one_span_however_it_is_asked(spans: Spans) -> None:
    store = stores.InMemoryVectorStore(embeddings.DeterministicFakeEmbedding(size=4))
    store.add_texts(["a secret", "another"])

    assert len(store.similarity_search("a secret", k=1)) == 1
    assert len(store.as_retriever().invoke("a secret")) == 2

    assert spans.names == ["similarity_search", "similarity_search"]
    assert set(spans.stages) == {Stage.RETRIEVE}
    assert "secret" not in attribute_text(spans)


def test_a_retriever_of_the_programs_own_is_retrieving(spans: Spans) -> None:
    class Own(retrievers.BaseRetriever):  # type: ignore[misc,name-defined]  # it need not be there
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Any]:
            return [documents.Document(query)]

    assert len(Own().invoke("a secret")) == 1
    assert len(asyncio.run(Own().ainvoke("a secret"))) == 1

    assert (spans.names, set(spans.stages)) == (["retrieve", "retrieve"], {Stage.RETRIEVE})


def test_splitting_within_a_request_is_preprocessing(spans: Spans) -> None:
    splitter = splitters.RecursiveCharacterTextSplitter(chunk_size=10, chunk_overlap=0)
    splitter.split_text("outside of any request")

    in_request(spans, lambda: splitter.split_documents([documents.Document("one two " * 5)]))

    assert (spans.names, spans.stages[0]) == (["split_text", "request"], Stage.PREPROCESS)


def test_a_cache_of_answers_is_looked_into_within_a_request(spans: Spans) -> None:
    cache = caches.InMemoryCache()
    cache.update("a secret", "a model", [])  # outside of any request

    in_request(spans, lambda: asyncio.run(cache.alookup("a secret", "a model")))

    assert (spans.names, spans.stages[0]) == (["cache lookup", "request"], Stage.CACHE)
    assert "secret" not in attribute_text(spans)
