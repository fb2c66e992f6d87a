"""`latencytrace requests`: the slowest requests, and what each spent its time on."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.doctor_checks.no_request import nothing, say_found, why_none
from latencytrace.cli.pictures.fitted_table import FAILED, FittedTable, legend, stacked_bar
from latencytrace.cli.pictures.terminal import screen, watch
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.model import RequestStatus, Stage
from latencytrace.model.cohorts.overview import LONG_LIVED_NS
from latencytrace.model.stage import IN_PARTS
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import UNKNOWN, count, duration, share
from latencytrace.service.answers.documents import ListedRequestDocument, RequestsDocument
from latencytrace.service.answers.sentences.stage_parts import stage_parts

BAR_SHORTEST, BAR_LONGEST = 8, 24
LEAST_SHARE = 0.0005  # less is shown as 0.0 %
LARGEST_STAGES = 2
WIDE = 132  # cells from which whole trace ids fit
SHORT_ID = 12
ORDERS = {"slowest": "slowest first", "newest": "newest first"}


@with_filters
def requests(
    *,
    wanted: Filters,
    order: Annotated[str, typer.Option(help="slowest or newest first.")] = "slowest",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    as_json: options.AsJson = False,
    again: options.Watch = False,
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
            say_found(source, wanted, reading.requests_document(source, wanted, order, limit))
            return
        console = screen()

        def listed(
            reason: Callable[[reading.Source, Filters], str],
        ) -> list[RenderableType]:
            found, left_out = answering(source, wanted, order, limit)
            if not found["requests"]:
                return [reason(source, wanted)]
            notes = [
                f"Not listed: {escaped(route)}, whose connections stay open. "
                f"With --route {escaped(shlex.quote(route))} they are."
                for route in left_out
            ]
            return [*picture(found, ORDERS[order], console), *(Text(one, "dim") for one in notes)]

        if again:
            watch(partial(listed, why_none), console, options.WATCH_S)
            return
        parts = listed(nothing)
    page(console, *parts)


def answering(
    source: reading.Source, wanted: Filters, order: str, limit: int
) -> tuple[RequestsDocument, list[str]]:
    """The requests, and routes left out of the slowest, since their connections stay open."""
    found = reading.listed(source, wanted, order, limit)
    asked_for = order != "slowest" or not wanted.keys().isdisjoint(("route", "duration"))
    if asked_for or all(one["duration_ns"] < LONG_LIVED_NS for one in found["requests"]):
        return found, []
    routes = reading.overview(source, wanted)["routes"]
    left_out = sorted({one["route"] for one in routes if one.get("long_lived")})  # older: no key
    if not left_out:
        return found, []
    conditions = [f"route={quote(route, safe='')}" for route in left_out]
    without = "&".join(filter(None, [wanted.get("without"), *conditions]))
    others = reading.listed(source, {**wanted, "without": without}, order, limit)
    return (others, left_out) if others["requests"] else (found, [])


def picture(listed: RequestsDocument, ordered: str, console: Console) -> list[RenderableType]:
    """A row a request, and what to type to see one whole; there is at least one."""
    found, matching = listed["requests"], listed["matching"]
    shown = f"{len(found):,} of " if matching > len(found) else ""
    coloured = console.color_system is not None
    bars = ("stages",) if coloured else ()
    drawn = FittedTable(
        *("duration", *bars, "largest", "route", "status", *_known(found), "trace"),
        left=("stages", "largest", "route", "status", "trace"),
        bar="stages",
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
        name="route",
        leave_out=(*bars, *reversed(_known(found)), "status", "largest"),
    )
    for request in found:
        drawn.add_row(
            duration(request["duration_ns"]),
            *((partial(stacked_bar, request["ledger"]),) if coloured else ()),
            _largest(request, wide=console.width >= WIDE),
            request["route"],
            Text(request["status"], "" if request["status"] == RequestStatus.OK else FAILED),
            *(_COLUMNS[heading](request) for heading in _known(found)),
            request["trace_id"] if console.width >= WIDE else request["trace_id"][:SHORT_ID],
        )
    stages = {stage for request in found for stage in request["ledger"]}
    fitted = drawn.drawn(console.width)
    has_bars = any(column.header == "stages" for column in fitted.columns)
    return [
        Text(f"{shown}{count(max(matching, len(found)), 'request')}, {ordered}", "bold"),
        *((legend(sorted(stages)),) if has_bars else ()),
        "",
        fitted,
        "",
        Text(f"One of them: latencytrace trace {found[0]['trace_id']}", "dim"),
    ]


def _tokens(request: ListedRequestDocument) -> str:
    tokens = request["output_tokens"]
    return UNKNOWN if tokens is None else f"{tokens:,}"


_COLUMNS: Mapping[str, Callable[[ListedRequestDocument], str]] = {
    "first token": lambda request: duration(request["time_to_first_token_ns"]),
    "tokens": _tokens,
}


def _known(found: Sequence[ListedRequestDocument]) -> list[str]:
    """The columns of what a model tells, where one of the requests has it."""
    return [
        heading
        for heading, text in _COLUMNS.items()
        if any(text(request) != UNKNOWN for request in found)
    ]


def _largest(request: ListedRequestDocument, *, wide: bool) -> str:
    ledger = sorted(request["ledger"].items(), key=lambda item: -item[1])[:LARGEST_STAGES]
    whole = request["duration_ns"] or 1
    largest = [
        f"{_what(request, stage) if wide else stage} {share(length / whole)}"
        for place, (stage, length) in enumerate(ledger)
        if not place or length / whole >= LEAST_SHARE
    ]
    return ", ".join(largest)


def _what(request: ListedRequestDocument, stage: Stage) -> str:
    """A stage; where its parts have names, what most of it was."""
    parts = stage_parts(request["segments"], stage) if stage in IN_PARTS else []
    return f"{stage} ({parts[0][0]})" if parts else stage
