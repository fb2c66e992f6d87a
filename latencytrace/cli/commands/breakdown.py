"""`latencytrace breakdown`: where the time of a cohort of requests went."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.doctor_checks.no_request import nothing, say_found, why_none
from latencytrace.cli.pictures import gpu_stages
from latencytrace.cli.pictures.fitted_table import FittedTable, stacked_bar, stage_bar
from latencytrace.cli.pictures.terminal import screen, show, watch
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.errors import LatencytraceError, ServiceUnreachableError
from latencytrace.model import Stage
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import count, duration, figure, share, shares
from latencytrace.service.answers.documents import (
    BreakdownDocument,
    RouteBreakdownsDocument,
    StageDocument,
)
from latencytrace.service.answers.sentences.after_answer import after_answers
from latencytrace.service.answers.sentences.stage_parts import OTHERS, others_ns
from latencytrace.service.answers.sentences.unnamed import unnamed_sentence, unnamed_stages

MOST_ROUTES = 20  # unless all are asked for
EVERY_ROUTE = 10_000  # at most
MOST_VALUES = 1_000  # of an attribute
BAR_SHORTEST, BAR_LONGEST = 4, 48
WIDEST = 120  # cells of the bar of all stages
NEVER_TWO = (
    "Never more than one request at a time: queues and contention cannot show. "
    "Send several at once."
)
NAME_IT = (
    '`with latencytrace.stage("NAME"):` around code of yours names it, or a '
    "span of any tracer's with the attribute `latencytrace.stage`, "
    "LATENCYTRACE_TORCH_MODULES=CLASS a torch module of yours, and `latencytrace.enqueue()` with "
    "`latencytrace.batch()` the wait and the work of a batcher of yours."
)
PLACE_IT = (
    "The rows below `other` name these spans; the attribute `latencytrace.stage` on a span names "
    "its stage."
)
LOADS = "load"  # the route of processes before they served: no requests
ROUNDING_NS = 1  # each mean is a whole number of nanoseconds
ROUNDING = 2**-40  # of a mean: it comes of a sum in floats


@with_filters
def breakdown(
    *,
    wanted: Filters,
    every: Annotated[
        bool,
        typer.Option("--all", help=f"Every route or value, not just the busiest {MOST_ROUTES}."),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            help="A row for each service, route, model, version, instance, status or value of an "
            "attribute, as tenant."
        ),
    ] = None,
    as_json: options.AsJson = False,
    again: options.Watch = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Show where the milliseconds went: time per stage, for each of the busiest routes.

    Example: latencytrace breakdown --route "POST /chat" --since 15m --by tenant
    """
    with reading.source(url, data) as source:
        if as_json:
            limit = MOST_VALUES if every else None
            if by is None:
                say_found(source, wanted, reading.breakdown(source, wanted))
            else:
                say_found(source, wanted, reading.groups(source, wanted, by, limit))
            return
        console = screen()

        def drawn(
            reason: Callable[[reading.Source, Filters], str] = why_none,
        ) -> Iterator[list[RenderableType]]:
            if by is None:
                return pictures(source, wanted, console, reason, every=every)
            return grouped(source, wanted, by, console, reason, every=every)

        if again:
            watch(lambda: joined(drawn()), console, options.WATCH_S)
            return
        found = drawn(nothing)
        if every or not sys.stdout.isatty():
            for parts in found:  # as they come
                show(console, *parts)
                sys.stdout.flush()
            return
        whole = joined(found)
    page(console, *whole)


def joined(found: Iterator[list[RenderableType]]) -> list[RenderableType]:
    """All that `pictures` draws."""
    return [part for parts in found for part in parts]


