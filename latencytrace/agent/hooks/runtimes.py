"""Inference with OpenVINO, CTranslate2, Whisper, diffusers and JAX."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch, Replacement
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.agent.toolkit.models.forward_passes import timed_passes
from latencytrace.model.stage import Stage

_API: Final = "openvino._ov_api"
_openvino_counted: Final = CountWithin()


class OpenvinoHook(Hook):
    """Times inferences, and waits for asynchronous ones, within a request."""

    requires = ("openvino >= 2024.0",)
    patches = (
        *(
            first_of_each_span(
                Patch(_API, target, Stage.FORWARD, name=name, within=True),
                counted=_openvino_counted,
            )
            for target, name in (
                ("CompiledModel.__call__", "infer"),
                ("InferRequest.infer", "infer"),
                ("InferRequest.wait", "wait for inference"),
                ("AsyncInferQueue.wait_all", "wait for inference"),
            )
        ),
        *(
            Patch(_API, f"Core.{method}", Stage.LOAD, within=True)
            for method in ("read_model", "compile_model")
        ),
    )


_ctranslate2_counted: Final = CountWithin()


class Ctranslate2Hook(Hook):
    """Times its models' calls, within a request: prefill and decoding are one."""

    requires = ("ctranslate2 >= 4.0",)
    patches = tuple(
        first_of_each_span(
            Patch("ctranslate2", target, stage, within=True, optional=True),
            counted=_ctranslate2_counted,
        )
        for target, stage in (
            ("Translator.translate_batch", Stage.DECODE),
            ("Translator.generate_tokens", Stage.DECODE),
            ("Translator.score_batch", Stage.FORWARD),
            ("Generator.generate_batch", Stage.DECODE),
            ("Generator.generate_tokens", Stage.DECODE),
            ("Generator.score_batch", Stage.FORWARD),
            ("Generator.forward_batch", Stage.FORWARD),
            ("Encoder.forward_batch", Stage.FORWARD),
        )
    )


_MODULE: Final = "faster_whisper.transcribe"


def _part(target: str, stage: Stage, name: str) -> Patch:
    return Patch(_MODULE, target, stage, name=name, within=True)


class FasterWhisperHook(Hook):
    """Times what a transcription is made of, within a request: of each span the first 256."""

    requires = ("faster-whisper >= 1.1",)
    patches = tuple(
        first_of_each_span(part)
        for part in (
            _part("decode_audio", Stage.PREPROCESS, "decode audio"),
            _part("get_speech_timestamps", Stage.PREPROCESS, "find speech"),
            Patch(
                "faster_whisper.feature_extractor",
                "FeatureExtractor.__call__",
                Stage.PREPROCESS,
                name="extract features",
                within=True,
            ),
            _part("WhisperModel.encode", Stage.PREFILL, "encode"),
            _part("WhisperModel.generate_with_fallback", Stage.DECODE, "generate"),
            _part("BatchedInferencePipeline.generate_segment_batched", Stage.DECODE, "generate"),
            _part("WhisperModel.find_alignment", Stage.DECODE, "align words"),
        )
    )


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


class JaxHook(Hook):
    """Times compiling, and where a request waits for results: a call itself only begins them."""

    requires = ("jax >= 0.4.30",)
    patches = (
        Patch(
            "jax._src.compiler",
            "compile_or_get_cached",
            Stage.LOAD,
            name="compile",
            within=True,
        ),
        first_of_each_span(
            Patch("jax", "block_until_ready", Stage.FORWARD, name="wait for results", within=True)
        ),
    )
