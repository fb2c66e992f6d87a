"""Forward passes of torch models that a program makes itself, within a request."""

import importlib
from typing import Any

from opentelemetry.trace import get_current_span

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Begin, Call, timed
from latencytrace.agent.toolkit.calls import Build, CountWithin
from latencytrace.agent.toolkit.models.calls import model_attributes
from latencytrace.agent.toolkit.models.own_loops import pass_of_own_loop
from latencytrace.agent.toolkit.models.torch_modules import (
    inherited_call,
    on_device,
    outside_graphs,
)
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

# What a pass is the inner half of: the library or model that makes it has a span of its own.
_WITHIN = (Stage.FORWARD, Stage.EMBED, Stage.RERANK, Stage.GUARDRAIL, Stage.PREFILL, Stage.DECODE)

_MOST = 256  # passes of one span: a loop of the program's own may make one a token


def beginning_pass(recorder: Recorder) -> Begin:
    """Return what begins to time a pass that serves a request and is part of no other call."""
    counts = CountWithin()

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        with guarded("starting a forward pass", recorder.on_fault):
            if recorder.suppressed() or recorder.inside(*_WITHIN) or recorder.stream() is not None:
                return None  # in a stream: a generation's own, or noted by a pipeline
            around = get_current_span()
            if not around.is_recording():
                return None
            model = getattr(args[0], "_orig_mod", args[0])
            recorder.steps.begin()
            of_loop = pass_of_own_loop(recorder, model, args[1:], kwargs)
            if of_loop is not None or counts.next_of(around) > _MOST:
                return of_loop
            named = model_attributes(getattr(model, "name_or_path", ""))
            attributes = {**named, **_batch(*args[1:], *kwargs.values())}
            timing = recorder.start(_name(model), Stage.FORWARD, attributes)
            return Call(Stage.FORWARD, timing, recorder.on_fault)
        return None

    return on_device(begin, recorder)


def _name(model: Any) -> str:
    """Return the name of its class, also of one that TorchScript has made."""
    kind = type(model)
    return str(model.original_name) if hasattr(kind, "original_name") else kind.__name__


def _batch(*inputs: object) -> HookAttributes:
    """Note how many rows the first tensor has."""
    shapes = (getattr(each, "shape", None) for each in inputs)
    shape = next((each for each in shapes if each), None)
    return {semconv.BATCH_SIZE: int(shape[0])} if shape else {}


def timed_passes(module: str, kind: str) -> Build:
    """Build what times the calls of every model of a kind that inherits its `__call__`.

    Args:
        kind: Name of the class of models.
    """

    def build(recorder: Recorder, _: Timed) -> Timed:
        call = inherited_call(getattr(importlib.import_module(module), kind))
        return outside_graphs(call, timed(call, beginning_pass(recorder)))

    return build
