"""Tools of the Model Context Protocol, where its library does not trace them itself."""

import sys
from functools import wraps
from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.model import semconv

_TRACES_ITSELF: Final = "mcp.shared._otel"  # since version 2, on either side


def _name(_: object, name: str, *__: object, **___: object) -> object:
    return name


def _failed(result: Any) -> HookAttributes:
    return {semconv.ERROR_TYPE: "tool_error"} if getattr(result, "isError", False) else {}


_time_tools: Final = timed_tools(_name, _failed)


def time_asked_tools(recorder: Recorder, original: Timed) -> Timed:
    timed = _time_tools(recorder, original)

    @wraps(original)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        call = original if _TRACES_ITSELF in sys.modules else timed
        return await call(*args, **kwargs)

    return call_tool


class McpHook(Hook):
    """Times a tool where a client asks for it, and where a server calls it."""

    requires = ("mcp >= 1.9",)
    patches = (
        Replacement("mcp.client.session", "ClientSession.call_tool", time_asked_tools),
        # Of version 1; what took its place traces itself.
        Replacement("mcp.server.fastmcp.tools.tool_manager", "ToolManager.call_tool", _time_tools),
    )
