"""The hook of ffmpeg: real processes; a script of its name stands for the program itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from latencytrace.agent.hooks.ffmpeg import FfmpegHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, in_request

HOOKS = (FfmpegHook,)


@pytest.fixture
def ffmpeg(tmp_path: Path) -> str:
    """A program of that name."""
    made = tmp_path / "ffmpeg"
    made.write_text("#!/bin/sh\ncat\n")
    made.chmod(0o755)
    return str(made)


def test_a_wait_for_it_is_one_span_of_preprocessing(spans: Spans, ffmpeg: str) -> None:
    answers: list[bytes] = []

    def work() -> None:
        run = subprocess.run(
            [ffmpeg, "-i", "a-secret"], input=b"x", capture_output=True, check=True
        )
        answers.append(run.stdout)

    in_request(spans, work)

    assert answers == [b"x"]
    assert (spans.names, spans.stages[0]) == (["ffmpeg", "request"], Stage.PREPROCESS)
    assert "secret" not in repr([dict(span.attributes) for span in spans.all])


def test_a_wait_that_is_given_up_fails_the_span(spans: Spans, tmp_path: Path) -> None:
    hanging = tmp_path / "ffprobe"
    hanging.write_text("#!/bin/sh\nexec sleep 300\n")
    hanging.chmod(0o755)

    def work() -> None:
        process = subprocess.Popen([hanging])
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
        finally:
            process.kill()
            process.wait()

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "TimeoutExpired"


@pytest.mark.parametrize("folder", ["tools", "my tools"])
@pytest.mark.parametrize("is_list", [False, True])
def test_it_may_be_named_by_a_path_with_blanks_too(
    spans: Spans, tmp_path: Path, folder: str, *, is_list: bool
) -> None:
    (tmp_path / folder).mkdir()
    program = tmp_path / folder / "ffmpeg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    in_request(spans, lambda: subprocess.run([program] if is_list else program, check=True))

    assert spans.names == ["ffmpeg", "request"]


def test_it_may_be_named_in_a_line_of_a_shell(spans: Spans, ffmpeg: str) -> None:
    line = f"{ffmpeg} -i a-secret"

    def work() -> None:
        subprocess.run(line, shell=True, stdin=subprocess.DEVNULL, check=True)  # noqa: S602 - ours

    in_request(spans, work)

    assert spans.names == ["ffmpeg", "request"]


def test_no_other_program_is_timed(spans: Spans) -> None:
    def work() -> None:
        subprocess.run([sys.executable, "-c", ""], check=True)
        subprocess.run(Path(sys.executable), stdin=subprocess.DEVNULL, check=True)

    in_request(spans, work)

    assert spans.names == ["request"]
