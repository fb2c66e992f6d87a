"""Forward passes of the torch modules that the user names."""

import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any

from latencytrace.agent.guard import logger
from latencytrace.agent.timing.hook import Hook, HookOptions, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Begin, Call, beginning, timed
from latencytrace.agent.toolkit.models.torch_modules import (
    inherited_call,
    on_device,
    outside_graphs,
)
from latencytrace.model.stage import Stage

_MODULES = "torch.nn.modules.module"
_COMPILED = "torch._dynamo.eval_frame"
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
    def build(recorder: Recorder, original: Timed) -> Timed:
        named: Any = reduce(getattr, name.split("."), importlib.import_module(module))
        call = original if "__call__" in vars(named) else inherited_call(named)
        timed_call = outside_graphs(call, timed(call, _beginning(name, call, recorder)))
        setattr(timed_call, _NAME, name)
        return timed_call

    return build


def time_bare(names: frozenset[str]) -> Callable[[Recorder, Timed], Timed]:
    """Build what times the calls of every class of one of these names, wherever it lies."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        begins: dict[type, Begin | None] = {}  # of each class that was called

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
            kind = type(vars(args[0]).get("_modules", {}).get("_orig_mod", args[0]))
            if kind not in begins:
                name = next((each.__name__ for each in kind.__mro__ if each.__name__ in names), "")
                begins[kind] = _beginning(name, original, recorder) if name else None
            found = begins[kind]
            return None if found is None else found(args, kwargs)

        return outside_graphs(original, timed(original, begin))

    return build


def time_compiled(recorder: Recorder, original: Timed) -> Timed:
    """Time modules of a named class that `torch.compile` made, from outside of their graph."""
    timed_calls: dict[str, Timed] = {}

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(type(self._orig_mod).__call__, _NAME, None)
        if name is None:
            return original(self, *args, **kwargs)
        if name not in timed_calls:
            call = timed(original, _beginning(name, original, recorder))
            timed_calls[name] = outside_graphs(original, call)
        return timed_calls[name](self, *args, **kwargs)

    return __call__


def _named(path: str) -> tuple[str, str]:
    """Read `package.module:Class`, `package.module.Class` or `Class`; a wrong one is none."""
    module, separator, name = path.rpartition(":" if ":" in path else ".")
    parts = [*name.split("."), *(module.split(".") if separator else ())]
    if not all(part.isidentifier() for part in parts):
        logger.warning("LATENCYTRACE_TORCH_MODULES: %r names no class; the others count", path)
        return "", ""
    return module, name


class TorchHook(Hook):
    """Times the classes of modules that `LATENCYTRACE_TORCH_MODULES` names."""

    requires = ("torch >= 2.1",)

    @classmethod
    def table(cls, options: HookOptions) -> tuple[Patch | Replacement, ...]:
        """A patch for each class, and one for what is made of them by `torch.compile`."""
        paths = [_named(path) for path in options.torch_modules]
        named = [(module, name) for module, name in paths if module and name]
        bare = frozenset(name for module, name in paths if not module and name)
        return (
            *(
                Replacement(module, f"{name}.__call__", time_module(module, name), bare=True)
                for module, name in named
            ),
            *(
                (Replacement(_MODULES, "Module.__call__", time_bare(bare), bare=True),)
                if bare
                else ()
            ),
            *(
                (Replacement(_COMPILED, "OptimizedModule.__call__", time_compiled, bare=True),)
                if named
                else ()
            ),
        )
