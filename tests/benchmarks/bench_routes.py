"""What tracing adds to requests of an ordinary application, and what the agent says that it adds.

    python -m tests.benchmarks.bench_routes [--rounds 12] [--routes /rag]
        [--beside /another/checkout] [--off httpx event_loop]

`routes_server.py` has what many applications have: FastAPI with two middlewares, two dependencies,
pydantic in and out; a route that asks a service four things at once with httpx, the same with
other clients, and routes on threads. Servers run and take turns as in `bench_request.py`:
untraced, untraced once more, with latencytrace, with contrib and all its instrumentations of
these clients, and with contrib without spans for messages. CPU time is that of all threads, by
the kernel; beside it stands what the agent said in the same turns. A route `idle` is no request at
all, for ten seconds. `--off` runs latencytrace once more without some of its hooks.

With `--budget` a server that keeps a budget is asked without a pause, and told is what it leaves
out and takes: by itself, and by the kernel beside an untraced server before and after.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import entry_points
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.bench_overhead import agent
from tests.benchmarks.bench_request import (
    AGAIN,
    BESIDE,
    CONTRIB,
    HERE,
    NO_SEND,
    OURS,
    SETTLE_S,
    UNTRACED,
    Server,
    on_cores,
    ratio_of_medians,
    serving,
)
from tests.benchmarks.discarding import receive
from tests.benchmarks.fixed_model import model_served
from tests.benchmarks.rounds import differences, interval, interval_of

PROGRAM = HERE / "routes_server.py"
OFF = "latencytrace without some hooks"
# Instrumentations of clients, and the newest SQLAlchemy that they take, for all servers.
PEER = HERE.parents[1] / ".peers" / "contrib"
BODY = b'{"text": "What does a span cost?", "tenant": 7, "limit": 5}'
IDLE, IDLE_S = "idle", 10.0
REQUESTS = {  # of a round
    "/hello": 1000,
    "/stream": 150,
    "/def": 500,
    "/rag": 300,
    "/aiohttp": 300,
    "/requests": 300,
    "/urllib3": 300,
    "/sql": 400,
    "/executor": 400,
    "/stages": 400,
    IDLE: 0,
}
GETS = frozenset({"/hello", "/stream"})
TURNS = 5
BATCH = 10  # requests between two looks at the clock
WINDOWS, WINDOW_S = 12, 5.5  # a little more than the governor's
BUDGETS = {"by default": "", "`LATENCYTRACE_OVERHEAD=0.01`": "0.01"}


class Spent(NamedTuple):
    """CPU time in µs, of a request or, without one, of a second."""

    all: float  # of all threads, by the kernel
    said: float  # by the agent
    reported: float  # of that, by its reports, and to find prices: once in a while, not a request


Found = dict[str, dict[str, list[Spent]]]  # by route and server, one for each round


def ask(server: Server, path: str, count: int) -> None:
    """Ask for a route so many times."""
    for _ in range(count):
        server.get(path, b"" if path in GETS else BODY)


def spent(servers: dict[str, Server], path: str) -> dict[str, Spent]:
    """Return what a request costs by server, what is done about it later included."""
    count = REQUESTS[path] // TURNS
    for _ in range(2):
        for name in random.sample(list(servers), len(servers)):
            ask(servers[name], path, count)  # warms up
            servers[name].get("/collect")
    time.sleep(SETTLE_S)
    began = {name: spent_so_far(name, server) for name, server in servers.items()}
    for _ in range(TURNS if count else 0):
        for name in random.sample(list(servers), len(servers)):
            ask(servers[name], path, count)
    time.sleep(SETTLE_S if count else IDLE_S)
    by = count * TURNS or IDLE_S
    return {
        name: Spent(
            *(
                (now - was) / by
                for now, was in zip(spent_so_far(name, server), began[name], strict=True)
            )
        )
        for name, server in servers.items()
    }


def spent_so_far(name: str, server: Server) -> Spent:
    """Return the CPU time in µs that a server took so far; 0 by an agent that is none of ours."""
    says = agent(server) if name in {OURS, BESIDE, OFF} else {"cpu_ns": 0, "reporting_ns": 0}
    return Spent(server.cpu_us().all, says["cpu_ns"] / 1000, says["reporting_ns"] / 1000)


def measured(
    names: Sequence[str], rounds: int, routes: Sequence[str], beside: Path | None, off: str
) -> Found:
    """Start all servers anew in each round, and return what requests cost."""
    found: Found = {path: {name: [] for name in names} for path in routes}
    spawn = get_context("spawn")
    *others, last = sorted(os.sched_getaffinity(0))
    with (
        on_cores({*others} or {last}),
        receive(spawn) as receiver,
        model_served(spawn) as service,
    ):
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            with ExitStack() as stack:
                with on_cores({last}):
                    servers = {
                        name: stack.enter_context(
                            serving(
                                name, receiver, service, beside, program=PROGRAM,
                                also=PEER if PEER.exists() else None,  # one SQLAlchemy
                                environ={"LATENCYTRACE_HOOKS": off if name == OFF else ""},
                            )
                        )
                        for name in names
                    }  # fmt: skip
                for path in routes:
                    for name, one in spent(servers, path).items():
                        found[path][name].append(one)
    return found


def asked_for(server: Server, path: str, seconds: float) -> tuple[float, float]:
    """Ask without a pause for so long; return µs of CPU a request, and of a second."""
    began, until, count = server.cpu_us().all, time.monotonic() + seconds, 0
    while time.monotonic() < until:
        ask(server, path, BATCH)
        count += BATCH
    us = server.cpu_us().all - began
    return us / count, us / seconds


def budgets(path: str, seconds: float) -> Iterator[str]:
    """Return the lines of the table of budgets, and on the way what each window was like."""
    yield "| budget | CPU a request | more than untraced | by the agent itself | held | step |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    spawn = get_context("spawn")
    with receive(spawn) as receiver, model_served(spawn) as service, ExitStack() as stack:
        untraced = stack.enter_context(serving(UNTRACED, receiver, service, None, program=PROGRAM))
        ask(untraced, path, BATCH)
        before, _ = asked_for(untraced, path, seconds)
        for name, budget in BUDGETS.items():
            traced = serving(
                OURS,
                receiver,
                service,
                None,
                program=PROGRAM,
                environ={"LATENCYTRACE_OVERHEAD": budget},
            )
            with traced as server:
                for number in range(WINDOWS):
                    us, _ = asked_for(server, path, WINDOW_S)
                    print(f"    {name}, window {number}: {us:.0f} µs, {agent(server)}", flush=True)
                us, a_second = asked_for(server, path, seconds)
                found = agent(server)
            after, _ = asked_for(untraced, path, seconds)
            plain, before = (before + after) / 2, after
            yield (
                f"| {name} | {us:.0f} µs | {us - plain:.0f} µs, {100 * (us - plain) / us:.1f} % | "
                f"{100 * found['share_ratio'] * max(1e6 / a_second, 1):.1f} % | "
                f"{bool(found['is_held'])} | {found['step']} |"
            )
        yield f"\nUntraced, a request took {before:.0f} µs."


def added(found: Found, path: str, name: str) -> list[float]:
    """Return by how much each round exceeds that of the untraced server."""
    of, to = found[path][name], found[path][UNTRACED]
    return differences([one.all for one in of], [one.all for one in to])


def cell(values: list[float]) -> str:
    """Return a median with its 95 % interval."""
    low, high = interval(values)
    return f"{statistics.median(values):.0f} [{low:.0f}, {high:.0f}]"


def table(found: Found) -> Iterator[str]:
    """Return the lines of the table: µs added to the untraced server; and what the agent says."""
    yield f"| | {' | '.join(found)} |"
    yield "| --- |" + " ---: |" * len(found)
    first = next(iter(found.values()))
    untraced = [
        f"{statistics.median(one.all for one in by_name[UNTRACED]):.0f} in all"
        for by_name in found.values()
    ]
    yield f"| {UNTRACED} | {' | '.join(untraced)} |"
    for name in first:
        if name == UNTRACED:
            continue
        yield f"| {name} | {' | '.join(cell(added(found, path, name)) for path in found)} |"
        if not any(one.said for one in first[name]):
            continue
        says = [[one.said for one in by_name[name]] for by_name in found.values()]
        yield f"| as its agent says | {' | '.join(map(cell, says))} |"
        reported = [[one.reported for one in by_name[name]] for by_name in found.values()]
        yield f"| of that, reports and prices | {' | '.join(map(cell, reported))} |"
        parts = []
        for path, by_name in found.items():
            pairs = [
                (one.said, more)
                for one, more in zip(by_name[name], added(found, path, name), strict=True)
            ]
            low, high = interval_of(pairs, ratio_of_medians)
            parts.append(f"{ratio_of_medians(pairs):.2f} [{low:.2f}, {high:.2f}]")
        yield f"| of the kernel's | {' | '.join(parts)} |"
    for other in (CONTRIB, NO_SEND):
        if OURS in first and other in first:
            parts = []
            for path in found:
                pairs = list(zip(added(found, path, OURS), added(found, path, other), strict=True))
                low, high = interval_of(pairs, ratio_of_medians)
                parts.append(f"{ratio_of_medians(pairs):.2f} [{low:.2f}, {high:.2f}]")
            yield f"| latencytrace, of {other}'s | {' | '.join(parts)} |"


def main() -> None:
    """Measure, and print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--routes", nargs="*", choices=REQUESTS, default=tuple(REQUESTS))
    arguments.add_argument("--beside", type=Path)
    arguments.add_argument("--only", nargs="*", help="of the traced servers")
    arguments.add_argument("--off", nargs="*", help="hooks", default=[])
    arguments.add_argument("--budget", action="store_true")
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    if given.budget:
        for path in given.routes:
            print("\n".join(budgets(path, given.seconds)))
        return
    traced = [OURS, *([OFF] if given.off else []), *([BESIDE] if given.beside else [])]
    traced += [CONTRIB, NO_SEND] if (PEER / ".installed").exists() else []
    names = [UNTRACED, AGAIN, *(name for name in traced if not given.only or name in given.only)]
    off = ",".join(sorted(set(hooks()) - set(given.off)))
    found = measured(names, given.rounds, given.routes, given.beside, off)
    if given.json:
        print(json.dumps(found))
        return
    print("\n".join(table(found)))


def hooks() -> Iterator[str]:
    """Return the names of all hooks."""
    return (each.name for each in entry_points(group="latencytrace.hook"))


if __name__ == "__main__":
    main()
