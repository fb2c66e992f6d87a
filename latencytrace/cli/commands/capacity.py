"""`latencytrace capacity`: latency against load, and what the service keeps up with."""

from typing import Annotated, cast

import typer

from latencytrace.cli.doctor_checks.no_request import nothing, say_found
from latencytrace.cli.pictures.capacity import picture
from latencytrace.cli.pictures.terminal import screen
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.service.answers.load.capacity_documents import CapacityDocument


@with_filters
def capacity(
    *,
    within: options.Within = None,
    first_token_within: options.FirstTokenWithin = None,
    per_token_within: options.PerTokenWithin = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Requests a second: how many replicas they ask for."),
    ] = None,
    wanted: Filters,
    as_json: options.AsJson = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Show latency against load: by how many requests are under way at once, and the knee.

    Without a limit, good requests are the ones that meet the service's objectives.

    Example: latencytrace capacity --service rag --since 1h --within 2s --rate 120
    """
    limits = {
        "within": within,
        "first_token_within": first_token_within,
        "per_token_within": per_token_within,
    }
    asked = {**wanted, **{name: text for name, text in limits.items() if text is not None}}
    if rate is not None:
        asked["rate"] = str(rate)
    with reading.source(url, data) as source:
        found = cast(CapacityDocument, source.document("/capacity", asked))
        if as_json:
            say_found(source, wanted, found)
            return
        console = screen()
        parts = picture(found, console) if found["requests"] else [nothing(source, wanted)]
    page(console, *parts)
