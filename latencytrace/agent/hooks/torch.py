"""Forward passes of the torch modules that the user names."""

import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any

from latencytrace.agent.timing.hook import Hook, HookOptions, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Begin, Call, beginning, timed
from latencytrace.agent.toolkit.models.torch_modules import (
    inherited_call,
    on_device,
    outside_graphs,
)
from latencytrace.model.stage import Stage

_NAME = "_latencytrace_name"  # on what stands in the place of a named class's `__call__`


def _beginning(name: str, original: Timed, recorder: Recorder) -> Begin:
    """Begin to time the calls of a module.

    A model that is generating is timed already, and called for each of its tokens; what is
    named inside of it is noted as intervals.
    """
    patch = Patch("torch", name, Stage.FORWARD, name=name.rpartition(".")[2], interleaved=True)
    begin = beginning(original, patch, recorder)

    def begin_named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        generates = callable(getattr(args[0], "generate", None))
        return None if generates and recorder.stream() is not None else begin(args, kwargs)

    return on_device(begin_named, recorder)


def time_module(module: str, name: str) -> Callable[[Recorder, Timed], Timed]:
    """Build what times the calls of one class of modules."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        named: Any = reduce(getattr, name.split("."), importlib.import_module(module))
        call = original if "__call__" in vars(named) else inherited_call(named)
        timed_call = outside_graphs(call, timed(call, _beginning(name, call, recorder)))
        setattr(timed_call, _NAME, name)
        return timed_call

    return build


def time_compiled(recorder: Recorder, original: Timed) -> Timed:
    """Time modules of a named class that `torch.compile` made, from outside of their graph."""
    timed_calls: dict[str, Timed] = {}

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N807
        name = getattr(type(self._orig_mod).__call__, _NAME, None)
        if name is None:
            return original(self, *args, **kwargs)
        if name not in timed_calls:
            call = timed(original, _beginning(name, original, recorder))
            timed_calls[name] = outside_graphs(original, call)
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
