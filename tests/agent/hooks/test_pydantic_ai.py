"""The hook of Pydantic AI, with its own model for tests, which calls every tool."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.agent_frameworks import PydanticAiHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

pydantic_ai = pytest.importorskip("pydantic_ai")
test_model = pytest.importorskip("pydantic_ai.models.test")

HOOKS = (PydanticAiHook,)


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def fail(secret: str) -> None:
    """Fail, whatever it is given."""
    raise LookupError(f"a secret {secret}")


def agent_of(*tools: Any) -> Any:
    return pydantic_ai.Agent(test_model.TestModel(), tools=tools)


def test_a_tool_is_one_span_under_its_name(spans: Spans) -> None:
    assert asyncio.run(agent_of(add).run("a question")).output == '{"add":0}'

    assert spans.only.name == "execute_tool add"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.TOOL,
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
    }


def test_a_tool_that_is_awaited_and_fails_ends_its_span_with_its_error(spans: Spans) -> None:
    with pytest.raises(LookupError):
        asyncio.run(agent_of(fail).run("a question"))

    assert spans.only.name == "execute_tool fail"
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_a_tool_of_a_streamed_run_is_the_same(spans: Spans) -> None:
    async def run() -> Any:
        async with agent_of(add).run_stream("a question") as result:
            return await result.get_output()

    assert asyncio.run(run()) == '{"add":0}'
    assert spans.names == ["execute_tool add"]
