"""The budget of tracing's own cost: what the agent says that it costs, and that it keeps to it.

    python -m tests.benchmarks.bench_overhead [--rounds 10] [--seconds 20]

First the estimate is held against truth: servers as in `bench_request.py`, without a budget, get
the same requests in turns; truth is the CPU time of all threads less that of the untraced
server, from the kernel. Then a server with a budget gets 2 000 plain requests a second, in
pipelines over eight connections, until its detail has settled; what it costs is the CPU time of
a request less that of an untraced server under the same load before and after.
"""

import argparse
import http.client
import json
import random
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from multiprocessing import get_context
from typing import NamedTuple

from tests.benchmarks.bench_request import OURS, UNTRACED, Server, serving
from tests.benchmarks.discarding import receive
from tests.benchmarks.rounds import differences, interval

PATHS = {"/hello": 400, "/stream": 40, "/paced": 40}  # requests a round
SETTLE_S = 1.0  # more than an export and a look at the cost take
RATE = 2_000  # requests a second
NO_MODEL = ""  # no request asks for one
CONNECTIONS = 8
TURN_S = 0.01
REQUEST = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER_END = b'{"hello":"world"}'
DECIDED_S = 5.5  # a little more than the governor's window
BUDGETS = ("0.01", "0.02")
OFTEN = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


class Spent(NamedTuple):
    """CPU time of a request in µs."""

    all: float  # of all threads, from the kernel
    said: float  # of the agent, by itself; 0: there is none


class Loaded(NamedTuple):
    """A server under load for a while."""

    requests: int
    cpu_us: float  # a request
    cores: float
    share_ratio: float | None  # that the agent says it took
    sampling_ratio: float
    step: int


