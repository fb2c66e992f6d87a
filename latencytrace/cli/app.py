"""The commands as Typer knows them: with the extra `cli`, which has Typer."""

import inspect
import re
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer
from typer.core import TyperGroup

from latencytrace.cli.commands import (
    acknowledge,
    adopt,
    autoscaling,
    backup,
    breakdown,
    capacity,
    compare,
    demo,
    doctor,
    export,
    gpu,
    import_traces,
    load,
    maintenance,
    migrate,
    objectives,
    profile,
    requests,
    restore,
    rules,
    run,
    serve,
    tail,
    trace,
    whatif,
)
from latencytrace.cli.pictures.lines import say

_WRAPPED = re.compile(r"\n(?![ \n])(?<!\n\n)")  # a line's end within a paragraph


def help_text(command: Callable[..., None]) -> str:
    """Join each paragraph of its docstring to one line; lines that are indented stay lines."""
    return _WRAPPED.sub(" ", inspect.cleandoc(command.__doc__ or ""))


class _Commands(TyperGroup):
    """The commands; what is wrong with a flag is said without the name of a Python class."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override] # has its parts
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="latencytrace", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False
)


def _say_version(is_asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if is_asked:
        say(f"latencytrace {version('latencytrace')}")
        raise typer.Exit


@app.callback()
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


@app.command(
    "run",
    help=run.ABOUT,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _run(context: typer.Context) -> None:
    """Pass everything on: `run` reads its own options."""
    raise typer.Exit(run.run(context.args))


def _add(command: Callable[..., None], name: str | None = None, *, runs: bool = False) -> None:
    """Make a function a command; of one that `runs` a program all that follows is its own."""
    settings = {"allow_interspersed_args": False} if runs else {}
    app.command(name, help=help_text(command), context_settings=settings)(command)


_add(serve.serve)
_add(load.load)
_add(breakdown.breakdown)
_add(requests.requests)
_add(trace.trace)
_add(tail.tail)
_add(compare.compare)
_add(whatif.whatif)
_add(capacity.capacity)
_add(gpu.gpu)
_add(profile.profile)
_add(objectives.objectives)
_add(acknowledge.acknowledge)
_add(maintenance.maintenance)
_add(rules.rules)
_add(autoscaling.autoscaling)
_add(export.export)
_add(import_traces.import_traces, "import")
_add(backup.backup)
_add(restore.restore)
_add(migrate.migrate)
_add(adopt.adopt)
_add(demo.demo)
_add(doctor.doctor, runs=True)
