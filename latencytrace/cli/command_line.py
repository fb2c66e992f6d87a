"""The commands as Typer knows them: with the extra `cli`, which has Typer.

Only the command that is asked for is imported: all of them take several times as long.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Final, cast

import typer
from typer.core import TyperGroup

from latencytrace.cli.commands import run
from latencytrace.cli.pictures.lines import say
from latencytrace.plugins import installed_version

_WRAPPED = re.compile(r"\n(?![ \n])(?<!\n\n)")  # a line's end within a paragraph


def help_text(command: Callable[..., None]) -> str:
    """Join each paragraph of its docstring to one line; lines that are indented stay lines."""
    return _WRAPPED.sub(" ", inspect.cleandoc(command.__doc__ or ""))


COMMANDS: Final = (  # beside `run`, in the order of `--help`
    "serve", "load", "breakdown", "requests", "trace", "tail", "compare", "whatif", "capacity",
    "gpu", "profile", "objectives", "acknowledge", "maintenance", "rules", "autoscaling",
    "export", "import", "backup", "restore", "migrate", "adopt", "demo", "doctor",
)  # fmt: skip
_FUNCTIONS: Final = {"import": "import_traces"}  # where Python has the name
_RUNS: Final = {"doctor"}  # all that follows is a program's


class _Commands(TyperGroup):
    """The commands; what is wrong with a flag is said without the name of a Python class."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override] # has its parts
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _say_version(is_asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if is_asked:
        say(f"latencytrace {installed_version('latencytrace')}")
        raise typer.Exit


def _main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Where did the milliseconds go? Latency observability for machine-learning inference."""


def _run(context: typer.Context) -> None:
    """Pass everything on: `run` reads its own options."""
    raise typer.Exit(run.run(context.args))


def command_line(*names: str) -> typer.Typer:
    """Make the command line of these commands and of `run`; the others are not imported."""
    made = typer.Typer(
        name="latencytrace", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False
    )
    made.callback()(_main)
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    made.command("run", help=run.ABOUT, add_help_option=False, context_settings=passed_on)(_run)
    for name in names:
        function = _FUNCTIONS.get(name, name)
        module = import_module(f"latencytrace.cli.commands.{function}")
        command = cast(Callable[..., None], getattr(module, function))
        settings = {"allow_interspersed_args": False} if name in _RUNS else {}
        made.command(name, help=help_text(command), context_settings=settings)(command)
    return made


def command_line_for(arguments: Sequence[str]) -> typer.Typer:
    """Make the one that reads these arguments: of all commands, unless they begin with one."""
    named = arguments[:1]
    return command_line(*(named if named and named[0] in COMMANDS else COMMANDS))