def pictures(
    source: reading.Source,
    wanted: Filters,
    console: Console,
    reason: Callable[[reading.Source, Filters], str] = why_none,
    *,
    every: bool = False,
) -> Iterator[list[RenderableType]]:
    """The breakdown asked for, in parts; where no route was named, of the busiest routes.

    Args:
        source: The service or folder to ask.
        reason: Says why there is no request.
        every: Draw every route that has requests.
    """
    whole = reading.breakdown(source, wanted)
    said = (
        *_left_out(whole),
        *_reduced(whole),
        *_never_two(whole, wanted),
        *_from_histograms(whole),
    )
    notes = [Text(note, "dim") for note in said]
    if not whole["requests"]:
        yield [reason(source, wanted), *notes]
        return
    shown: list[tuple[Filters, BreakdownDocument]] = []
    found: RouteBreakdownsDocument = {"routes": [], "route_count": 0}
    if "route" not in wanted:
        try:
            found = reading.breakdowns(source, wanted, EVERY_ROUTE if every else MOST_ROUTES)
        except ServiceUnreachableError:
            raise
        except LatencytraceError as error:  # which is no reason to hide the whole
            yield [Text(escaped(f"No routes: {error}")), ""]
    for one in found["routes"]:
        route, service = one["route"], one["service"]
        yield picture(f"{route} · {service}", one, console)
        shown.append(({**wanted, "service": service, "route": route}, one))
    if not shown:
        yield picture(wanted.get("route", "all routes"), whole, console)
        shown.append((wanted, whole))
    last = [
        *_more(found["route_count"] - len(found["routes"]), wanted),
        *_mostly_unnamed(shown),
        *_on_gpus(source, wanted),
        *notes,
    ]
    if last:
        yield last


def grouped(
    source: reading.Source,
    wanted: Filters,
    by: str,
    console: Console,
    reason: Callable[[reading.Source, Filters], str],
    *,
    every: bool,
) -> Iterator[list[RenderableType]]:
    """The breakdown asked for by the values of a label or an attribute."""
    from latencytrace.cli.pictures import groups

    found = reading.groups(source, wanted, by, MOST_VALUES if every else None)
    if not found["requests"]:
        yield [reason(source, wanted)]
        return
    yield groups.picture(found, console)


def _mostly_unnamed(routes: Sequence[tuple[Filters, BreakdownDocument]]) -> list[RenderableType]:
    """Say how to see more, where most of a route has no name; one says it for all."""
    dark = [(asked, document) for asked, document in routes if unnamed_stages(document)]
    if not dark:
        return []
    asked, document = max(dark, key=lambda one: one[1]["requests"] * _unnamed_ns(one[1]))
    unnamed = unnamed_stages(document)
    flags = [f"--{key} {shlex.quote(asked[key])}" for key in ("service", "route") if key in asked]
    command = " ".join(("latencytrace trace slowest", *flags))
    said = [unnamed_sentence(unnamed)]
    if Stage.UNATTRIBUTED in unnamed:
        said += [f"{command} shows where it lies.", NAME_IT]
    if Stage.OTHER in unnamed:
        said.append(PLACE_IT)
    return [Text(escaped(" ".join(said)), "dim"), ""]


def _unnamed_ns(document: BreakdownDocument) -> float:
    wanted = unnamed_stages(document)
    return sum(row["mean_ns"] for row in document["stages"] if row["stage"] in wanted)


def _on_gpus(source: reading.Source, wanted: Filters) -> list[RenderableType]:
    """Lines on what held the stages up on GPUs; they serve all routes, so none has its own row."""
    rows = gpu_stages.of_cohort(
        reading.stages_on_gpus(source), wanted.get("service"), wanted.get("model")
    )
    return [*gpu_stages.stages_table(rows), ""] if rows else []


def _more(number: int, wanted: Filters) -> list[RenderableType]:
    """Say that there are more routes, and how to list them."""
    if not number:
        return []
    flags = "--route" if "service" in wanted else "--service or --route"
    more = count(number, "more route")
    return [Text(f"{more} took less time: {flags} names one, --all shows all.", "dim"), ""]


def picture(title: str, document: BreakdownDocument, console: Console) -> list[RenderableType]:
    """One cohort: its numbers, its stages as bars, and what is worth knowing about them."""
    heading = Text(title, "bold")
    if not document["requests"]:
        return [heading, "No request.", ""]
    parts: list[RenderableType] = [heading, *_numbers(document), ""]
    if console.color_system is not None:
        whole = {row["stage"]: round(row["mean_ns"]) for row in document["stages"]}
        parts += [stacked_bar(whole, min(console.width, WIDEST)), ""]
    parts += [_stages(document, console.width), Text(_sum(document), "dim")]
    return [*parts, ""]


def _numbers(document: BreakdownDocument) -> list[RenderableType]:
    total = document["duration_ns"]
    first = document["time_to_first_token_ns"]
    each = document["time_per_output_token_ns"]
    facts = [count(document["requests"], "request")]
    if total is not None:
        facts += [f"{name} {duration(total[name])}" for name in ("p50", "p90", "p99")]
    facts.append(f"{share(document['attributed_ratio'])} explained by spans")
    lines = [" · ".join(facts)]
    if first is not None:
        facts = [f"first token p50 {duration(first['p50'])} p99 {duration(first['p99'])}"]
        models = document["first_tokens_of_model"]
        if models:
            facts[0] += f" ({count(models, 'request')} measured at the model)"
        if each is not None:
            facts.append(f"per token p50 {duration(each['p50'])} p99 {duration(each['p99'])}")
        if document["output_tokens_per_second"] is not None:
            facts.append(f"{figure(document['output_tokens_per_second'])} tokens/s a request")
        lines.append(" · ".join(facts))
    went_on = after_answers(document.get("after"), document["requests"])  # older: no such key
    if went_on is not None:
        lines.append(went_on)
    return [Text(line) for line in lines]


