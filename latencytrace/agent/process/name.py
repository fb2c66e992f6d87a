"""Names a program that nobody named: after its command line."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

_APPLICATION = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.()]*")  # uvicorn's and gunicorn's
_MULTIPROCESSING = "from multiprocessing."  # how its helpers and children are started
_PROC = Path("/proc")
_GENERATIONS = 8  # of processes that start processes


def this_program() -> str:
    """The name of this program; what multiprocessing started is called as who asked for it."""
    line = tuple(sys.orig_argv)
    process = os.getppid()
    for _ in range(_GENERATIONS):
        if not is_multiprocessings(line):
            break
        line, process = _command_line(process) or line, _parent(process)
    return program_name(arguments_of(line) or sys.argv)


def is_multiprocessings(line: Sequence[str]) -> bool:
    """Tell whether multiprocessing started a process with this command line."""
    return any(argument.startswith(_MULTIPROCESSING) for argument in line)


def arguments_of(line: Sequence[str]) -> list[str]:
    """The `sys.argv` of an interpreter's command line, with a module's name for its path."""
    rest = list(line[1:])
    while rest:
        argument = rest.pop(0)
        if argument in {"-W", "-X", "--check-hash-based-pycs"}:
            rest = rest[1:]
        elif argument == "-m":
            return [rest[0].split(".")[0], *rest[1:]] if rest else []
        elif argument == "-c":
            return ["-c", *rest[1:]]
        elif not argument.startswith("-"):
            return [argument, *rest]
    return []


def program_name(argv: Sequence[str]) -> str:
    """The name after arguments: `app` of `uvicorn app:main`, else its script's."""
    for argument in argv[1:]:
        application = _APPLICATION.fullmatch(argument)
        if application:
            return application.group(1).rpartition(".")[2]
    script = Path(argv[0]) if argv and argv[0] not in {"", "-c", "-m"} else Path("python")
    return script.parent.name if script.stem == "__main__" else script.stem


def _command_line(process: int) -> tuple[str, ...]:
    """Of another process; empty: it cannot be read."""
    try:
        line = (_PROC / str(process) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(line.decode(errors="replace").rstrip("\0").split("\0"))


def _parent(process: int) -> int:
    """Return the parent of another process; 0: unknown."""
    try:
        status = (_PROC / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])
