"""Forward passes of `transformers` models within a request: of an encoder, or a classifier."""

import importlib
from typing import Any

from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import timed
from latencytrace.agent.toolkit.models.forward_passes import beginning_pass, timed_passes
from latencytrace.agent.toolkit.models.torch_modules import outside_graphs

_MODELS = "transformers.modeling_utils"


def time_compiled(recorder: Recorder, original: Timed) -> Timed:
    """Time models that `torch.compile` made, from outside of their graph."""
    kind: type = importlib.import_module(_MODELS).PreTrainedModel
    timed_call = outside_graphs(original, timed(original, beginning_pass(recorder)))

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N807
        is_model = isinstance(self._orig_mod, kind)
        return (timed_call if is_model else original)(self, *args, **kwargs)

    return __call__


class TransformersForwardHook(Hook):
    """Times what a program calls itself; generations, pipelines and encoders have other hooks."""

    requires = ("transformers >= 4.40",)
    patches = (
        Replacement(_MODELS, "PreTrainedModel.__call__", timed_passes(_MODELS, "PreTrainedModel")),
        Replacement("torch._dynamo.eval_frame", "OptimizedModule.__call__", time_compiled),
    )
