"""The hook of CrewAI: its own tools, as its agents call them."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.agent_frameworks import CrewaiHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
tools = pytest.importorskip("crewai.tools")
pytest.importorskip("crewai.tools.structured_tool")

HOOKS = (CrewaiHook,)


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


ADD = tools.tool("add")(add)


class Fail(tools.BaseTool):  # type: ignore[misc,name-defined]  # it need not be there
    """A tool of a class of its own."""

    name: str = "fail"
    description: str = "Fail, whatever it is given."

    def _run(self, text: str) -> Any:
        raise LookupError(text)


def test_a_tool_is_one_span_under_its_name(spans: Spans) -> None:
    assert ADD.run(one=1, other=2) == 3

    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.TOOL,
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
    }
    assert spans.only.name == "execute_tool add"


def test_an_agents_call_of_it_is_too(spans: Spans) -> None:
    structured = ADD.to_structured_tool()

    assert structured.invoke({"one": 1, "other": 2}) == 3
    assert asyncio.run(structured.ainvoke({"one": 1, "other": 2})) == 3

    assert spans.names == ["execute_tool add", "execute_tool add"]


def test_one_that_fails_ends_its_span_with_its_error(spans: Spans) -> None:
    with pytest.raises(LookupError):
        Fail().run(text="a secret")

    assert spans.only.name == "execute_tool fail"
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)
