"""Forward passes of `transformers` models within a request: of an encoder, or a classifier."""

import importlib
import sys
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import timed
from latencytrace.agent.toolkit.models.forward_passes import beginning_pass, timed_passes

_MODELS = "transformers.modeling_utils"


def time_compiled(recorder: Recorder, original: Timed) -> Timed:
    """Time models that `torch.compile` made, from outside of their graph."""
    is_compiling = importlib.import_module("torch.compiler").is_compiling
    timed_call = timed(original, beginning_pass(recorder))

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        # Not imported for this: a program may compile without transformers.
        kind = getattr(sys.modules.get(_MODELS), "PreTrainedModel", None)
        is_model = kind is not None and isinstance(self._orig_mod, kind)
        return (timed_call if is_model else original)(self, *args, **kwargs)

    return __call__


class TransformersForwardHook(Hook):
    """Times what a program calls itself; generations, pipelines and encoders have other hooks."""

    requires = ("transformers >= 4.40",)
    patches = (
        Replacement(
            _MODELS,
            "PreTrainedModel.__call__",
            timed_passes(_MODELS, "PreTrainedModel"),
            bare=True,
        ),
        Replacement(
            "torch._dynamo.eval_frame", "OptimizedModule.__call__", time_compiled, bare=True
        ),
    )
