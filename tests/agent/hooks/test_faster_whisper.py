"""The hook of faster-whisper, with a model of random weights."""

from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.runtimes import FasterWhisperHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request
from tests.support.models.tiny_whisper import write_tiny_whisper

faster_whisper = pytest.importorskip("faster_whisper")
numpy = pytest.importorskip("numpy")

HOOKS = (FasterWhisperHook,)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_tiny_whisper(tmp_path_factory.mktemp("whisper"))
    return faster_whisper.WhisperModel(str(folder), device="cpu", cpu_threads=1)


def noise() -> Any:
    return numpy.random.default_rng(0).standard_normal(32_000).astype("float32") / 10


def test_a_transcription_is_timed_while_its_segments_are_taken(spans: Spans, whisper: Any) -> None:
    def transcribe() -> None:
        segments, _ = whisper.transcribe(noise(), language="en", temperature=0, max_new_tokens=4)
        list(segments)

    transcribe()  # outside of any request
    in_request(spans, transcribe)

    assert spans.names[0] == "extract features"
    assert set(spans.names[1:-1]) == {"encode", "generate"}
    assert {span.name: span.attributes["latencytrace.stage"] for span in spans.all[:-1]} == {
        "extract features": Stage.PREPROCESS,
        "encode": Stage.PREFILL,
        "generate": Stage.DECODE,
    }


def test_a_file_is_decoded_before(spans: Spans, whisper: Any, tmp_path: Path) -> None:
    import wave

    with wave.open(str(tmp_path / "noise.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((noise() * 1000).astype("int16").tobytes())

    def transcribe() -> None:
        whisper.transcribe(str(tmp_path / "noise.wav"), language="en")

    in_request(spans, transcribe)

    assert spans.names == ["decode audio", "extract features", "request"]
