"""What is said where standard output cannot be written."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.support.few import few
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.recording_api import RecordingApi, recording_api

__all__ = ["recording_api"]

FULL = Path("/dev/full")


def into(
    output: Path, *arguments: str, most_bytes: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with its standard output in a file, which may not grow beyond a size."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    with output.open("wb") as file:
        return subprocess.run(
            [*COMMAND, *arguments],
            check=False, stdout=file, stderr=subprocess.PIPE, text=True, timeout=100,
            env=environment(PYTHONDONTWRITEBYTECODE="1"), preexec_fn=limit,
        )  # fmt: skip


@pytest.mark.skipif(not FULL.is_char_device(), reason="only Linux has it")
@pytest.mark.parametrize("command", few(2, ["run", "requests", "--help", "export", "breakdown"]))
def test_a_full_device_is_said_in_one_line(command: str, recording_api: RecordingApi) -> None:
    arguments = ["run", "--help"] if command == "run" else [command]
    if command in {"requests", "export", "breakdown"}:
        arguments += ["--url", recording_api.url]

    done = into(FULL, *arguments)

    assert done.stderr == ("latencytrace: the output cannot be written: No space left on device\n")
    assert done.returncode == 1


def test_a_file_that_may_not_grow_is_said_in_one_line(
    recording_api: RecordingApi, tmp_path: Path
) -> None:
    """What is printed waits in a buffer and is written at the end alone."""
    done = into(tmp_path / "out", "requests", "--json", "--url", recording_api.url, most_bytes=10)

    assert done.stderr == "latencytrace: the output cannot be written: File too large\n"
    assert done.returncode == 1


def test_who_reads_no_further_is_no_fault(recording_api: RecordingApi) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [*COMMAND, "requests", "--url", recording_api.url],
            check=False, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=100,
            env=environment(),
        )  # fmt: skip

    assert done.stderr == ""
    assert done.returncode == 1