def agent(server: Server) -> dict[str, float]:
    """What the server's agent says of itself."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("GET", "/agent")
        answer: dict[str, float] = json.loads(connection.getresponse().read())
    return answer


def spent(server: Server, path: str, *, traced: bool) -> Spent:
    """Return what a request costs by the kernel, and by the agent."""
    count = PATHS[path]
    said = agent(server)["cpu_ns"] if traced else 0
    began = server.cpu_us().all
    for _ in range(count):
        server.get(path)
    time.sleep(SETTLE_S)
    ended = server.cpu_us().all
    said = agent(server)["cpu_ns"] - said if traced else 0
    return Spent((ended - began) / count, said / 1000 / count)


def estimates(rounds: int) -> Iterator[str]:
    """Return the lines of the first table."""
    found: dict[str, dict[str, list[Spent]]] = {path: {UNTRACED: [], OURS: []} for path in PATHS}
    with receive(get_context("spawn")) as receiver, ExitStack() as stack:
        servers = {
            name: stack.enter_context(serving(name, receiver, NO_MODEL, None, environ=OFTEN))
            for name in (UNTRACED, OURS)
        }
        for number in range(rounds + 1):
            for path in PATHS:
                for name in random.sample(list(servers), 2):
                    one = spent(servers[name], path, traced=name == OURS)
                    if number:  # the first round warms up
                        found[path][name].append(one)
    yield "| | added, by the kernel | by the agent itself | of it |"
    yield "| --- | ---: | ---: | ---: |"
    for path, by_name in found.items():
        true = differences(
            [one.all for one in by_name[OURS]], [one.all for one in by_name[UNTRACED]]
        )
        said = [one.said for one in by_name[OURS]]
        low, high = interval(true)
        middle = statistics.median(true)
        yield (
            f"| `{path}` | {middle:.0f} µs [{low:.0f}, {high:.0f}] | "
            f"{statistics.median(said):.0f} µs | {statistics.median(said) / middle:.2f} |"
        )


class Pipelines:
    """Requests at a rate, whatever the answers take.

    Args:
        port: Of the server.
    """

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]

    def load(self, seconds: float) -> int:
        """Send for so long; returns how many requests were answered."""
        each = round(RATE * TURN_S)
        began, answered = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            due = round((time.monotonic() - began) / TURN_S)
            for number, one in enumerate(self._sockets):
                one.sendall(REQUEST * (each // CONNECTIONS + (number < each % CONNECTIONS)))
            for number, one in enumerate(self._sockets):
                self._read(one, each // CONNECTIONS + (number < each % CONNECTIONS))
            answered += each
            time.sleep(max(began + (due + 1) * TURN_S - time.monotonic(), 0))
        return answered

    @staticmethod
    def _read(one: socket.socket, answers: int) -> None:
        rest = b""
        while answers > 0:
            read = one.recv(1 << 16)
            assert read, "the server has closed the connection"
            answers -= (rest + read).count(ANSWER_END)
            rest = (rest + read).rpartition(ANSWER_END)[2]

    def close(self) -> None:
        """Hang up."""
        for one in self._sockets:
            one.close()


def loaded(server: Server, pipelines: Pipelines, seconds: float, *, traced: bool) -> Loaded:
    """Load a server for a while."""
    began_s, began = time.monotonic(), server.cpu_us().all
    requests = pipelines.load(seconds)
    took_us = server.cpu_us().all - began
    said = agent(server) if traced else {}
    return Loaded(
        requests=requests,
        cpu_us=took_us / requests,
        cores=took_us / 1e6 / (time.monotonic() - began_s),
        share_ratio=said.get("share_ratio"),
        sampling_ratio=said.get("sampling_ratio", 1.0),
        step=int(said.get("step", 0)),
    )


def budgets(seconds: float, told: Callable[[str], None]) -> Iterator[str]:
    """Return the lines of the second table."""
    yield (
        "| budget | requests a second | settled after | traces recorded | CPU a request | "
        "more than untraced | of a core | by the agent itself |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    with receive(get_context("spawn")) as receiver, ExitStack() as stack:
        untraced = stack.enter_context(serving(UNTRACED, receiver, NO_MODEL, None, environ=OFTEN))
        plain = Pipelines(untraced.port)
        plain.load(3)
        before = loaded(untraced, plain, seconds, traced=False)
        for budget in ("off", *BUDGETS):
            with serving(
                OURS, receiver, NO_MODEL, None, environ={**OFTEN, "LATENCYTRACE_OVERHEAD": budget}
            ) as server:
                pipelines = Pipelines(server.port)
                steps = [
                    loaded(server, pipelines, DECIDED_S, traced=True)
                    for _ in range(1 if budget == "off" else 8)
                ]
                for step in steps:
                    told(f"{budget}: {step}")
                held = loaded(server, pipelines, seconds, traced=True)
                pipelines.close()
            after = loaded(untraced, plain, seconds, traced=False)
            untraced_us = (before.cpu_us + after.cpu_us) / 2
            before = after
            changes = [
                number
                for number, (one, other) in enumerate(pairwise(steps), 1)
                if one.step != other.step
            ]
            more_us, per_s = held.cpu_us - untraced_us, held.requests / seconds
            said = 0.0 if held.share_ratio is None else held.share_ratio * held.cores
            yield (
                f"| {budget} | {per_s:.0f} | {(max(changes, default=0) + 1) * DECIDED_S:.0f} s | "
                f"1 of {1 / held.sampling_ratio:.0f} | {held.cpu_us:.0f} µs | "
                f"{more_us:.1f} µs | {more_us * per_s / 1e4:.1f} % | {100 * said:.1f} % |"
            )
        plain.close()
        yield ""
        yield (
            f"The untraced server took {before.cpu_us:.0f} µs a request at "
            f"{before.requests / seconds:.0f} requests a second."
        )


def main() -> None:
    """Measure, and print both tables."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--only", choices=["estimate", "budget"])
    given = arguments.parse_args()
    if given.only != "budget":
        for line in estimates(given.rounds):
            print(line, flush=True)
    if given.only != "estimate":
        for line in budgets(given.seconds, lambda text: print(f"    {text}", flush=True)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
