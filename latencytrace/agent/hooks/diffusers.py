"""Pipelines of diffusers: their models, schedulers, and images."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.agent.toolkit.models.forward_passes import timed_passes
from latencytrace.model.stage import Stage

_MODELS: Final = "diffusers.models.modeling_utils"
_IMAGES: Final = "diffusers.image_processor"


class DiffusersHook(Hook):
    """Times what each step of a pipeline computes, within a request; of each the first 256."""

    requires = ("diffusers >= 0.30",)
    patches = (
        Replacement(_MODELS, "ModelMixin.__call__", timed_passes(_MODELS, "ModelMixin")),
        *(
            first_of_each_span(
                Patch(_MODELS, f"ModelMixin.{method}", Stage.FORWARD, within=True, later=True)
            )
            for method in ("encode", "decode")  # of autoencoders, by their own names
        ),
        first_of_each_span(
            Patch(
                "diffusers.schedulers.scheduling_utils",
                "SchedulerMixin.step",
                Stage.FORWARD,
                within=True,
                later=True,
                name="scheduler step",
            )
        ),
        Patch(_IMAGES, "VaeImageProcessor.preprocess", Stage.PREPROCESS, within=True),
        Patch(_IMAGES, "VaeImageProcessor.postprocess", Stage.POSTPROCESS, within=True),
    )
