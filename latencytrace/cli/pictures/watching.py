"""A picture that is drawn anew until an interrupt."""

import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from latencytrace.cli.pictures.terminal import fit, show


def watch(
    picture: Callable[[], Sequence[RenderableType]],
    console: Console,
    every_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Draw a picture again and again; once where the output is no terminal.

    Args:
        picture: Asked for each time.
        console: Where it is drawn.
        every_s: How long a picture stands.
        sleep: Waits so long.
    """
    if not sys.stdout.isatty():
        show(console, *picture())
        return
    try:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(fit(Group(*picture(), Text("Ctrl-C ends.", "dim"))), refresh=True)
                sleep(every_s)
    except KeyboardInterrupt:
        return
