"""`latencytrace whatif`: how fast requests would be if one of their stages were faster."""

from collections.abc import Sequence
from typing import Annotated, cast

import typer
from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.doctor_checks.no_request import nothing, say_found
from latencytrace.cli.pictures.fitted_table import table
from latencytrace.cli.pictures.terminal import screen
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.model.texts.units import count, duration, share
from latencytrace.service.answers.compare_documents import WhatifDocument
from latencytrace.service.answers.sentences.whatif import notes


def _picture(document: WhatifDocument, what: str) -> list[RenderableType]:
    """The forecast, and what it rests on."""
    drawn = table("end to end", "now", "then", "gain", left=("end to end",))
    for level, pair in (document["duration_ns"] or {}).items():
        found = cast("dict[str, int]", pair)
        gain_ns = found["now"] - found["then"]
        gained = f"{duration(gain_ns)} ({share(gain_ns / max(found['now'], 1))})"
        drawn.add_row(level, duration(found["now"]), duration(found["then"]), gained)
    title = f"If {document['stage']} {what}"
    return [
        Text(f"{title} · {count(document['requests'], 'request')}", "bold"),
        drawn,
        "",
        *(Text(note, "dim") for note in notes(document)),
    ]


@with_filters
def whatif(
    *,
    stage: Annotated[str, typer.Option(help="Stage to speed up, as retrieve.")],
    faster: Annotated[
        str | None,
        typer.Option(help="By which share of its time: 0.5 or 50%.", show_default=False),
    ] = None,
    at_most_ms: Annotated[
        float | None,
        typer.Option(help="Or: each call of it takes no longer than this.", min=0),
    ] = None,
    wanted: Filters,
    as_json: options.AsJson = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Forecast p50, p95 and p99 end to end if a stage were faster.

    Requests are replayed along their critical paths: a stage off the path gives nothing.

    Example: latencytrace whatif --stage retrieve --faster 50% --route "POST /chat"
    """
    if (faster is None) == (at_most_ms is None):
        raise typer.BadParameter(
            "say either --faster 50% or --at-most-ms 20", param_hint="--faster"
        )
    if faster is not None:
        ratio = options.ratio(faster, "--faster", most=1.0)
        change, what = {"faster": str(ratio)}, f"were {100 * ratio:g} % faster"
    else:
        change, what = {"at_most_ms": str(at_most_ms)}, f"took at most {at_most_ms:g} ms"
    with reading.source(url, data) as source:
        document = cast(
            WhatifDocument, source.document("/whatif", {**wanted, "stage": stage, **change})
        )
        if as_json:
            say_found(source, wanted, document)
            return
        if document["duration_ns"] is None:
            parts: Sequence[RenderableType] = [nothing(source, wanted)]
        else:
            parts = _picture(document, what)
    page(screen(), *parts)