def _stages(document: BreakdownDocument, width: int) -> RenderableType:
    rows = document["stages"]
    longest = max((row["share_ratio"] for row in rows), default=0.0) or 1.0
    drawn = FittedTable(
        *("stage", "", "mean", "share", "p50", "p95", "p99", "requests"),
        left=("stage", ""),
        bar="",
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
        name="stage",
        leave_out=("", "p50", "requests", "p95", "p99"),
    )
    printed_shares = shares([row["mean_ns"] for row in rows])
    for row, printed in zip(rows, printed_shares, strict=True):
        drawn.add_row(
            row["stage"],
            stage_bar(row["share_ratio"] / longest, row["stage"]),
            duration(row["mean_ns"]),
            printed,
            *(duration(value) for value in (row["p50_ns"], row["p95_ns"], row["p99_ns"])),
            f"{row['requests']:,}",
        )
        _add_parts(drawn, row, longest, printed)
    return drawn.drawn(width)


def _add_parts(drawn: FittedTable, row: StageDocument, longest: float, printed: str) -> None:
    """Rows of its parts by name, and of what they leave."""
    rest_ns = others_ns(row)
    parts = [
        (part["name"], part["mean_ns"], f"{part['requests']:,}") for part in row.get("parts", [])
    ]
    parts += [(OTHERS, rest_ns, "")] * (rest_ns > 0)
    printed_shares = shares([mean_ns for _, mean_ns, _ in parts], printed)
    for (name, mean_ns, requests), part_printed in zip(parts, printed_shares, strict=True):
        drawn.add_row(
            f"· {name}",
            stage_bar(
                row["share_ratio"] * mean_ns / (row["mean_ns"] or 1) / longest, row["stage"]
            ),
            duration(mean_ns),
            part_printed,
            *("", "", ""),
            requests,
            style="dim",
        )


def _sum(document: BreakdownDocument) -> str:
    total = document["duration_ns"]
    rows_ns = sum(row["mean_ns"] for row in document["stages"])
    rounding_ns = ROUNDING_NS * len(document["stages"]) + ROUNDING * rows_ns
    if total is None or abs(total["mean"] - rows_ns) <= rounding_ns:
        return f"The rows add up to the mean duration, {duration(rows_ns)}: nothing is hidden."
    return (
        f"The rows add up to {duration(rows_ns)}, not to the mean duration of "
        f"{duration(total['mean'])}: please report it."
    )


def _left_out(document: BreakdownDocument) -> Sequence[str]:
    left_out = document["left_out"]
    named = [
        f"{count(number, what)} {which}"
        for number, what, which in (
            (left_out["health"], "request", "for health or metrics"),
            (left_out["startup"], "load", "of processes before they served (--route load)"),
            (left_out["reduced_detail"], "request", "with their own span alone (--detail)"),
            (left_out["unsure"], "request", "of which not all attributes are kept"),
        )
        if number
    ]
    return [f"Left out: {', '.join(named)}."] if named else []


def _reduced(document: BreakdownDocument) -> Sequence[str]:
    """Say what some requests lack; an older service knows nothing of it."""
    reduced = document.get("reduced_requests", 0)
    if not reduced:
        return []
    number = count(reduced, "request")
    more = "LATENCYTRACE_OVERHEAD=0.05 allows more."
    return [f"In less detail, to keep the agent's budget: {number}. {more}"]


def _never_two(document: BreakdownDocument, wanted: Filters) -> Sequence[str]:
    queued = any(row["stage"] == Stage.QUEUE for row in document["stages"])
    if document["max_concurrency"] != 1 or queued or wanted.get("route") == LOADS:
        return []
    return [NEVER_TWO]


def _from_histograms(document: BreakdownDocument) -> Sequence[str]:
    error_ratio = document["quantile_error_ratio"]
    if not error_ratio:
        return []
    return [
        f"Quantiles are from histograms: off by at most {share(error_ratio)}; means are exact."
    ]
