"""`latencytrace tail`: why the slowest requests are slow."""

from typing import Annotated

import typer

from latencytrace.cli.doctor_checks.no_request import nothing, say_found
from latencytrace.cli.pictures.tail import picture
from latencytrace.cli.pictures.terminal import screen
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters


@with_filters
def tail(
    *,
    wanted: Filters,
    quantile: Annotated[
        float, typer.Option(min=0.75, max=0.9999, help="Where the tail begins.")
    ] = 0.99,
    as_json: options.AsJson = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Show why the slowest requests are slow: against those around the median.

    Example: latencytrace tail --route "POST /chat" --since 1h --quantile 0.99
    """
    with reading.source(url, data) as source:
        found = reading.tail(source, wanted, quantile)
        if as_json:
            say_found(source, wanted, found)
            return
        console = screen()
        parts = picture(found, console) if found["requests"] else [nothing(source, wanted)]
    page(console, *parts)
