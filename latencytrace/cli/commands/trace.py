"""`latencytrace trace`: one request as a waterfall, and its ledger."""

import string
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.doctor_checks.no_request import FIRST, why_none
from latencytrace.cli.pictures import gpu_stages
from latencytrace.cli.pictures.fitted_table import FAILED, FittedTable, in_order, stage_bar
from latencytrace.cli.pictures.gpu_stages import shared_steps
from latencytrace.cli.pictures.lines import say
from latencytrace.cli.pictures.terminal import say_document, screen
from latencytrace.cli.pictures.waterfall import between_tokens, first_token, waterfall
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.errors import LatencytraceError
from latencytrace.model.stage import IN_PARTS
from latencytrace.model.texts.escaped import escaped, written_trace_id
from latencytrace.model.texts.units import count, duration, exact, moment, shares
from latencytrace.service.answers.documents import RequestDocument
from latencytrace.service.answers.gpu_documents import GpuStageDocument
from latencytrace.service.answers.sentences.after_answer import after_answer
from latencytrace.service.answers.sentences.gaps import gaps
from latencytrace.service.answers.sentences.stage_parts import stage_parts

SLOWEST = "slowest"
FIRST_OF = {SLOWEST: "slowest", "latest": "newest"}  # which request a word means
ID_DIGITS = 32
HEX_DIGITS = frozenset(string.hexdigits)
MOST_COUNTED, MOST_NAMED = 100, 3
BAR_SHORTEST, BAR_LONGEST = 8, 32
SHORT_ID = 12
MOST_GAPS = 3
_PHASES = {"untraced": "calls of servers that send no spans"}  # others are named as they are


