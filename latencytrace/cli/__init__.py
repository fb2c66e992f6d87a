"""The command line: one file per command."""

import errno
import gc
import os
import sys
from collections.abc import Sequence

from latencytrace.cli.commands.run import run
from latencytrace.cli.pictures.lines import complain
from latencytrace.errors import LatencytraceError, ObjectivesError, ServiceUnreachableError
from latencytrace.model.texts.secrets import text_shown

INTERRUPTED = 130
# Of writing standard output; errors of files have a name, those of sockets are others.
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_COLLECTED_AFTER = 100_000  # objects: what is imported stays, and takes long to look through
_IN_LINES = (ObjectivesError, ServiceUnreachableError)  # their messages may have several


def main() -> None:
    """Run the command line; our own errors are one line, not a traceback."""
    gc.set_threshold(_COLLECTED_AFTER)
    try:
        code = _run_out(sys.argv[1:])
    except LatencytraceError as error:
        complain(text_shown(str(error)), in_lines=isinstance(error, _IN_LINES))
        code = 1
    except BrokenPipeError:  # the reader of our output left, as `head` does
        _drop_output()
        code = 1
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _drop_output()
        complain(f"the output cannot be written: {error.strerror}")
        code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _run_out(arguments: Sequence[str]) -> int | str | None:
    """Run the command line; whatever it printed has left us when this ends."""
    try:
        return _run(arguments)
    except SystemExit as ended:
        return ended.code
    finally:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()


def _drop_output() -> None:
    """Send what is still to be printed nowhere: Python would try it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["run"]:
        return run(arguments[1:])
    try:
        from latencytrace.cli.command_line import command_line_for

        app = command_line_for(arguments)
    except ImportError as missing:
        if arguments[:1] == ["doctor"]:
            from latencytrace.cli.doctor_checks.without_extra import doctor

            return doctor(arguments[1:])
        from latencytrace.cli.processes.without_extra import answer

        return answer(arguments, missing)
    from latencytrace.cli.processes.without_extra import typer_fault

    if fault := typer_fault():
        raise LatencytraceError(fault)
    app()
    return 0
