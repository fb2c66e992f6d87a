"""The flags that reading commands share, so that each is spelled and explained once."""

from pathlib import Path
from typing import Annotated

import typer

Service = Annotated[str | None, typer.Option(help="Only this service's requests.")]
Route = Annotated[str | None, typer.Option(help='Only this route, as "POST /chat".')]
Model = Annotated[str | None, typer.Option(help="Only requests to this model.")]
Version = Annotated[str | None, typer.Option(help="Only this version of the service.")]
Instance = Annotated[str | None, typer.Option(help="Only this instance of the service.")]
Status = Annotated[
    str | None, typer.Option(help="Only ok, error, timeout, cancelled or rejected ones.")
]
InputTokens = Annotated[
    str | None, typer.Option(help="Only with so many: 1000..4000, 1000.., ..4000 or 512.")
]
OutputTokens = Annotated[str | None, typer.Option(help="Likewise.")]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Only with this attribute on a span. May be repeated."),
]
Since = Annotated[
    str | None, typer.Option(help="From when: 15m, 2h, or RFC 3339. Default: the last hour.")
]
Until = Annotated[str | None, typer.Option(help="Until when, likewise. Default: now.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's document instead.")]
Url = Annotated[str | None, typer.Option(help="The service's address. Default: LATENCYTRACE_URL.")]
Data = Annotated[
    Path | None, typer.Option(help="Read this data folder, without asking a service.")
]
