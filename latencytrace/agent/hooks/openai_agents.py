"""Tools and guardrails of OpenAI's Agents SDK; models are seen by their client's hook."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.model.stage import Stage

_RUN: Final = "agents.run_internal.tool_execution"


def _name(*, function_tool: Any, **_: object) -> object:
    return function_tool.name


_time_tools: Final = timed_tools(_name)


class OpenaiAgentsHook(Hook):
    """Times what an agent has done; agents, turns and handoffs explain nothing."""

    requires = ("openai-agents >= 0.20",)
    patches = (
        # Where it is called from, which has its own name for it.
        Replacement(_RUN, "_invoke_function_tool_with_metadata", _time_tools, optional=True),
        Replacement(_RUN, "invoke_function_tool", _time_tools, optional=True),
        Replacement("agents.realtime.session", "invoke_function_tool", _time_tools),
        Patch("agents.guardrail", "InputGuardrail.run", Stage.GUARDRAIL, name="guardrail"),
        Patch("agents.guardrail", "OutputGuardrail.run", Stage.GUARDRAIL, name="guardrail"),
    )
