"""The hook of OpenAI's Agents SDK, with a model that says what the test has it say."""

import asyncio
import json
from typing import Any

import pytest

from latencytrace.agent.hooks.agent_frameworks import OpenaiAgentsHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

agents = pytest.importorskip("agents")
responses = pytest.importorskip("openai.types.responses")

HOOKS = (OpenaiAgentsHook,)


class Scripted(agents.Model):  # type: ignore[misc,name-defined,unused-ignore]  # it need not be there
    """Calls a tool, then answers."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.asked = 0

    async def get_response(self, *_: object, **__: object) -> Any:
        """Answer a turn."""
        self.asked += 1
        output = [_call(self.tool) if self.asked == 1 else _answer("done")]
        return agents.ModelResponse(output=output, usage=agents.Usage(), response_id=None)

    def stream_response(self, *_: object, **__: object) -> Any:
        """Answer a turn by pieces, which no test here asks for."""
        raise NotImplementedError


def _call(tool: str) -> Any:
    return responses.ResponseFunctionToolCall(
        arguments=json.dumps({"text": "a secret"}), call_id="1", name=tool, type="function_call"
    )


def _answer(text: str) -> Any:
    part = responses.ResponseOutputText(annotations=[], text=text, type="output_text")
    return responses.ResponseOutputMessage(
        id="1", content=[part], role="assistant", status="completed", type="message"
    )


@agents.function_tool  # type: ignore[untyped-decorator,unused-ignore]
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@agents.function_tool(failure_error_function=None)  # type: ignore[untyped-decorator,unused-ignore]
async def fail(text: str) -> str:
    """Fail."""
    raise LookupError(text)


@agents.input_guardrail  # type: ignore[untyped-decorator,unused-ignore]
async def check(*_: object) -> Any:
    """Find nothing wrong."""
    return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def run(agent: Any) -> Any:
    told = agents.RunConfig(tracing_disabled=True)
    return asyncio.run(agents.Runner.run(agent, "a question", run_config=told)).final_output


def test_a_tool_is_one_span_under_its_name(spans: Spans) -> None:
    agent = agents.Agent(name="helper", tools=[shout], model=Scripted("shout"))

    assert run(agent) == "done"

    assert spans.only.name == "execute_tool shout"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.TOOL,
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
    }
    assert "secret" not in attribute_text(spans)


def test_a_tool_that_fails_ends_its_span_with_its_error(spans: Spans) -> None:
    agent = agents.Agent(name="helper", tools=[fail], model=Scripted("fail"))

    with pytest.raises(Exception, match="fail"):
        run(agent)

    assert spans.only.name == "execute_tool fail"
    assert spans.only.attributes[semconv.ERROR_TYPE]
    assert "secret" not in attribute_text(spans)


def test_a_guardrail_is_a_span_of_its_stage(spans: Spans) -> None:
    agent = agents.Agent(
        name="helper", tools=[shout], model=Scripted("shout"), input_guardrails=[check]
    )

    assert run(agent) == "done"

    assert sorted(spans.names) == ["execute_tool shout", "guardrail"]
    assert [span.name for span in spans.of(Stage.GUARDRAIL)] == ["guardrail"]
