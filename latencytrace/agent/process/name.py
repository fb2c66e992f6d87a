"""The default name of a program: taken from its command line.

The rule in words: of the application that is named on the command line, else of the module or the
script, the first and the last part that tell something: `shop.main:app` is `shop`,
`shop.worker:app` is `shop.worker`. Where no part does (`app:app`, `main.py`), the folder's name. A
server's own name is taken where there is nothing else.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from latencytrace.agent.guard import attempted
from latencytrace.agent.native import read_file

# A module and what it has, as servers take it: `shop.main:app`, `shop/main.py:app`.
_APPLICATION = re.compile(
    r"(?:file:|asgi:|wsgi:)?((?:[\w./-]*/)?[A-Za-z_][\w.]*):[A-Za-z_][\w.]*(?:\([^()]*\))?"
)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MULTIPROCESSING = "from multiprocessing."  # how its helpers and children are started
_GENERATIONS = 8  # of processes that start processes

# Names of modules and folders that every project has.
_GENERIC: Final = frozenset(
    {
        "__main__", "api", "api_server", "app", "app1", "application", "apps", "asgi",
        "backend", "bin", "build", "celery", "celery_app", "code", "config", "core",
        "create_app", "current", "deploy", "dist", "docker", "entrypoint", "entrypoints", "home",
        "html", "index", "launch", "launch_server", "launcher", "lib", "main", "manage", "model",
        "models", "opt", "program", "project", "python", "releases", "root", "run", "run_server",
        "runserver", "script", "scripts", "serve", "server", "service", "services", "settings",
        "site", "source", "src", "srv", "start", "tmp", "usr", "var", "web", "work", "workdir",
        "workspace", "wsgi", "www",
    }
)  # fmt: skip
# Programs that serve or run the application of another.
_SERVERS: Final = frozenset(
    {
        "accelerate", "arq", "bentoml", "bokeh", "cProfile", "celery", "chainlit", "cherryd",
        "coverage", "daphne", "debugpy", "django", "django-admin", "dramatiq", "fastapi",
        "faststream", "flask", "functions-framework", "gradio", "granian", "gunicorn",
        "huey_consumer", "hypercorn", "litestar", "marimo", "mcp", "memray", "mlserver",
        "mod_wsgi-express", "panel", "pdb", "pserve", "pyuwsgi", "quart", "robyn", "rq", "sanic",
        "serve", "solara", "streamlit", "taskiq", "torchrun", "twist", "twistd", "uvicorn",
        "uwsgi", "viztracer", "waitress", "waitress-serve",
    }
)  # fmt: skip
_APPLICATION_IN: Final = frozenset(  # options
    {
        "-A", "-i", "-m", "-w", "--app", "--application", "--call", "--import", "--module",
        "--settings", "--source", "--wsgi", "--wsgi-file",
    }
)  # fmt: skip
_CONFIGURATION: Final = (".cfg", ".conf", ".ini", ".json", ".toml", ".xml", ".yaml", ".yml")
_FOLDER_IN: Final = frozenset({"--app-dir", "--chdir", "--working-dir", "--workdir"})
_FLAGS: Final = frozenset(
    {  # options without a value, before the name of an application
        "--access-log", "--call", "--capture-output", "--daemon", "--factory",
        "--enable-stdio-inheritance", "--interactive", "--lifespan", "--no-access-log",
        "--no-reload", "--preload", "--proxy-headers", "--reload", "--reuse-port",
        "--use-colors", "-D", "-R",
    }
)  # fmt: skip
# `worker`, `beat`: parts of the name
_WITH_COMMANDS: Final = frozenset({"celery", "django", "django-admin", "manage", "rq"})
_SERVING: Final = frozenset(
    {"run", "dev", "serve", "start", "launch", "runserver", "start-server", "worker-process"}
)


class Command(NamedTuple):
    """The program that an interpreter runs.

    Args:
        program: A path, or a module's name; empty: text (`-c`), or nothing.
        is_module: Whether `-m` named the program.
    """

    program: str
    is_module: bool
    arguments: tuple[str, ...]


def this_program() -> str:
    """The name of this program; a child of multiprocessing has its parent's."""
    line = tuple(sys.orig_argv) or ("", *_command_line(os.getpid()))  # within another program
    process = os.getppid()
    for _ in range(_GENERATIONS):
        if not is_multiprocessings(line):
            break
        line, process = _command_line(process) or line, _parent(process)
    command = command_of(line)
    if not command.program and sys.argv and sys.argv[0] not in {"-c", "-m"}:
        command = Command(sys.argv[0], is_module=False, arguments=tuple(sys.argv[1:]))
    return program_name(command, attempted(Path.cwd, otherwise=Path("/")))


def is_multiprocessings(line: Sequence[str]) -> bool:
    """Tell whether multiprocessing started a process with this command line."""
    return any(argument.startswith(_MULTIPROCESSING) for argument in line)


