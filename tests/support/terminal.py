"""The command line in this process: what a command prints, and what a picture looks like."""

from collections.abc import Iterable

from rich.console import Console, RenderableType
from typer.testing import CliRunner

from latencytrace.cli.app import app


def said(*arguments: object) -> str:
    """What a command that succeeds prints."""
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def plain(width: int) -> Console:
    """A terminal without colours."""
    return Console(width=width, color_system=None)


def printed_lines(parts: Iterable[RenderableType], console: Console) -> list[str]:
    """A picture as a terminal shows it, without the blanks at the ends of lines."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return [line.rstrip() for line in captured.get().splitlines()]
