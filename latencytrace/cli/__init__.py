"""The command line: one file per command."""

import os
import sys
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
from latencytrace.cli.pictures.terminal import complain
from latencytrace.cli.processes.help_text import help_text
from latencytrace.cli.processes.own_version import own_version
from latencytrace.cli.processes.typer_fault import typer_fault
from latencytrace.errors import LatencytraceError, ObjectivesError, ServiceUnreachableError
from latencytrace.model.secrets import text_shown

_IN_LINES = (ObjectivesError, ServiceUnreachableError)  # whose messages may have several

app = typer.Typer(
    name="latencytrace", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.callback()(own_version)


def _add(command: Callable[..., None], name: str | None = None, *, runs: bool = False) -> None:
    """Make a function a command; of one that `runs` a program all that follows is its own."""
    settings = {"allow_interspersed_args": False} if runs else {}
    app.command(name, help=help_text(command), context_settings=settings)(command)


_add(run.run, runs=True)
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


def main() -> None:
    """Run the command line; our own errors are one line, not a traceback."""
    try:
        if fault := typer_fault():
            raise LatencytraceError(fault)  # noqa: TRY301 - told as any other
        app()
    except LatencytraceError as error:
        complain(text_shown(str(error)), in_lines=isinstance(error, _IN_LINES))
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
