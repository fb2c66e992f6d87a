"""The hook of DSPy, with its own tools and retriever."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.agent_frameworks import DspyHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

dspy = pytest.importorskip("dspy")
numpy = pytest.importorskip("numpy")

HOOKS = (DspyHook,)


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def fail(text: str) -> None:
    """Fail, whatever it is given."""
    raise LookupError(text)


def embed(texts: list[str]) -> Any:
    return numpy.array([[len(text), 1.0] for text in texts], dtype=numpy.float32)


def test_a_tool_is_one_span_under_its_name(spans: Spans) -> None:
    assert dspy.Tool(add)(one=1, other=2) == 3

    assert spans.only.name == "execute_tool add"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.TOOL,
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
    }


def test_a_tool_that_is_awaited_and_fails_ends_its_span_with_its_error(spans: Spans) -> None:
    with pytest.raises(LookupError):
        asyncio.run(dspy.Tool(fail).acall(text="a secret"))

    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_a_search_of_its_own_retriever_is_retrieving(spans: Spans) -> None:
    search = dspy.retrievers.Embeddings(corpus=["one", "fifteen"], embedder=embed, k=1)

    assert len(search("a secret").passages) == 1

    assert (spans.only.name, spans.stages) == ("retrieve", [Stage.RETRIEVE])
    assert "secret" not in attribute_text(spans)
