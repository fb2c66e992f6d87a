"""Pipelines of `transformers`: one span a call, and in it preprocess, forward and postprocess.

A call over many inputs is a stream: what is done for each of them is noted as intervals of
the call's span, and only its first forward passes have spans, so that a data set of any
length costs a bounded number.
"""

import inspect
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from opentelemetry.context import Context, create_key, get_value, set_value

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.agent.toolkit.calls import before
from latencytrace.agent.toolkit.models.calls import model_attributes
from latencytrace.model.stage import Stage

_PIPELINES = "transformers.pipelines"
_BASE = f"{_PIPELINES}.base"
_TASKS = (
    "any_to_any", "audio_classification", "automatic_speech_recognition", "decision",
    "depth_estimation", "document_question_answering", "feature_extraction", "fill_mask",
    "image_classification", "image_feature_extraction", "image_segmentation",
    "image_text_to_text", "keypoint_matching", "mask_generation", "object_detection",
    "table_question_answering", "text_classification", "text_generation", "text_to_audio",
    "token_classification", "video_classification", "zero_shot_audio_classification",
    "zero_shot_classification", "zero_shot_image_classification", "zero_shot_object_detection",
)  # fmt: skip
_RUN = create_key("latencytrace.pipeline")
_ITERATOR = "_latencytrace_run"  # on an iterator that a pipeline returned
_MAX_FORWARD_SPANS = 32  # of one call


class Run:
    """One call of a pipeline, over one input or many."""

    def __init__(self, recorder: Recorder, pipeline: Any) -> None:
        self.recorder = recorder
        attributes = model_attributes(getattr(pipeline, "model", None))
        self.timing = recorder.start(f"pipeline {pipeline.task or ''}".strip(), None, attributes)
        self.many = False
        self._forward_passes = 0
        self._last_ns = self.timing.started_ns

    def stream(self) -> None:
        """Note what is done for each of many inputs as intervals."""
        if not self.many:
            self.many = True
            self.timing.collect_intervals()

    def context(self) -> Context:
        """The current context with this call in it."""
        return set_value(_RUN, self, self.timing.context())

    def call(self, work: Callable[[], Any]) -> Any:
        """Do a part of the call's work in its context."""
        try:
            return call_in(self.context(), work)
        finally:
            self._last_ns = monotonic_ns()

    def interleaved(self, stage: Stage, work: Callable[[], Any]) -> Any:
        """Do work for one of many inputs."""
        intervals = self.timing.intervals
        if intervals is None or not intervals.begin(stage):  # the inner half of what has begun
            return work()
        started_ns = monotonic_ns()
        try:
            return self.call(work)
        finally:
            with guarded("noting an interval", self.recorder.on_fault):
                intervals.add(stage, started_ns)

    def may_have_a_span(self) -> bool:
        """Count one more forward pass, and say whether it gets a span of its own."""
        self._forward_passes += 1
        return self._forward_passes <= _MAX_FORWARD_SPANS

    def end(self, error: BaseException | None = None) -> None:
        with guarded("ending a pipeline", self.recorder.on_fault):
            if error is not None:
                self.timing.fail(error)
            self.timing.end()

    def end_dropped(self) -> None:
        """End a call with an abandoned iterator, at the end of its last input."""
        with guarded("ending a pipeline", self.recorder.on_fault):
            self.timing.fail(GeneratorExit())
            self.timing.end(self._last_ns)


def _current_run() -> Run | None:
    run = get_value(_RUN)
    return run if isinstance(run, Run) else None


def time_call(recorder: Recorder, original: Timed) -> Timed:
    """Time a call, and if it returns an iterator, until that is exhausted or dropped."""

    def begin(pipeline: object) -> Run | None:
        with guarded("starting a pipeline", recorder.on_fault):
            if not recorder.suppressed() and _current_run() is None:
                return Run(recorder, pipeline)
        return None

    @wraps(original)
    def __call__(self: object, *args: Any, **kwargs: Any) -> Any:
        run = begin(self)
        if run is None:
            return original(self, *args, **kwargs)
        try:
            result = run.call(lambda: original(self, *args, **kwargs))
        except BaseException as error:
            run.end(error)
            raise
        if type(result).__name__ == "PipelineIterator":
            setattr(result, _ITERATOR, run)
            weakref.finalize(result, run.end_dropped)
        else:
            run.end()
        return result

    return __call__


def time_next(_recorder: Recorder, original: Timed) -> Timed:
    """Time each step of an iterator that a pipeline returned as part of its call."""

    @wraps(original)
    def __next__(self: object) -> Any:
        run = vars(self).get(_ITERATOR)
        if not isinstance(run, Run):
            return original(self)
        try:
            return run.call(lambda: original(self))
        except StopIteration:
            run.end()
            raise
        except BaseException as error:
            run.end(error)
            raise

    return __next__


def _note_many(_: Recorder, __: Arguments) -> None:
    run = _current_run()
    if run is not None:
        run.stream()


_many = before("noting many inputs", _note_many)


def time_part(stage: Stage) -> Callable[[Recorder, Timed], Timed]:
    """Build what times the work before or after a forward pass."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        patch = Patch(_BASE, f"Pipeline.{stage}", stage)
        as_span = timed(original, beginning(original, patch, recorder))

        @wraps(original)
        def part(*args: Any, **kwargs: Any) -> Any:
            run = _current_run()
            if run is None:
                return original(*args, **kwargs)
            if not run.many:
                return as_span(*args, **kwargs)
            result = run.interleaved(stage, lambda: original(*args, **kwargs))
            return _advanced(run, stage, result) if inspect.isgenerator(result) else result

        return part

    return build


def _advanced(run: Run, stage: Stage, chunks: Iterator[Any]) -> Iterator[Any]:
    """Note each chunk's making as work of a stage, but not what is done with it meanwhile."""
    end = object()
    while (chunk := run.interleaved(stage, lambda: next(chunks, end))) is not end:
        yield chunk


def time_forward(recorder: Recorder, original: Timed) -> Timed:
    """Time a forward pass; what generates within it has spans of its own."""
    patch = Patch(_BASE, "Pipeline.forward", Stage.FORWARD)
    as_span = timed(original, beginning(original, patch, recorder))

    @wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        run = _current_run()
        if run is None:
            return original(*args, **kwargs)
        if not run.many or run.may_have_a_span():
            return as_span(*args, **kwargs)
        return call_in(
            recorder.suppressing(),
            run.interleaved,
            Stage.FORWARD,
            lambda: original(*args, **kwargs),
        )

    return forward


def _parts_of(task: str) -> tuple[Replacement, ...]:
    """Patches of the pipeline of one task, made once the program imports its module."""
    name = "".join(word.capitalize() for word in task.split("_"))
    return tuple(
        Replacement(
            f"{_PIPELINES}.{task}", f"{name}Pipeline.{method}", time_part(stage), optional=True
        )
        for method, stage in (("preprocess", Stage.PREPROCESS), ("postprocess", Stage.POSTPROCESS))
    )


class TransformersPipelinesHook(Hook):
    """Times the pipelines of every task; their tokenizers and models have hooks of their own."""

    requires = ("transformers >= 4.40",)
    patches = (
        Replacement(_BASE, "Pipeline.__call__", time_call),
        Replacement(_BASE, "Pipeline.get_iterator", _many),
        Replacement(_BASE, "ChunkPipeline.get_iterator", _many),
        Replacement(_BASE, "Pipeline.forward", time_forward),
        Replacement(f"{_PIPELINES}.pt_utils", "PipelineIterator.__next__", time_next),
        *(part for task in _TASKS for part in _parts_of(task)),
    )
