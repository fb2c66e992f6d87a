"""Long pictures go through the pager of a terminal, all others straight to the output."""

import ast
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.command_line import environment, python

PROGRAM = """
import sys
from latencytrace.cli.pictures.terminal import screen
from latencytrace.cli.processes.pager import page

page(screen(), *(f"line {number}" for number in range(int(sys.argv[1]))))
"""
FITS, LONG = 5, 200
COMMANDS = Path(__file__).parents[3] / "latencytrace" / "cli" / "commands"


def said_on_terminal(lines: int, pager: str, term: str = "xterm", program: str = PROGRAM) -> str:
    """All that a terminal of 24 lines is sent."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(lines)],
        stdin=its,
        stdout=its,
        stderr=its,
        env=environment(PAGER=pager, TERM=term, LINES="24", COLUMNS="80"),
    )
    os.close(its)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # Linux's way to say that nobody holds the other end
        pass
    assert process.wait(100) == 0
    os.close(ours)
    return said.decode()


def test_a_long_picture_goes_through_the_pager(tmp_path: Path) -> None:
    paged = tmp_path / "paged"
    said = said_on_terminal(LONG, f"sh -c 'cat > {paged}'")

    assert "line" not in said
    assert paged.read_text().splitlines() == [f"line {number}" for number in range(LONG)]


@pytest.mark.parametrize(
    ("lines", "pager", "term"),
    [
        pytest.param(FITS, "sh -c 'exit 1'", "xterm", id="it fits"),
        pytest.param(LONG, "", "xterm", id="there is to be no pager"),
        pytest.param(LONG, "cat", "xterm", id="the pager shows all at once"),
        pytest.param(LONG, "no-such-pager-is-here", "xterm", id="there is none"),
        pytest.param(LONG, "sh -c 'no end", "xterm", id="it cannot be read"),
        pytest.param(LONG, "sh -c 'exit 1'", "dumb", id="the terminal knows no pages"),
    ],
)
def test_without_a_pager_all_of_it_is_printed(lines: int, pager: str, term: str) -> None:
    said = said_on_terminal(lines, pager, term)

    assert said.split("\r\n")[:-1] == [f"line {number}" for number in range(lines)]


def test_an_interrupt_is_the_pagers_to_act_on(tmp_path: Path) -> None:
    paged = tmp_path / "paged"
    interrupting = f"trap : INT; kill -INT $PPID; cat > {paged}"

    said = said_on_terminal(LONG, f"sh -c '{interrupting}'", program=f"{PROGRAM}print('and on')")

    assert said == "and on\r\n"
    assert len(paged.read_text().splitlines()) == LONG


def test_a_closed_input_is_no_terminal() -> None:
    shown = subprocess.run(
        ["sh", "-c", '"$0" "$@" <&-', sys.executable, "-c", PROGRAM, str(LONG)],
        capture_output=True,
        check=True,
        env=environment(PAGER="sh -c 'exit 1'"),
        timeout=100,
    )

    assert len(shown.stdout.splitlines()) == LONG


def test_what_an_encoding_lacks_is_spelled_out() -> None:
    blocks = PROGRAM.replace('f"line {number}"', 'f"\\u2588 {number}"')
    shown = subprocess.run(
        [sys.executable, "-c", blocks, str(FITS)],
        capture_output=True,
        check=True,
        env=environment(PYTHONIOENCODING="latin-1"),
        timeout=100,
    )

    assert shown.stdout.splitlines()[0] == b"\\u2588 0"


@pytest.mark.parametrize("file", sorted(COMMANDS.glob("*.py")), ids=lambda file: file.stem)
def test_no_source_is_open_while_somebody_reads(file: Path) -> None:
    """A data folder belongs to one process: another could not even ask it."""
    blocks = [one for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.With)]
    calls = [one.func for block in blocks for one in ast.walk(block) if isinstance(one, ast.Call)]

    assert "page" not in {called.id for called in calls if isinstance(called, ast.Name)}


def test_what_is_piped_sees_no_pager() -> None:
    shown = python("-c", PROGRAM, str(LONG), env=environment(PAGER="sh -c 'exit 1'"), check=True)

    assert len(shown.stdout.splitlines()) == LONG
