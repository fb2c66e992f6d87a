"""The interpreter that would run a command, and whether `run` can trace it."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from latencytrace.cli.doctor_checks.other_tracers import other_tracer
from latencytrace.service.answers.findings.finding import Finding

ABOUT = "command"
UWSGI = ("uwsgi", "pyuwsgi")
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?t?")
_EXEC = re.compile(
    rb"'''exec' [\"']?([^\"'\s]+(?: [^\"'\s]+)*?)[\"']? \"\$0\""
)  # pip's long shebangs
_SHEBANG_BYTES = 1024
_VALUED_FLAGS = "cmWX"  # flags of Python that take a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command as it would run.

    Args:
        interpreter: The Python that would run it; None: it is unknown.
        findings: What is worth saying about it.
    """

    interpreter: Path | None
    findings: Sequence[Finding]


def program(command: Sequence[str]) -> Program:
    """Look at a command without running any of it."""
    named = shutil.which(command[0])
    if named is None:
        return _unknown(f"command not found: {command[0]}", "check its name, or install it")
    path = Path(named)
    other = other_tracer(command, python_path="")
    if other is not None:
        return _unknown(*other)
    if path.name.startswith(UWSGI):
        return Program(interpreter=Path(sys.executable), findings=[*_uwsgi(command)])
    words = _words(path)
    interpreter = shutil.which(words[0]) if words else None
    if interpreter is None or not _PYTHON.fullmatch(Path(interpreter).name):
        return _unknown(
            f"{named} is no Python program: which interpreter it starts is unknown",
            f"let it start the doctor: {command[0]} run latencytrace doctor"
            if path.name in {"uv", "poetry", "pdm", "hatch"}
            else "latencytrace doctor -- PYTHON, with the interpreter that it starts",
        )
    flags = [*words[1:], *(command[1:] if len(words) == 1 and path == Path(interpreter) else ())]
    return Program(interpreter=Path(interpreter), findings=[*_flags(flags)])


def _unknown(what: str, fix: str) -> Program:
    finding = Finding.wrong(ABOUT, what, fix)
    return Program(interpreter=None, findings=[finding])


def _uwsgi(command: Sequence[str]) -> Iterator[Finding]:
    """Name the flags that uWSGI needs; it starts an interpreter inside of itself."""
    if not {"--enable-threads", "-T", "--threads"} & set(command):
        yield Finding.note(
            ABOUT,
            "uWSGI: older versions run Python without threads, and then nothing is traced; "
            "the log says so",
            f"{' '.join(command)} --enable-threads",
        )


def _words(path: Path) -> list[str]:
    """The interpreter and its flags: the program itself, or what its first lines name."""
    if _PYTHON.fullmatch(path.name):
        return [str(path)]
    with path.open("rb") as script:
        start = script.read(_SHEBANG_BYTES)
    if not start.startswith(b"#!"):
        return []
    in_shell = _EXEC.search(start)
    if in_shell is not None:
        return [in_shell[1].decode("utf-8", "replace")]
    words = start[2:].splitlines()[0].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        return [word for word in words[1:] if word != "-S"]
    return words


def _flags(words: Sequence[str]) -> Iterator[Finding]:
    """Find flags that keep Python from PYTHONPATH, through which `run` reaches it."""
    for word in words:
        if not word.startswith("-") or word.startswith("--"):
            return
        for flag in word[1:]:
            if flag in "IES":
                yield Finding.wrong(
                    ABOUT,
                    f"Python is started with -{flag}, so that `run` cannot reach it",
                    f"leave -{flag} out, or call latencytrace.instrument() in the program",
                )
            if flag in _VALUED_FLAGS:
                return
