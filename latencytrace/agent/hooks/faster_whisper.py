"""Transcriptions with faster-whisper: the work is done while segments are taken."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.model.stage import Stage

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
