"""Forward passes of the torch modules that the user names."""

import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookOptions, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Begin, Call, beginning, timed
from latencytrace.model.stage import Stage

_NAME = "_latencytrace_name"  # on what stands in the place of a named class's `__call__`


def _beginning(name: str, original: Timed, recorder: Recorder) -> Begin:
    """How the calls of a module begin to be timed.

    Nothing is while a CUDA graph is captured, for nothing is computed then. A model that is
    generating is timed already, and called for each of its tokens; what is named inside of
    it is noted as intervals.
    """
    cuda = importlib.import_module("torch.cuda")
    patch = Patch("torch", name, Stage.FORWARD, name=name.rpartition(".")[2], interleaved=True)
    begin = beginning(original, patch, recorder)

    def begin_computing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        if recorder.stream() is not None and callable(getattr(args[0], "generate", None)):
            return None
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            return None
        call = begin(args, kwargs)
        if call is not None:
            with guarded("timing a device", recorder.on_fault):
                device = _device_of(args, kwargs)
                passes = recorder.devices.passes_on(device, Stage.FORWARD)
                if passes is not None:
                    call.on_device(passes, recorder.devices.pending)
        return call

    return begin_computing


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - torch's
    """Where a module's first tensor is; None: it was given none."""
    given = (getattr(one, "device", None) for one in (*args[1:], *kwargs.values()))
    return next((device for device in given if device is not None), None)


def time_module(module: str, name: str) -> Callable[[Recorder, Timed], Timed]:
    """How the calls of one class of modules are timed, where no compiler looks on."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        is_compiling = importlib.import_module("torch.compiler").is_compiling
        named: Any = reduce(getattr, name.split("."), importlib.import_module(module))
        inherited = "__call__" not in vars(named)

        def call(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if inherited:  # looked up each time, for torch.fx puts its own there for a while
                return super(named, self).__call__(*args, **kwargs)
            return original(self, *args, **kwargs)

        timed_call = timed(call, _beginning(name, call, recorder))

        def __call__(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N807
            if is_compiling():  # whatever we did would break the graph
                return call(self, *args, **kwargs)
            return timed_call(self, *args, **kwargs)

        setattr(__call__, _NAME, name)
        return __call__

    return build


def time_compiled(recorder: Recorder, original: Timed) -> Timed:
    """Time modules of a named class that `torch.compile` made, from outside of their graph."""
    is_compiling = importlib.import_module("torch.compiler").is_compiling
    timed_calls: dict[str, Timed] = {}

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N807
        name = getattr(type(self._orig_mod).__call__, _NAME, None)
        if name is None or is_compiling():
            return original(self, *args, **kwargs)
        if name not in timed_calls:
            timed_calls[name] = timed(original, _beginning(name, original, recorder))
        return timed_calls[name](self, *args, **kwargs)

    return __call__


class TorchHook(Hook):
    """Times the classes of modules that `LATENCYTRACE_TORCH_MODULES` names."""

    requires = ("torch >= 2.1",)

    @classmethod
    def table(cls, options: HookOptions) -> tuple[Patch | Replacement, ...]:
        """A patch for each class, and one for what is made of them by `torch.compile`."""
        if not options.torch_modules:
            return ()
        named = (path.split(":") for path in options.torch_modules)
        return (
            *(
                Replacement(module, f"{name}.__call__", time_module(module, name))
                for module, name in named
            ),
            Replacement("torch._dynamo.eval_frame", "OptimizedModule.__call__", time_compiled),
        )
