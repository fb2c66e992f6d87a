"""Reading models and tokenizers with `transformers`, which a request may have to wait for."""

from pathlib import PurePath
from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def describe_named(arguments: Arguments) -> HookAttributes:
    """Note what is read: of a path the last part."""
    named: Any = arguments.get("pretrained_model_name_or_path")
    if named is None:
        return {}
    return {semconv.GEN_AI_REQUEST_MODEL: PurePath(str(named)).name}


class TransformersLoadingHook(Hook):
    """Times `from_pretrained`, through the doors that all classes share."""

    requires = ("transformers >= 4.40",)
    patches = (
        Patch(
            "transformers.modeling_utils",
            "PreTrainedModel.from_pretrained",
            Stage.LOAD,
            describe_named,
        ),
        Patch(
            "transformers.tokenization_utils_base",
            "PreTrainedTokenizerBase.from_pretrained",
            Stage.LOAD,
            describe_named,
        ),
    )
