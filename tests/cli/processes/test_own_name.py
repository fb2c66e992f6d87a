"""What the user has to type to reach this very latencytrace."""

import sys
from pathlib import Path

import pytest

from latencytrace.cli.processes.local_service import own_command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an environment's programs lie, in the folder that we stand in."""
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    return folder


def installed(folder: Path) -> None:
    script = folder / "latencytrace"
    script.touch(mode=0o755)


def test_it_is_its_name_where_the_shell_finds_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(folder)
    monkeypatch.setenv("PATH", str(folder))

    assert own_command() == "latencytrace"


def test_it_is_the_way_to_it_from_here_where_the_environment_is_not_active(folder: Path) -> None:
    installed(folder)

    assert own_command() == ".venv/bin/latencytrace"


def test_another_one_of_that_name_is_not_taken_for_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(folder)
    other = tmp_path / "other"
    other.mkdir()
    installed(other)
    monkeypatch.setenv("PATH", str(other))
    monkeypatch.chdir(other)

    assert own_command() == str(folder / "latencytrace")


def test_without_a_script_it_is_a_module(folder: Path) -> None:
    assert own_command() == f"{folder / 'python'} -m latencytrace"
