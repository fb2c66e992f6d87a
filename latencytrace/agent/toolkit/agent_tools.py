"""Tools that an agent calls, each under its own name."""

from collections.abc import Callable
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, timed
from latencytrace.agent.toolkit.calls import Build
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def timed_tools(
    name_of: Callable[..., object],
    describe_result: Callable[[Any], HookAttributes] | None = None,
) -> Build:
    """Build what times a call of tools, sync or async; a tool within one is its inner half.

    Args:
        name_of: Finds the name of a tool among the arguments of the call.
        describe_result: Attributes from what the call returned.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
            with guarded("timing a tool", recorder.on_fault):
                if recorder.suppressed() or recorder.inside(Stage.TOOL):
                    return None
                noted: HookAttributes = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
                name = f"execute_tool {name_of(*args, **kwargs)}"
                started = recorder.start(name, Stage.TOOL, noted)
                return Call(Stage.TOOL, started, recorder.on_fault, describe_result)
            return None

        return timed(original, begin)

    return build
