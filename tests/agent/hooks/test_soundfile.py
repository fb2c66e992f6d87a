"""The hook of soundfile, with a file made on the spot."""

from pathlib import Path

import pytest

from latencytrace.agent.hooks.media import SoundfileHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request
from tests.support.models.tone import write_tone

soundfile = pytest.importorskip("soundfile")

HOOKS = (SoundfileHook,)


def test_a_file_is_read_and_written_in_one_span_each(spans: Spans, tmp_path: Path) -> None:
    file = write_tone(tmp_path / "tone.wav")

    def work() -> None:
        samples, rate = soundfile.read(file)
        soundfile.write(file.with_suffix(".flac"), samples, rate)

    work()  # outside of any request
    in_request(spans, work)

    assert spans.names == ["read", "write", "request"]
    assert spans.stages[:2] == [Stage.PREPROCESS, Stage.POSTPROCESS]
