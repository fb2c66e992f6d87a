"""Calls of torch's modules: inherited, compiled, and on a device."""

import importlib
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Begin, Call
from latencytrace.model.stage import Stage


def on_device(begin: Begin, recorder: Recorder) -> Begin:
    """Begin to time a pass on its device, too.

    Nothing is timed while a CUDA graph is captured, for nothing is computed then.
    """
    cuda = importlib.import_module("torch.cuda")

    def begin_computing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            return None
        call = begin(args, kwargs)
        if call is not None:
            with guarded("timing a device", recorder.on_fault):
                device = _device_of(args, kwargs)
                passes = recorder.devices.passes_on(device, Stage.FORWARD)
                if passes is not None:
                    call.on_device(passes)
        return call

    return begin_computing


def inherited_call(kind: Any) -> Timed:
    """Return what a class without a `__call__` of its own does when it is called.

    It is looked up each time, for torch.fx puts its own into `Module` for a while.
    """

    def call(self: object, *args: Any, **kwargs: Any) -> Any:
        return super(kind, self).__call__(*args, **kwargs)

    return call


def outside_graphs(call: Timed, timed_call: Timed) -> Timed:
    """Time calls where no compiler looks on: whatever we did would break the graph."""
    is_compiling = importlib.import_module("torch.compiler").is_compiling

    def __call__(self: object, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return call(self, *args, **kwargs)
        return timed_call(self, *args, **kwargs)

    return __call__


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return where a module's first tensor is; None: it was given none."""
    given = (getattr(one, "device", None) for one in (*args[1:], *kwargs.values()))
    return next((device for device in given if device is not None), None)
