"""Processors of `transformers`: of images, audio, or both with texts."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model.stage import Stage

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
