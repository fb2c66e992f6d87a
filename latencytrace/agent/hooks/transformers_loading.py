"""Reading models and tokenizers with `transformers`, which a request may have to wait for."""

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.models.calls import model_attributes
from latencytrace.model.stage import Stage


def _describe(arguments: Arguments) -> HookAttributes:
    return model_attributes(arguments.get("pretrained_model_name_or_path"))


def _loads(module: str, kind: str) -> Patch:
    return Patch(f"transformers.{module}", f"{kind}.from_pretrained", Stage.LOAD, _describe)


class TransformersLoadingHook(Hook):
    """Times `from_pretrained`, through the doors that all classes share."""

    requires = ("transformers >= 4.40",)
    patches = (
        _loads("modeling_utils", "PreTrainedModel"),
        _loads("tokenization_utils_base", "PreTrainedTokenizerBase"),
    )
