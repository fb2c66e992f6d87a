"""Forward passes of torch's models within a request, with nothing named."""

import importlib
import weakref
from functools import partial, wraps
from typing import Any, Final

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import UNDO, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Begin, timed
from latencytrace.agent.toolkit.models.forward_passes import beginning_pass
from latencytrace.agent.toolkit.models.torch_modules import inherited_call, outside_graphs

_MODULES: Final = "torch.nn.modules.module"
_ROOT: Final = "_latencytrace_root"  # on what stands in the place of a model's `__call__`


class _Roots:
    """Classes of models, by what a program does with a whole one: it has it evaluate.

    Only their own calls are timed, so that the modules within cost nothing. It is made while
    torch is being imported, and asks nothing of it before there is a model.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begin: Begin | None = None
        self._timed: weakref.WeakSet[type] = weakref.WeakSet()

    def add(self, module: Any) -> None:
        """Time the calls of a model's class, unless another hook or the class itself does."""
        within = vars(module).get("_modules", ())
        is_compiled = "_orig_mod" in within  # what TorchScript has there has no `get`
        kind: Any = type(within["_orig_mod"] if is_compiled else module)
        if kind.__module__.startswith("torch.") and kind.__name__ != "Sequential":
            return  # a layer, of which there are many within models
        # A class that no module has by its name is pickled with its methods.
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            return
        if kind.__call__ is not importlib.import_module(_MODULES).Module.__call__:
            return
        if self._begin is None:
            self._begin = beginning_pass(self._recorder)
        call = inherited_call(kind)
        timed_call = outside_graphs(call, timed(call, self._begin))
        setattr(timed_call, _ROOT, True)
        kind.__call__ = timed_call
        self._timed.add(kind)

    def restore(self) -> None:
        """Have them call what they inherit again, unless other code has patched on top of us."""
        for kind in list(self._timed):
            if getattr(vars(kind).get("__call__"), _ROOT, False):
                del kind.__call__
        self._timed.clear()


def time_evaluated(recorder: Recorder, original: Timed) -> Timed:
    """Time the models that a program has evaluate: it asks the whole one, never a part."""
    roots = _Roots(recorder)

    @wraps(original)
    def evaluate(self: Any) -> Any:
        with guarded("looking at a model", recorder.on_fault):
            roots.add(self)
        return original(self)

    setattr(evaluate, UNDO, roots.restore)
    return evaluate


def time_compiled(recorder: Recorder, original: Timed) -> Timed:
    """Time such a model that `torch.compile` made, from outside of its graph."""
    timed_call = outside_graphs(original, timed(original, beginning_pass(recorder)))

    @wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_root = getattr(type(self._orig_mod).__call__, _ROOT, False)
        return (timed_call if is_root else original)(self, *args, **kwargs)

    return __call__


def time_scripted(module: str, name: str, recorder: Recorder, original: Timed) -> Timed:
    """Time a class of modules of TorchScript, of which the inner ones are no calls of Python."""
    kind = getattr(importlib.import_module(module), name)
    call = original if "__call__" in vars(kind) else inherited_call(kind)
    made: list[Timed] = []  # with the first call, for torch is being imported now

    @wraps(original)
    def __call__(self: object, *args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(outside_graphs(call, timed(call, beginning_pass(recorder))))
        return made[0](self, *args, **kwargs)

    return __call__


def _scripted(module: str, name: str) -> Replacement:
    return Replacement(module, f"{name}.__call__", partial(time_scripted, module, name), bare=True)


class TorchForwardHook(Hook):
    """Times the outermost model; those of `transformers`, and named classes, have other hooks."""

    requires = ("torch >= 2.1",)
    patches = (
        Replacement(_MODULES, "Module.eval", time_evaluated),
        Replacement(
            "torch._dynamo.eval_frame", "OptimizedModule.__call__", time_compiled, bare=True
        ),
        _scripted("torch.jit._script", "RecursiveScriptModule"),
        _scripted("torch.jit._trace", "TopLevelTracedModule"),
    )
