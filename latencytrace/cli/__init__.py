"""The command line: one file per command."""

import os
import sys

import typer

from latencytrace.cli import (
    breakdown,
    demo,
    doctor,
    export,
    gpu,
    import_traces,
    load,
    objectives,
    requests,
    rules,
    run,
    serve,
    trace,
)
from latencytrace.errors import LatencytraceError

app = typer.Typer(
    name="latencytrace",
    help="Where did the milliseconds go? Latency observability for machine-learning inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Everything after the program's name is its own, flags too.
_OF_A_PROGRAM = {"allow_interspersed_args": False}
app.command(context_settings=_OF_A_PROGRAM)(run.run)
app.command()(serve.serve)
app.command()(load.load)
app.command()(breakdown.breakdown)
app.command()(requests.requests)
app.command()(trace.trace)
app.command()(gpu.gpu)
app.command()(objectives.objectives)
app.command()(rules.rules)
app.command()(export.export)
app.command("import")(import_traces.import_traces)
app.command()(demo.demo)
app.command(context_settings=_OF_A_PROGRAM)(doctor.doctor)


def main() -> None:
    """Run the command line; our own errors are one line, not a traceback."""
    try:
        app()
    except LatencytraceError as error:
        print(f"latencytrace: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
