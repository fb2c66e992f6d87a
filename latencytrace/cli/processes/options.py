"""The flags that reading commands share, so that each is spelled and explained once."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's document instead.")]
Watch = Annotated[bool, typer.Option("--watch", help="Draw it anew every two seconds.")]
WATCH_S: Final = 2.0
Url = Annotated[str | None, typer.Option(help="The service's address. Default: LATENCYTRACE_URL.")]
Data = Annotated[
    Path | None, typer.Option(help="Read this data folder, without asking a service.")
]

Within = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Good requests take no longer: 2s.")
]
FirstTokenWithin = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Nor their first token: 500ms.")
]
PerTokenWithin = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Nor each token after it: 50ms.")
]

_PERCENT: Final = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) ?%")
_RATIO: Final = re.compile(r"\d{1,2}(?:\.\d{1,8})?")


def ratio(text: str, flag: str, *, most: float) -> float:
    """Read a share: `3%` or `0.03`.

    Raises:
        typer.BadParameter: It is none, or too large.
    """
    percent = _PERCENT.fullmatch(text.strip())
    if percent is None and not _RATIO.fullmatch(text.strip()):
        raise typer.BadParameter(f"{text!r} is no share: write 3% or 0.03", param_hint=flag)
    found = float(percent[1]) / 100 if percent else float(text)
    if found > most:
        raise typer.BadParameter(f"{text!r} is more than {most:.0%}", param_hint=flag)
    return found
