"""What a shell is offered for the beginning of a word."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.command_line import environment

ASKED = {
    "bash": {"COMP_WORDS": "latencytrace brea", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "latencytrace brea"},
    "fish": {
        "_TYPER_COMPLETE_ARGS": "latencytrace brea",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    },
}


def said(shell: str, instruction: str, **asked: str) -> str:
    return subprocess.run(
        [Path(sys.executable).with_name("latencytrace")],  # a shell completes no `python -m`
        env=environment(_LATENCYTRACE_COMPLETE=f"{instruction}_{shell}", **asked),
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.parametrize(("shell", "asked"), ASKED.items(), ids=ASKED)
def test_a_command_is_completed(shell: str, asked: dict[str, str]) -> None:
    found = said(shell, "complete", **asked)

    assert "breakdown" in found
    assert "requests" not in found


@pytest.mark.parametrize("shell", ASKED)
def test_the_script_of_a_shell_asks_the_command(shell: str) -> None:
    assert f"_LATENCYTRACE_COMPLETE=complete_{shell}" in said(shell, "source")
