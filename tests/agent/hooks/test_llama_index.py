"""The hook of LlamaIndex: its own tools, index in memory and parser."""

import asyncio

import pytest

from latencytrace.agent.hooks.agent_frameworks import LlamaIndexHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, in_request

tools = pytest.importorskip("llama_index.core.tools")
core = pytest.importorskip("llama_index.core")
embeddings = pytest.importorskip("llama_index.core.embeddings.mock_embed_model")
parsers = pytest.importorskip("llama_index.core.node_parser")

HOOKS = (LlamaIndexHook,)


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


def fail(secret: str) -> None:
    """Fail, whatever it is given."""
    raise LookupError(secret)


def test_a_tool_is_one_span_under_its_name_however_it_is_called(spans: Spans) -> None:
    tool = tools.FunctionTool.from_defaults(add)

    assert tool(1, 2).raw_output == 3
    assert asyncio.run(tool.acall(one=1, other=2)).raw_output == 3

    assert spans.names == ["execute_tool add", "execute_tool add"]
    assert dict(spans.all[0].attributes) == {
        semconv.STAGE: Stage.TOOL,
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
    }


def test_what_a_tool_raises_passes_through(spans: Spans) -> None:
    with pytest.raises(LookupError):
        tools.FunctionTool.from_defaults(fail).call("a secret")

    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_an_index_in_memory_is_searched_and_made(spans: Spans) -> None:
    passages = [core.Document(text=text) for text in ("a secret", "another")]

    def work() -> None:
        nodes = parsers.SentenceSplitter().get_nodes_from_documents(passages)
        model = embeddings.MockEmbedding(embed_dim=4)
        index = core.VectorStoreIndex(nodes, embed_model=model)
        assert len(index.as_retriever(similarity_top_k=1).retrieve("a secret")) == 1

    in_request(spans, work)

    assert spans.names == ["get_nodes_from_documents", "query", "request"]
    assert spans.stages[:2] == [Stage.PREPROCESS, Stage.RETRIEVE]
    assert spans.all[1].attributes[semconv.GEN_AI_RETRIEVAL_TOP_K] == 1
    assert "secret" not in attribute_text(spans)
