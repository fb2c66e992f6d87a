"""Compares the example application with itself: a slower search, and then longer prompts.

    python -m tests.benchmarks.bench_demo [--rounds 40] [--looks 20] [--data DIR]

The real application runs twice, traced, beside a real service: as it is, and with a filter without
an index in its vector search. Requests take turns, so that whatever else the machine does slows
all alike: a question, the same to the slower one, and one that asks for a longer prompt. After so
many rounds it is looked whether the search is told to be slower; at last the answers of
`compare`, `tail` and `whatif` are printed, and what `whatif` forecasts for a search as fast as
before beside what the application took that has it. Exit code 0: they are
right. With `--data` requests are kept there, and the next run within the hour adds to them. See
`docs/pages/compare.md`.

It is no test of every change: a machine that is busy with other things makes neighbouring
requests alike, and then it takes many until anything is proven.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast
from urllib.parse import quote

import httpx

from latencytrace.cli.processes.background_program import BackgroundProgram
from latencytrace.cli.processes.demo_programs import example_folder
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

QUESTIONS: Final = (
    "How do I read a zip file?",
    "How is a thread joined?",
    "What parses command line arguments?",
    "How are regular expressions compiled and cached?",
)
PASSAGES: Final = (1, 3, 8, 20)
SHORT, LONG = (8, 4, 2, 1), (1, 2, 4, 8)  # how often each number of passages is asked for
NAMES: Final = 30  # that the slower search leaves out, none of which is a source
BEFORE, SLOWER = "version=1", "version=slower-search"
USUAL, LONGER = f"{BEFORE}&where=url.scheme%3Dhttp", f"{BEFORE}&where=url.scheme%3Dhttps"
BACK_TESTED: Final = 220  # with so many, `whatif` says how far off it may be
START_S: Final = 400  # the first start embeds passages


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, look, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bench_demo")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--looks", type=int, default=20)
    parser.add_argument("--data", type=Path)
    told = parser.parse_args(arguments)
    with (
        TemporaryDirectory() as folder,
        RunningService(told.data or Path(folder) / "data") as service,
    ):
        with applications(Path(folder), service.otlp) as (before, slower):
            send(service, before, slower, told)
        return report(service)


@contextmanager
def applications(folder: Path, endpoint: str) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """The application as it is, and with a slower search."""
    excluded = ",".join(f"no_such_module_{number}" for number in range(NAMES))
    with ExitStack() as opened:
        programs = [
            program(folder, endpoint, version, more)
            for version, more in (("1", {}), ("slower-search", {"RAG_CHAT_EXCLUDE": excluded}))
        ]
        for one, _ in programs:  # at once
            opened.enter_context(one).start()
        clients = []
        for one, url in programs:
            one.wait_until_answers(f"{url}/healthz", timeout_s=START_S)
            client = httpx.Client(base_url=url, timeout=60, trust_env=False)
            clients.append(opened.enter_context(client))
        yield clients[0], clients[1]


def program(
    folder: Path, endpoint: str, version: str, more: Mapping[str, str]
) -> tuple[BackgroundProgram, str]:
    """One of them, and where it will answer."""
    port = free_port()
    command = [
        *(*COMMAND, "run", "--service", "rag_chat", "--endpoint", endpoint, "--"),
        *(sys.executable, "-m", "uvicorn", "--app-dir", str(example_folder())),
        *("app:app", "--port", str(port)),
    ]
    told = {
        "RAG_CHAT_PASSAGES": "200",
        "OTEL_RESOURCE_ATTRIBUTES": f"service.version={version}",
        **more,
    }
    started = BackgroundProgram("rag_chat", command, folder / f"{version}.log", told)
    return started, f"http://127.0.0.1:{port}"


def send(
    service: RunningService,
    before: httpx.Client,
    slower: httpx.Client,
    told: argparse.Namespace,
) -> None:
    """Send requests in turn until there are enough for a verdict about the search."""
    before_us = cast("int", service.ask("/breakdown")["requests"])
    chance = random.Random(20 + before_us)
    for client in (before, slower):  # the first one loads what is loaded late
        ask(client, QUESTIONS[0], 1)
    for look in range(1, told.looks + 1):
        for _ in range(told.rounds):
            question = chance.choice(QUESTIONS)
            (few,), (many,) = (chance.choices(PASSAGES, often) for often in (SHORT, LONG))
            ask(before, question, few)
            ask(slower, question, few)
            # uvicorn believes a proxy on this machine: `url.scheme` tells these from the others.
            ask(before, question, many, {"x-forwarded-proto": "https"})
        are_counted(service, before_us + 2 + 3 * told.rounds * look)
        found = service.ask(f"/compare?a={quote(USUAL)}&b={quote(SLOWER)}")
        of_each = cast("Any", found["b"])["requests"]
        print(f"{of_each} of each: {found['verdict']}", flush=True)
        if found["verdict"] != "not_enough_data" and of_each >= BACK_TESTED:
            return


def ask(
    client: httpx.Client, question: str, passages: int, headers: Mapping[str, str] | None = None
) -> None:
    """Ask the application something."""
    asked = {"question": question, "passages": passages, "max_new_tokens": 2}
    client.post("/ask", json=asked, headers=headers).raise_for_status()


def are_counted(service: RunningService, requests: int) -> None:
    """Wait until there are so many ledgers."""
    until(lambda: service.ask("/breakdown")["requests"] == requests, service.said)


def report(service: RunningService) -> int:
    """Print what the commands answer, and whether that is right."""
    env = environment(LATENCYTRACE_URL=service.url, COLUMNS="100")
    for arguments in (
        ("compare", USUAL, SLOWER),
        ("compare", USUAL, LONGER),
        ("tail", "--version", "1", "--quantile", "0.95"),
        ("whatif", "--version", "slower-search", "--stage", "retrieve", "--faster", "90%"),
    ):
        print(f"\n$ latencytrace {' '.join(map(quote_shell, arguments))}")
        print(latencytrace(*arguments, env=env).stdout, flush=True)
    search, prompts = (
        json.loads(latencytrace("compare", USUAL, other, "--json", env=env).stdout)
        for other in (SLOWER, LONGER)
    )
    slower = {row["stage"] for row in search["stages"] if row["verdict"] == "regression"}
    is_right = (
        is_forecast(service)
        and search["verdict"] == "regression"
        and "retrieve" in slower
        and prompts["verdict"] in {"no_change", "not_enough_data"}
    )
    print("right" if is_right else f"wrong: {search['verdict']}, {slower}, {prompts['verdict']}")
    return 0 if is_right else 1


def is_forecast(service: RunningService) -> bool:
    """Print the forecast for a search as fast as before, beside the requests that have it.

    Returns:
        Whether the median is as far off as the back-test says, or as chance: so few requests
        vary by a seventh.
    """
    usual, slower = (service.ask(f"/breakdown?{cohort}") for cohort in (USUAL, SLOWER))
    before_ns, now_ns = (mean_ns(found, "retrieve") for found in (usual, slower))
    faster = 1 - before_ns / now_ns
    found = service.ask(f"/whatif?{SLOWER}&stage=retrieve&faster={faster:.4f}")
    truth, forecast = (cast("Any", one["duration_ns"]) for one in (usual, found))
    stated = cast("float | None", found["error_ratio"])
    print(f"\nsearch {faster:.1%} faster, as it was before; back-test: {stated}")
    errors: dict[str, float] = {}
    for level in ("p50", "p95"):
        now, then, run = forecast[level]["now"], forecast[level]["then"], truth[level]
        errors[level] = then / run - 1
        print(
            f"{level}: {now / 1e6:.0f} ms, forecast {then / 1e6:.0f} ms, as it was run "
            f"{run / 1e6:.0f} ms: {errors[level]:+.1%}",
            flush=True,
        )
    return abs(errors["p50"]) <= max(stated or 0.0, 0.1)


def mean_ns(found: Mapping[str, Any], stage: str) -> float:
    """The mean time of a stage in a breakdown."""
    return next(float(one["mean_ns"]) for one in found["stages"] if one["stage"] == stage)


def quote_shell(text: str) -> str:
    """An argument as it is written in a shell."""
    return f'"{text}"' if "&" in text else text


if __name__ == "__main__":
    raise SystemExit(main())
