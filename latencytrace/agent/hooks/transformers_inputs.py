"""Inputs of `transformers` models: processors, moves to a device; and reading the models."""

import sys
from collections.abc import Mapping
from functools import wraps
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import (
    Arguments,
    Hook,
    HookAttributes,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.agent.toolkit.models.calls import model_attributes
from latencytrace.agent.toolkit.models.device_copies import TO_DEVICE, DeviceCopies, DeviceCopy
from latencytrace.model.stage import Stage


def time_move(recorder: Recorder, original: Timed) -> Timed:
    """Time the move of all tensors of a batch as one copy."""
    copies = DeviceCopies(recorder)

    def begun(batch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DeviceCopy | None:
        torch = sys.modules.get("torch")
        if torch is None or torch.compiler.is_compiling():
            return None
        with guarded("timing a move", recorder.on_fault):
            device = _device(torch, kwargs.get("device", args[0] if args else None))
            size_bytes = _host_bytes(batch)
            if device is not None and size_bytes:
                return copies.begin(device, TO_DEVICE, size_bytes)
        return None

    @wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        copy = begun(self, args, kwargs)
        if copy is None:
            return original(self, *args, **kwargs)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            copy.drop()
            raise
        copy.finish()
        return result

    return to


def _device(torch: Any, named: object) -> Any:
    """The device that is meant; None: the host, or something else is meant."""
    if not isinstance(named, str | int | torch.device):
        return None
    try:
        device = torch.device(named)
    except RuntimeError:  # the call will say so
        return None
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return None if device.type == "cpu" else device


def _host_bytes(batch: Any) -> int:
    data = getattr(batch, "data", None)
    tensors = data.values() if isinstance(data, Mapping) else ()
    return sum(
        each.numel() * each.element_size() for each in tensors if getattr(each, "is_cpu", False)
    )


class TransformersInputsHook(Hook):
    """Times `inputs.to(device)`; only where the device has events is there anything to time."""

    requires = ("transformers >= 4.40",)
    patches = (
        Replacement("transformers.tokenization_utils_base", "BatchEncoding.to", time_move),
        Replacement("transformers.feature_extraction_utils", "BatchFeature.to", time_move),
    )


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


_counted = CountWithin()


class TransformersProcessorsHook(Hook):
    """Times what makes a model's inputs of media, within a request; tokenizers are apart."""

    requires = ("transformers >= 4.40",)
    patches = tuple(
        first_of_each_span(
            Patch(
                f"transformers.{module}",
                f"{kind}.__call__",
                Stage.PREPROCESS,
                name="process inputs",
                within=True,
                later=True,
            ),
            counted=_counted,
        )
        for module, kind in (
            ("image_processing_utils", "BaseImageProcessor"),
            ("feature_extraction_sequence_utils", "SequenceFeatureExtractor"),
            ("processing_utils", "ProcessorMixin"),
        )
    )
