"""The flags that reading commands share, so that each is spelled and explained once."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's document instead.")]
Url = Annotated[str | None, typer.Option(help="The service's address. Default: LATENCYTRACE_URL.")]
Data = Annotated[
    Path | None, typer.Option(help="Read this data folder, without asking a service.")
]
