"""The commands as Typer knows them: with the extra `cli`, which has Typer."""

from collections.abc import Callable

import typer

from latencytrace.cli.commands import (
    breakdown,
    demo,
    doctor,
    export,
    gpu,
    import_traces,
    load,
    objectives,
    profile,
    requests,
    rules,
    run,
    serve,
    trace,
)
from latencytrace.cli.processes.help_text import help_text
from latencytrace.cli.processes.own_version import own_version

app = typer.Typer(
    name="latencytrace", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.callback()(own_version)


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
_add(gpu.gpu)
_add(profile.profile)
_add(objectives.objectives)
_add(rules.rules)
_add(export.export)
_add(import_traces.import_traces, "import")
_add(demo.demo)
_add(doctor.doctor, runs=True)