@with_filters
def trace(
    trace_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A trace id, the beginning of one, `slowest` or `latest`."
        ),
    ],
    *,
    wanted: Filters,
    as_json: options.AsJson = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open its page in a browser instead.")
    ] = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Show one request as a waterfall, with the path that held it up, and its ledger.

    First token: from the request's start until it left for the caller, or, where the answer is
    not streamed, until the first prefill's end. Per token: the decoding after the first token
    / (output tokens - 1). Between tokens: each gap from one to the next, as the caller got
    them. Stall: a gap above 5 medians and 50 ms, with what it was spent on.

    Example: latencytrace trace slowest --route "POST /chat"
    """
    with reading.source(url, data) as source:
        document = reading.request(source, full_id(source, trace_id, wanted))
        if open_page:
            _open(source, document)
            return
        if as_json:
            say_document(document)
            return
        console = screen()
        parts = picture(document, console, _stages_on_gpus(source, document))
    page(console, *parts)


def _open(source: reading.Source, request: RequestDocument) -> None:
    """Open the page of a request, and say where it is.

    Raises:
        LatencytraceError: No service runs that could show it.
    """
    if not isinstance(source, reading.ServiceSource):
        raise LatencytraceError(
            "no service runs that could show a page: start `latencytrace serve`, then ask again"
        )
    address = f"{source.url}/requests/{request['trace_id']}"
    say(address)
    webbrowser.open(address)


def _stages_on_gpus(
    source: reading.Source, request: RequestDocument
) -> Sequence[GpuStageDocument]:
    """Lines on stages on GPUs, where the request was on one."""
    if any(span["device"] is not None for span in request["spans"]):
        return reading.stages_on_gpus(source)
    return ()


def full_id(source: reading.Source, trace_id: str, wanted: Filters) -> str:
    """The trace that is meant.

    Raises:
        LatencytraceError: There is none, or more than one.
    """
    wanted_id = written_trace_id(trace_id)
    if wanted_id in FIRST_OF:
        first = reading.requests(source, wanted, FIRST_OF[wanted_id], 1)
        if not first:
            raise LatencytraceError(f"nothing to show. {why_none(source, wanted)}")
        return first[0]["trace_id"]
    if not wanted_id or set(wanted_id) - HEX_DIGITS:
        raise LatencytraceError(
            f"{trace_id!r} is no trace id, nor the beginning of one: it has hex digits only; "
            "`latencytrace requests` lists some, `slowest` and `latest` mean one of them"
        )
    if len(wanted_id) >= ID_DIGITS:
        return wanted_id
    found = reading.trace_ids(source, {"since": FIRST, **wanted}, wanted_id, MOST_COUNTED)
    if len(found) == 1:
        return found[0]
    if found:
        least = "at least " if len(found) == MOST_COUNTED else ""
        raise LatencytraceError(
            f"{trace_id!r} begins {least}{len(found)} traces: {', '.join(found[:MOST_NAMED])}"
            f"{' and more' if len(found) > MOST_NAMED else ''}; write more of it"
        )
    passing = " of a request that passes the filters" if wanted else ""
    raise LatencytraceError(
        f"no trace{passing} begins with {trace_id!r}; `latencytrace requests` lists some"
    )


def picture(
    request: RequestDocument, console: Console, on_gpus: Sequence[GpuStageDocument] = ()
) -> list[RenderableType]:
    """The request, its spans over time, its ledger, its GPUs, and what was mended."""
    parts: list[RenderableType] = [*_heading(request), ""]
    if not request["spans"]:
        parts += ["Its spans were not kept: this is its critical path alone.", ""]
    parts += [*waterfall(request, console), "", *ledger(request, console.width)]
    parts += gpu_stages.devices_table(request, on_gpus)
    parts += [*shared_steps(request), *between_tokens(request)]
    return [*parts, *_repairs(request), *_profiles(request), ""]


def _profiles(request: RequestDocument) -> list[RenderableType]:
    """Lines on how to see what torch did in it; an older service knows of no profiles."""
    return [
        f"A profile saw it: latencytrace profile {profile_id}"
        for profile_id in request.get("profiles", ())
    ]


def ledger(request: RequestDocument, width: int) -> list[RenderableType]:
    """Time per stage; the last line says whether it adds up, to the nanosecond."""
    stages = in_order(request["ledger"])
    lengths = [length for _, length in stages]
    longest = max(lengths, default=0) or 1
    busy, exclusive = request["busy"], request["exclusive"]
    more = ("busy", "exclusive") if busy else ()
    drawn = FittedTable(
        *("ledger", "", "time", "share", "exactly", *more),
        left=("ledger", ""),
        bar="",
        bar_cells=(BAR_SHORTEST, BAR_LONGEST),
        name="ledger",
        leave_out=(*reversed(more), "", "exactly"),
    )
    for (stage, length), printed in zip(stages, shares(lengths), strict=True):
        drawn.add_row(
            stage,
            stage_bar(length / longest, stage),
            duration(length),
            printed,
            exact(length),
            *(
                duration(times[stage]) if stage in times else ""
                for times in (busy, exclusive)[: len(more)]
            ),
        )
    whole = sum(lengths)
    drawn.add_row("sum", "", duration(whole), "", exact(whole), *("" for _ in more), style="bold")
    if whole == request["duration_ns"]:
        verdict = Text("The sum is the request's duration, exactly.", "dim")
    else:
        verdict = Text(
            f"The request took {exact(request['duration_ns'])}: this ledger does not balance. "
            "Please report it.",
            "bold red",
        )
    lines = (*_network(request["network"]), *_in_parts(request), *_unexplained(request))
    went_on = after_answer(request.get("after", {}))  # an older service says nothing of it
    return [drawn.drawn(width), *lines, verdict, *([Text(went_on)] if went_on else [])]


def _in_parts(request: RequestDocument) -> Iterator[Text]:
    """A line for each stage with named parts."""
    for stage in IN_PARTS:
        parts = stage_parts(request["segments"], stage)
        if parts:
            named = ", ".join(f"{escaped(name)} {duration(length)}" for name, length in parts)
            yield Text(f"of the {stage}: {named}", "dim")


def _unexplained(request: RequestDocument) -> list[Text]:
    """A line on where the time lies that no span explains."""
    found = gaps(request["segments"], request["span_id"], MOST_GAPS)
    listed = "; ".join(escaped(gap.text) for gap in found)
    return [Text(f"no span explains: {listed}", "dim")] if found else []


def _network(phases: Mapping[str, int]) -> list[Text]:
    """A line on what the network's time went to; none where that is not known."""
    if not phases.keys() - {"other"}:
        return []
    parts = ", ".join(
        f"{_PHASES.get(phase, phase)} {duration(length)}" for phase, length in phases.items()
    )
    return [Text(f"of the network: {parts}", "dim")]


def _heading(request: RequestDocument) -> list[RenderableType]:
    each_ns = request["time_per_output_token_ns"]
    facts = [
        moment(request["start"]),
        f"took {duration(request['duration_ns'])}",
        *first_token(request),
        *([f"per token {duration(each_ns)}"] if each_ns is not None else []),
        *(
            count(number, noun)
            for number, noun in (
                (request["input_tokens"], "input token"),
                (request["output_tokens"], "output token"),
            )
            if number is not None
        ),
        *([f"model {request['model']}"] if request["model"] else []),
    ]
    title = Text(f"{request['route']} · {request['service']} · {request['status']}", "bold")
    title.append(_failure(request), f"bold {FAILED}")
    return [title, Text(" · ".join(facts)), Text(request["trace_id"], "dim")]


def _failure(request: RequestDocument) -> str:
    """The exception that failed it, and where it was raised; an older service says neither."""
    error_type = request.get("error_type")
    if error_type is None:
        return ""
    names = {span["span_id"]: span["name"] for span in request["spans"]}
    raised_in = request.get("error_span_id") or ""
    where = f" in {names[raised_in]}" if raised_in in names else ""
    return f": {error_type}{where if raised_in != request['span_id'] else ''}"


def _repairs(request: RequestDocument) -> list[RenderableType]:
    repairs = request["repairs"]
    if not repairs:
        return []
    lines = [f"{count(len(repairs), 'repair')} of what arrived:"]
    lines += [
        f"  {repair['kind']}, span {repair['span_id']}: {repair['detail']}" for repair in repairs
    ]
    return ["", *(Text(line, "yellow") for line in lines)]