def command_of(line: Sequence[str]) -> Command:
    """Return what the command line of an interpreter runs."""
    rest = list(line[1:])
    while rest:
        argument = rest.pop(0)
        if argument in {"-W", "-X", "--check-hash-based-pycs"}:
            rest = rest[1:]
        elif argument == "-m" and rest:
            return Command(rest[0], is_module=True, arguments=tuple(rest[1:]))
        elif argument == "-c":
            break
        elif not argument.startswith("-"):
            return Command(argument, is_module=False, arguments=tuple(rest))
    return Command("", is_module=False, arguments=())


def program_name(command: Command, folder: Path) -> str:
    """Return what a program is called.

    Args:
        command: That runs it.
        folder: In which it does.
    """
    arguments = command.arguments
    folder = _folder(arguments, folder)
    program = command.program if command.is_module else Path(command.program).stem
    is_server = program in _SERVERS
    targets = _targets(program, arguments, is_server=is_server)
    target = next(filter(_is_application, targets), None)
    if target is not None:
        name = _of_target(target, folder)
    elif is_server:
        name = _of_folder(folder) or program
    elif command.is_module:
        name = _of_parts(program.split("."), folder)
    else:
        name = _of_path(Path(command.program), folder) if program else "python"
    role = _role(arguments) if program in _WITH_COMMANDS else None
    return name if role is None else f"{name}.{role}"


def _targets(program: str, arguments: Sequence[str], *, is_server: bool) -> Iterator[str]:
    """Find what may be the application, the surest first."""
    positional = [
        argument
        for before, argument in zip(("", *arguments), arguments, strict=False)
        if argument[:1] != "-" and (before[:1] != "-" or "=" in before or before in _FLAGS)
    ]
    yield from (each for each in positional if _APPLICATION.fullmatch(each))
    if not is_server:
        return
    yield from _values(arguments, _APPLICATION_IN)
    yield from (each for each in positional if each.endswith(".py"))
    if program not in _WITH_COMMANDS | {"flask", "quart"}:  # their commands look like modules
        yield from (
            each for each in positional if _MODULE.fullmatch(each) and each not in _SERVING
        )
    yield from (each for each in positional if "/" in each)


def _is_application(target: str) -> bool:
    """Tell whether a word can name an application: no number, and no file of settings."""
    may = _APPLICATION.fullmatch(target) or _MODULE.fullmatch(target) or "/" in target
    return bool(may) and not target.endswith(_CONFIGURATION)


def _values(arguments: Sequence[str], options: frozenset[str]) -> Iterator[str]:
    for argument, value in zip(arguments, (*arguments[1:], ""), strict=False):
        option, separator, rest = argument.partition("=")
        if option in options and (rest or value):
            yield rest if separator else value


def _of_target(target: str, folder: Path) -> str:
    application = _APPLICATION.fullmatch(target)
    target = application[1] if application else target
    if "/" in target or target.endswith(".py"):
        return _of_path(Path(target), folder)
    parts = target.split(".")
    if len(parts) > 1 and parts[-1][:1].isupper():  # a class in a module
        parts.pop()
    return _of_parts(parts, folder)


def _of_path(path: Path, folder: Path) -> str:
    """Return the name of a script, or of the folder that has it."""
    if path.stem.lower() not in _GENERIC and path.stem:
        return path.stem
    return _of_folder(folder / path.parent) or path.stem or "python"


def _of_parts(parts: Sequence[str], folder: Path) -> str:
    """Return the first and the last part of a module's path that tell something."""
    telling = [part for part in parts if part.lower() not in _GENERIC]
    if not telling:
        return _of_folder(folder) or parts[0]
    return telling[0] if telling[0] == telling[-1] else f"{telling[0]}.{telling[-1]}"


def _of_folder(folder: Path) -> str | None:
    """Return the innermost of a path's folders that tells something; None: none does."""
    path = Path(os.path.normpath(folder))
    home = attempted(Path.home, otherwise=Path("/"))
    own = path.relative_to(home) if path.is_relative_to(home) else path
    return next(
        (each for each in reversed(own.parts) if each.lower() not in _GENERIC | {"/"}), None
    )


def _folder(arguments: Sequence[str], folder: Path) -> Path:
    """Return the folder that a server changes to."""
    return folder / next(_values(arguments, _FOLDER_IN), "")


def _role(arguments: Sequence[str]) -> str | None:
    """Return the command of a program that has several, but not the one that serves."""
    commands = (each for each in arguments if each.isidentifier() and each not in _SERVING)
    named = set(_values(arguments, _APPLICATION_IN))
    return next((each for each in commands if each not in named), None)


def _command_line(process: int) -> tuple[str, ...]:
    """Of another process; empty: it cannot be read."""
    try:
        line = read_file(f"/proc/{process}/cmdline")
    except OSError:
        return ()
    return tuple(line.decode(errors="replace").rstrip("\0").split("\0"))


def _parent(process: int) -> int:
    """Return the parent of another process; 0: unknown."""
    try:
        status = read_file(f"/proc/{process}/stat")
    except OSError:
        return 0
    return int(status.rpartition(b")")[2].split()[1])
