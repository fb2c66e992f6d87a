"""`latencytrace --version`."""

import importlib.metadata
from typing import Annotated

import typer

from latencytrace.cli.pictures.lines import say


def _say(is_asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if is_asked:
        say(f"latencytrace {importlib.metadata.version('latencytrace')}")
        raise typer.Exit


def own_version(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    """Where did the milliseconds go? Latency observability for machine-learning inference."""
