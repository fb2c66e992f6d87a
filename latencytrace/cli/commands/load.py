"""`latencytrace load`: an open loop of requests, measured as their callers would."""

import importlib.util
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from latencytrace.cli.load_test import pictures as load_pictures
from latencytrace.cli.load_test.outcome import limits
from latencytrace.cli.load_test.output import document, require_writable, write_requests
from latencytrace.cli.load_test.plan import Arrivals, Pace, Step, plan, rates_of
from latencytrace.cli.load_test.record import LoadRecord, StepRecord
from latencytrace.cli.load_test.summary import RateSummary, knee, slowest, summaries
from latencytrace.cli.load_test.target import Target, target
from latencytrace.cli.pictures.terminal import say_document, screen, show, side_screen
from latencytrace.cli.processes import options
from latencytrace.errors import LatencytraceError
from latencytrace.settings import agent_settings

INTERRUPTED = 130
REFRESHES_PER_S = 4  # each costs a millisecond, which a request may be late


def load(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where every request goes.")],
    *,
    rate: Annotated[float | None, typer.Option(help="Requests a second.")] = None,
    rates: Annotated[str | None, typer.Option(help="Several rates in turn: 1,2,4,8.")] = None,
    sweep: Annotated[
        str | None, typer.Option(help="Rates from LOW to HIGH in STEPS: 1:16:5.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="How long each rate is measured.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, help="How many requests of each rate are measured.")
    ] = None,
    warm_up: Annotated[
        float, typer.Option(min=0, help="Seconds before each rate that are not measured.")
    ] = 2.0,
    method: Annotated[
        str | None, typer.Option("--method", "-X", help="Default: POST with a body, else GET.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="'Name: value'; may be repeated.")
    ] = None,
    json_body: Annotated[str | None, typer.Option(help="A JSON body.")] = None,
    body: Annotated[str | None, typer.Option(help="Any body, or @FILE.")] = None,
    bodies: Annotated[
        Path | None, typer.Option(help="A file of JSON bodies, one a line, sent in turn.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds after which a request is given up.")
    ] = 60.0,
    max_in_flight: Annotated[
        int, typer.Option(min=1, help="More requests than these wait, and are counted.")
    ] = 512,
    constant: Annotated[
        bool, typer.Option("--constant", help="Evenly spaced instead of Poisson arrivals.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the arrivals: the same load again.")] = 0,
    within: options.Within = None,
    first_token_within: options.FirstTokenWithin = None,
    per_token_within: options.PerTokenWithin = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Base address of the OTLP/HTTP receiver.")
    ] = None,
    no_trace: Annotated[
        bool, typer.Option("--no-trace", help="Send no trace context and no spans.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    requests_out: Annotated[
        Path | None, typer.Option(readable=False, help="Write a JSON line a request to this file.")
    ] = None,
) -> None:
    """Send requests at a rate, however slow the answers are, and measure what callers wait.

    Latency counts from when a request was due, so a stall of the server shows in full.
    Streams are recognised, and the times of their tokens measured. Several rates show
    where the server's knee is; with limits, how many requests a second meet them.

    Example: latencytrace load http://127.0.0.1:8000/chat --sweep 1:8:4 --seconds 20
    --json-body '{"question": "How do I read a zip file?"}'
    """
    aim = target(
        url,
        method=method,
        headers=header or [],
        json_body=json_body,
        body=body,
        bodies=bodies,
        timeout_s=timeout,
        max_in_flight=max_in_flight,
    )
    arrivals = Arrivals.CONSTANT if constant else Arrivals.POISSON
    pace = Pace(seconds=seconds, requests=requests, warm_up_s=warm_up, arrivals=arrivals)
    chance = random.Random(seed)  # noqa: S311 - the same load every time
    steps = plan(rates_of(rate, rates, sweep), pace, chance)
    if requests_out is not None:
        require_writable(requests_out)
    record = LoadRecord(limits=limits(within, first_token_within, per_token_within))
    interrupted = _run(aim, steps, record, endpoint=endpoint, traced=not no_trace)
    found = summaries(record)
    if requests_out is not None:
        write_requests(requests_out, record)
    if as_json:
        say_document(document(aim, arrivals, seed, found, record))
    else:
        _show(aim, arrivals, found, record)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if not any(each.succeeded for each in found):
        raise typer.Exit(1)


def _run(
    aim: Target, steps: Sequence[Step], record: LoadRecord, *, endpoint: str | None, traced: bool
) -> bool:
    """Generate the load; whether it was interrupted."""
    if importlib.util.find_spec("aiohttp") is None:
        raise LatencytraceError("load needs aiohttp: pip install 'latencytrace[load]'")
    from latencytrace.cli.load_test.generator import generate
    from latencytrace.cli.load_test.spans import Receiver

    settings = agent_settings(endpoint=endpoint, over_http=True)
    receiver = Receiver(
        url=settings.traces_url, headers=settings.headers, timeout_s=settings.timeout_s
    )
    with _progress(steps, record) as on_progress:
        try:
            generate(
                aim,
                steps,
                receiver if traced and not settings.disabled else None,
                record,
                on_progress,
            )
        except KeyboardInterrupt:
            return True
    return False


@contextmanager
def _progress(steps: Sequence[Step], record: LoadRecord) -> Iterator[Callable[[StepRecord], None]]:
    """A bar over all steps, on a terminal."""
    console = side_screen()
    bar = Progress(
        BarColumn(bar_width=40),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        refresh_per_second=REFRESHES_PER_S,
        disable=not console.is_terminal,
    )
    whole_ns = sum(step.length_ns for step in steps)
    with bar:
        sending = bar.add_task("", total=whole_ns)

        def on_progress(step: StepRecord) -> None:
            before_ns = sum(each.step.length_ns for each in record.steps[:-1])
            bar.update(
                sending,
                completed=before_ns + min(step.elapsed_ns, step.step.length_ns),
                description=f"{step.step.rate_per_s:g}/s · {len(step.outcomes):,} ended · "
                f"{step.failed:,} failed · {step.in_flight:,} in flight",
            )

        yield on_progress


def _show(
    aim: Target, arrivals: Arrivals, found: tuple[RateSummary, ...], record: LoadRecord
) -> None:
    console = screen()
    title = f"{aim.method} {aim.public_url} · {arrivals} arrivals"
    parts: list[RenderableType] = [Text(title, "bold"), ""]
    parts += load_pictures.tables(found, console.width)
    bend = knee(found)
    if bend is not None:
        parts += load_pictures.against_load(found, bend, console)
    parts += load_pictures.notes(found, record.spans)
    longest = slowest(record)
    if longest is not None and longest.trace_id is not None:
        parts += load_pictures.next_steps(record.spans, longest.trace_id)
    show(console, *parts)
