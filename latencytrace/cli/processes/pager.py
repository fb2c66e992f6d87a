"""Pictures longer than the terminal, through the program that turns their pages."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType

from latencytrace.cli.pictures.terminal import drawn, show
from latencytrace.settings import pager_command

_FLAGS_OF_LESS = "-FRX"  # colours as they are; it ends by itself where all fits, and leaves it


def page(console: Console, *parts: RenderableType) -> None:
    """Print parts one below the other; where they do not fit a terminal, through its pager.

    Call it with nothing open that others wait for: a user may read for long.
    """
    command = pager_command()
    if command and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        text = drawn(console, *parts)
        if text.count("\n") >= console.height and _shown_by(command, text):
            return
    show(console, *parts)


def _shown_by(command: Sequence[str], text: str) -> bool:
    """Have a program show a text; False: it cannot be started."""
    flags = [_FLAGS_OF_LESS] if Path(command[0]).name == "less" else []
    # An interrupt is the pager's, which holds the terminal and does not inherit a handler.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        pager = subprocess.Popen(  # noqa: S603 - the user's own choice
            [*command, *flags],
            stdin=subprocess.PIPE,
            text=True,
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
        )
        pager.communicate(f"{text}\n")
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True
