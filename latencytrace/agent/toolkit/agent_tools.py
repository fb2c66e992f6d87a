"""Tools that an agent calls, and checks around it, each under its own name."""

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
    noted: HookAttributes = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
    return _named(
        Stage.TOOL,
        lambda *args, **kwargs: f"execute_tool {name_of(*args, **kwargs)}",
        noted,
        describe_result,
    )


def timed_guards(name_of: Callable[..., object | None]) -> Build:
    """Build what times a check of inputs or outputs, sync or async.

    Args:
        name_of: Finds the name of a check among the arguments of the call; None: it is none.
    """
    return _named(Stage.GUARDRAIL, name_of, {}, None)


def _named(
    stage: Stage,
    name_of: Callable[..., object | None],
    attributes: HookAttributes,
    describe_result: Callable[[Any], HookAttributes] | None,
) -> Build:
    def build(recorder: Recorder, original: Timed) -> Timed:
        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
            with guarded(f"timing a {stage.value}", recorder.on_fault):
                if recorder.suppressed() or recorder.inside(stage):
                    return None
                name = name_of(*args, **kwargs)
                if name is None:
                    return None
                started = recorder.start(str(name), stage, {**attributes})
                return Call(stage, started, recorder.on_fault, describe_result)
            return None

        return timed(original, begin)

    return build
