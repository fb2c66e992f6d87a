"""Tools of Pydantic AI's agents; models are seen by their own clients' hooks."""

from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.agent_tools import timed_tools


def _name(_: object, validated: Any, **__: object) -> object:
    return validated.call.tool_name


class PydanticAiHook(Hook):
    """Times each tool that an agent calls; the agent and its graph explain nothing."""

    requires = ("pydantic-ai-slim >= 2.0",)
    patches = (
        Replacement(
            "pydantic_ai.tool_manager", "ToolManager.execute_tool_call", timed_tools(_name)
        ),
    )
