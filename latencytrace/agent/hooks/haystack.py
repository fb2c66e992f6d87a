"""Components of Haystack's pipelines that no library below tells of, and its tools."""

from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Final

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.agent_tools import timed_tools
from latencytrace.model.stage import Stage

# By the end of a component's name. What embeds or generates is seen by the hooks of what it calls.
_STAGES: Final = {
    "Retriever": Stage.RETRIEVE,
    "Ranker": Stage.RERANK,
    "Splitter": Stage.PREPROCESS,
    "Cleaner": Stage.PREPROCESS,
    "Preprocessor": Stage.PREPROCESS,
    "PromptBuilder": Stage.PREPROCESS,
    "ToDocument": Stage.PREPROCESS,
    "Converter": Stage.PREPROCESS,
    "Joiner": Stage.POSTPROCESS,
    "AnswerBuilder": Stage.POSTPROCESS,
    "Validator": Stage.POSTPROCESS,
}

_time_tools: Final = timed_tools(lambda tool, *_, **__: tool.name)


class _Within:
    """A component's own span, of Haystack's tracing, within ours."""

    def __init__(self, span: AbstractContextManager[Any], call: Call) -> None:
        self._span = span
        self._call = call

    def __enter__(self) -> Any:
        self._call.activate()
        return self._span.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return self._span.__exit__(exc_type, error, traceback)
        finally:
            self._call.deactivate()
            if error is None:
                self._call.finish(None)
            else:
                self._call.fail(error.__cause__ or error)


def _stage_of(component: object) -> Stage | None:
    name = type(component).__name__
    return next((stage for end, stage in _STAGES.items() if name.endswith(end)), None)


def time_components(recorder: Recorder, original: Timed) -> Timed:
    """Time each component of a pipeline that is of a kind with a stage."""

    @wraps(original)
    def create_span(component_name: str, instance: object, *args: Any, **kwargs: Any) -> Any:
        span = original(component_name, instance, *args, **kwargs)
        with guarded("timing a component", recorder.on_fault):
            stage = _stage_of(instance)
            if stage is not None and not recorder.suppressed() and not recorder.inside(stage):
                started = recorder.start(type(instance).__name__, stage)
                return _Within(span, Call(stage, started, recorder.on_fault))
        return span

    return create_span


class HaystackHook(Hook):
    """Times components by their kind, and tools; pipelines and agents explain nothing."""

    requires = ("haystack-ai >= 3.0",)
    patches = (
        Replacement(
            "haystack.core.pipeline.base", "PipelineBase._create_component_span", time_components
        ),
        Replacement("haystack.tools.tool", "Tool.invoke", _time_tools),
        Replacement("haystack.tools.tool", "Tool.invoke_async", _time_tools, optional=True),
    )
