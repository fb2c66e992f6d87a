"""The command line where only `run` works, because its extra is not installed."""

import re
from collections.abc import Callable, Sequence

from latencytrace.cli.pictures.lines import complain, say
from latencytrace.plugins import installed_version

COMMANDS = {  # by the extra that they come with
    "cli": (
        *("breakdown", "requests", "trace", "tail", "compare", "whatif"),
        *("capacity", "gpu", "profile", "objectives", "acknowledge", "maintenance", "export"),
    ),
    "service": (
        "serve",
        "rules",
        "autoscaling",
        "import",
        "backup",
        "restore",
        "migrate",
        "adopt",
    ),
    "load": ("load",),
    "demo": ("demo",),
}
HELP = """\
Usage: latencytrace run [--service NAME] [--endpoint URL] [--data DIR] -- COMMAND...

Where did the milliseconds go? Latency observability for machine-learning inference.

Only the agent is installed here: `run` traces a Python program, see `latencytrace run --help`,
and `doctor` says what is wrong with that.
Other commands come with extras:"""


def answer(arguments: Sequence[str], missing: ImportError) -> int:
    """Answer `--help` and `--version`, and refuse other commands in one line.

    Args:
        missing: Why its commands cannot be loaded.

    Returns:
        The exit code.
    """
    command = arguments[0] if arguments else "--help"
    if command == "--version":
        say(f"latencytrace {installed_version('latencytrace')}")
    elif command == "--help":
        for line in HELP.splitlines():
            say(line)
        for extra, commands in COMMANDS.items():
            say(f"  {', '.join(commands)}: {_install(extra)}")
        return 0 if arguments else 2  # as with the extra
    else:
        extra = next((extra for extra in COMMANDS if command in COMMANDS[extra]), "cli")
        complain(f"{command} needs more than is installed: {missing}. Run: {_install(extra)}")
        return 1
    return 0


def _install(extra: str) -> str:
    return f"pip install 'latencytrace[{extra}]'"


_FIRST_TYPER = (0, 13)  # before: whatever was typed, the new click took it for `--version`
_NEW_CLICK = (8, 2)


def typer_fault(version_of: Callable[[str], str] = installed_version) -> str | None:
    """Name a fault of the libraries that read the command line; None: there is none.

    Other packages pin an old Typer, and pip then takes a click that is too new for it.
    """
    typer = version_of("typer")
    if _numbers(typer) >= _FIRST_TYPER:
        return None
    click = version_of("click")
    if _numbers(click) < _NEW_CLICK:
        return None
    return f"typer {typer} misreads every command line with click {click}: pip install 'click<8.2'"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
