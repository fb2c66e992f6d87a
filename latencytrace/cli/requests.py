"""`latencytrace requests`: the slowest requests, and what each spent its time on."""

from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli import options, reading
from latencytrace.cli.filters import Filters, with_filters
from latencytrace.cli.no_request import why_none
from latencytrace.cli.pictures import legend, stacked_bar, table
from latencytrace.cli.terminal import say_document, screen, show
from latencytrace.cli.units import UNKNOWN, count, duration, share
from latencytrace.service.documents import ListedRequestDocument

BAR_CELLS = 24
LARGEST_STAGES = 2
WIDE = 132  # cells from which whole trace ids fit
SHORT_ID = 12
ORDERS = {"slowest": "slowest first", "newest": "newest first"}


@with_filters
def requests(  # noqa: PLR0913 - one argument a flag
    *,
    wanted: Filters,
    order: Annotated[str, typer.Option(help="slowest or newest first.")] = "slowest",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    as_json: options.AsJson = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """List requests, slowest first, with the stages they spent their time in.

    Example: latencytrace requests --route "POST /chat" --limit 5
    """
    if order not in ORDERS:
        raise typer.BadParameter(f"{order!r}: write slowest or newest", param_hint="--order")
    with reading.source(url, data) as source:
        if as_json:
            say_document(reading.requests_document(source, wanted, order, limit))
            return
        console = screen()
        found = reading.requests(source, wanted, order, limit)
        if found:
            show(console, *picture(found, ORDERS[order], console))
        else:
            show(console, why_none(source, wanted))


def picture(
    found: list[ListedRequestDocument], ordered: str, console: Console
) -> list[RenderableType]:
    """A row a request, and what to type to see one whole; there is at least one."""
    coloured = console.color_system is not None
    drawn = table(
        "duration",
        *(("stages",) if coloured else ()),
        "largest",
        "route",
        "status",
        "first token",
        "tokens",
        "trace",
        left=("stages", "largest", "route", "status", "trace"),
    )
    for request in found:
        bars = (stacked_bar(request["ledger"], BAR_CELLS),) if coloured else ()
        drawn.add_row(duration(request["duration_ns"]), *bars, *_cells(request, console.width))
    stages = {stage for request in found for stage in request["ledger"]}
    return [
        Text(f"{count(len(found), 'request')}, {ordered}", "bold"),
        *((legend(sorted(stages)),) if coloured else ()),
        "",
        drawn,
        "",
        Text(f"One of them: latencytrace trace {found[0]['trace_id'][:SHORT_ID]}", "dim"),
    ]


def _cells(request: ListedRequestDocument, width: int) -> list[str]:
    tokens = request["output_tokens"]
    trace_id = request["trace_id"]
    return [
        _largest(request),
        request["route"],
        request["status"],
        duration(request["time_to_first_token_ns"]),
        UNKNOWN if tokens is None else f"{tokens:,}",
        trace_id if width >= WIDE else trace_id[:SHORT_ID],
    ]


def _largest(request: ListedRequestDocument) -> str:
    ledger = sorted(request["ledger"].items(), key=lambda item: -item[1])[:LARGEST_STAGES]
    whole = request["duration_ns"] or 1
    return ", ".join(f"{stage} {share(length / whole)}" for stage, length in ledger)
