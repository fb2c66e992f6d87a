"""The command line: one file per command."""

import os
import sys
from collections.abc import Sequence

from latencytrace.cli.commands.run import run
from latencytrace.cli.pictures.lines import complain
from latencytrace.errors import LatencytraceError, ObjectivesError, ServiceUnreachableError
from latencytrace.model.texts.secrets import text_shown

INTERRUPTED = 130
_IN_LINES = (ObjectivesError, ServiceUnreachableError)  # whose messages may have several


def main() -> None:
    """Run the command line; our own errors are one line, not a traceback."""
    try:
        code = _run(sys.argv[1:])
    except LatencytraceError as error:
        complain(text_shown(str(error)), in_lines=isinstance(error, _IN_LINES))
        code = 1
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["run"]:
        return run(arguments[1:])
    try:
        from latencytrace.cli.app import app  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as missing:
        from latencytrace.cli.processes.without_extra import answer  # noqa: PLC0415 - seldom needed

        return answer(arguments, missing)
    from latencytrace.cli.processes.typer_fault import typer_fault  # noqa: PLC0415 - likewise

    if fault := typer_fault():
        raise LatencytraceError(fault)
    app()
    return 0
