"""What tracing adds to a whole request: CPU time of the server's process, all threads.

    python -m tests.benchmarks.bench_request [--rounds 12] [--starts 1] [--routes /stream]
        [--beside /another/checkout] [--p99]

A FastAPI application on uvicorn, uvloop and httptools: an answer in one piece, a stream of 200
chunks, one whose chunks each take a turn of the event loop, one whose chunks are made on a
thread, and what a model says that is called by OpenAI's client.
Servers run side by side: untraced, untraced once more (what the two differ by is noise), with
latencytrace, with its forms in Python, with OpenTelemetry's contrib as it is and without its spans
for messages (the model's client by OpenLLMetry's instrumentation), and with ddtrace, if it is in
`.peers/ddtrace`.
In each round all of them start anew, for where a process has its memory makes more difference
than is measured here, and each gets the same requests, one after another over a kept connection,
in turns of a few requests whose order is drawn anew. The servers share one core, and whoever asks
has another: which core the two ends of a connection run on changes what a send costs the kernel.
With `--starts` so many of each run in a round, for chance has its say once a start.
Spans go to a receiver that only counts them, once in two seconds. `--beside` adds latencytrace
from another checkout, such as the one before a change. With `--p99` it is not CPU time that is
measured but how long whoever asks waits, of which each start has a median and a p99.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from select import select
from types import MappingProxyType
from typing import NamedTuple

from tests.benchmarks.bench_agent import QUIET
from tests.benchmarks.bench_servers import free_port
from tests.benchmarks.discarding import Discarding, receive
from tests.benchmarks.fixed_model import model_served
from tests.benchmarks.request_server import CHUNKS
from tests.benchmarks.rounds import differences, interval, interval_of

HERE = Path(__file__).parent
UNTRACED, AGAIN, OURS, BESIDE = "untraced", "untraced again", "latencytrace", "the other checkout"
IN_PYTHON = "latencytrace without its compiled core"
CONTRIB, NO_SEND, DDTRACE = "contrib", "contrib without send spans", "ddtrace"
HOW = {
    OURS: "latencytrace",
    IN_PYTHON: "latencytrace",
    BESIDE: "latencytrace",
    CONTRIB: "contrib",
    NO_SEND: "contrib-without-send",
    DDTRACE: "ddtrace",
}
PEER = HERE.parents[1] / ".peers" / "ddtrace"  # its environment
REQUESTS = {"/hello": 800, "/stream": 240, "/paced": 80, "/threaded": 15, "/model": 60}  # a round
STREAMS = ("/stream", "/paced", "/threaded")
TURNS = 5  # a round
WAITS_TURNS, WAITS_A_TURN = 20, 25
POSTS_MS = 2000
SETTLE_S = 2.25  # more than an export takes to begin
START_S = 300  # under valgrind; else some two
SILENT_S = 0.3  # after which an answer has ended


class Cpu(NamedTuple):
    """CPU time in µs."""

    all: float  # threads of the process
    serving: float  # the one that runs the event loop


@dataclass(frozen=True, slots=True)
class Server:
    """One that runs, and the connection to it."""

    process: "subprocess.Popen[bytes]"
    connection: socket.socket
    answers: dict[str, bytes] = field(default_factory=dict)  # the first of each route

    @property
    def port(self) -> int:
        """Return where it listens."""
        port: int = self.connection.getpeername()[1]
        return port

    def cpu_us(self) -> Cpu:
        """Return the CPU time of all its threads so far, and of the serving one."""
        ns = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):  # a thread that ended meanwhile
                ns[task.name] = int((task / "schedstat").read_text().split()[0])
        return Cpu(sum(ns.values()) / 1000, ns[str(self.process.pid)] / 1000)

    def resident_mb(self) -> float:
        """Return how much memory it has that is its own, in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (kib,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
        return int(kib) * 1024 / 1e6

    def get(self, path: str, body: bytes = b"") -> None:
        """Send one request, a post if it has a body, and wait for its answer.

        That is as long as the first one was.

        The kernel wakes whoever waits once all of it is there: a reader that is woken for some of
        the chunks, and is busy with the one before at others, makes a send cost now one thing
        and now another.
        """
        head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        if body:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.connection.sendall(f"{head}\r\n".encode() + body)
        first = self.answers.get(path)
        if first is None:
            answer = self.answers[path] = self._first_answer()
        else:
            answer = b""
            while (left := len(first) - len(answer)) > 0:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, left)
                answer += self._received(left)
        assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
        assert answer[-5:] == self.answers[path][-5:], answer[-200:]

    def _first_answer(self) -> bytes:
        """Read until nothing more comes."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        parts = [self._received(1 << 20)]
        while select([self.connection], [], [], SILENT_S)[0]:
            parts.append(self._received(1 << 20))
        return b"".join(parts)

    def _received(self, most: int) -> bytes:
        """Read what came, at most so many bytes; a server that hung up is an error."""
        if not (data := self.connection.recv(most)):
            msg = "the server closed the connection"
            raise ConnectionError(msg)
        return data


Found = dict[str, dict[str, list[Cpu]]]  # by route and server, one for each start
Servers = dict[tuple[str, int], Server]  # by name, and which of its starts it is


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Have what begins within the block run on these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def request_us(servers: Servers, path: str) -> dict[tuple[str, int], Cpu]:
    """Return the CPU time of a request by server, what is done about it later included.

    The servers take turns of a few requests: the machine's speed changes within seconds.
    """
    count = REQUESTS[path] // TURNS
    asked = partial(take_turns, servers, path, count)
    asked()  # warms up
    time.sleep(SETTLE_S)
    began = {name: server.cpu_us() for name, server in servers.items()}
    for _ in range(TURNS):
        asked()
    time.sleep(SETTLE_S)
    spent = {}
    for name, server in servers.items():
        pairs = zip(began[name], server.cpu_us(), strict=True)
        spent[name] = Cpu(*((ended - start) / count / TURNS for start, ended in pairs))
    return spent


def take_turns(servers: Servers, path: str, count: int) -> dict[tuple[str, int], list[float]]:
    """Ask each server so many times; return how long it took each time, in ms."""
    ms: dict[tuple[str, int], list[float]] = {}
    for key in random.sample(list(servers), len(servers)):
        ms[key] = []
        for _ in range(count):
            began_ns = time.perf_counter_ns()
            servers[key].get(path)
            ms[key].append((time.perf_counter_ns() - began_ns) / 1e6)
    return ms


@contextmanager
def serving(
    name: str,
    receiver: Discarding,
    model: str,
    beside: Path | None,
    *,
    under: Sequence[str] = (),
    program: Path = HERE / "request_server.py",
    also: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Server]:
    """Start a server, and end it with the block.

    Args:
        name: Of the server.
        receiver: Of its spans.
        model: Where a model is served.
        beside: Another checkout.
        under: A program that runs it, such as valgrind, and its arguments.
        program: The server, whose arguments are a port, what traces it and the model.
        also: Where it finds packages besides.
        environ: More of its environment.
    """
    port = free_port()
    root = beside if name == BESIDE and beside is not None else HERE.parents[1]
    environment = {
        **os.environ,
        **QUIET,
        "PYTHONPATH": os.fspath(root),
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address(name.replace(" ", "-")),
        "OTEL_BSP_SCHEDULE_DELAY": str(POSTS_MS),
        "LATENCYTRACE_GPU": "0",
        "LATENCYTRACE_OVERHEAD": "off",
        "LATENCYTRACE_COMPILED": "0" if name == IN_PYTHON else "",
        "DD_TRACE_AGENT_URL": f"http://127.0.0.1:{receiver.port}",
        **environ,
    }
    if also is not None:
        environment["PYTHONPATH"] += f"{os.pathsep}{also}"
    command = [
        *under,
        sys.executable,
        os.fspath(program),
        str(port),
        HOW.get(name, "untraced"),
        model,
    ]
    if name == DDTRACE:  # as its documentation starts a program
        (packages,) = PEER.glob("lib/python*/site-packages")
        environment["PYTHONPATH"] += f"{os.pathsep}{packages}"
        command = [os.fspath(PEER / "bin" / "ddtrace-run"), *command]
    process = subprocess.Popen(command, env=environment)
    try:
        with connected(port, process) as connection:
            yield Server(process, connection)
    finally:
        process.terminate()
        process.wait(START_S)


def connected(port: int, process: "subprocess.Popen[bytes]") -> socket.socket:
    """Connect to a server once it listens.

    Raises:
        OSError: It does not.
    """
    until = time.monotonic() + START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=START_S)
        except OSError:
            if time.monotonic() > until or process.poll() is not None:
                raise
            time.sleep(0.05)


def served(names: list[str], rounds: int, beside: Path | None, starts: int) -> Iterator[Servers]:
    """Start all servers anew in each round; they end when the next is asked for."""
    spawn = get_context("spawn")
    *others, last = sorted(os.sched_getaffinity(0))
    with (
        on_cores({*others} or {last}),
        receive(spawn) as receiver,
        model_served(spawn) as model,
    ):
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            with ExitStack() as stack:
                with on_cores({last}):
                    servers = {
                        (name, start): stack.enter_context(serving(name, receiver, model, beside))
                        for start in range(starts)
                        for name in names
                    }
                yield servers


def measured(
    names: list[str],
    rounds: int,
    beside: Path | None,
    starts: int,
    routes: Sequence[str],
) -> tuple[Found, dict[str, list[float]]]:
    """Return µs of CPU a request, by route and server, one for each start; and memory in MB."""
    found: Found = {path: {name: [] for name in names} for path in routes}
    resident: dict[str, list[float]] = {name: [] for name in names}
    for servers in served(names, rounds, beside, starts):
        for path in routes:
            for (name, _), us in request_us(servers, path).items():
                found[path][name].append(us)
        for (name, _), server in servers.items():
            resident[name].append(server.resident_mb())
    return found, resident


Waits = dict[str, dict[str, list[tuple[float, float]]]]  # by route and server: p50 and p99 in ms


def waits(
    names: list[str], rounds: int, beside: Path | None, starts: int, routes: Sequence[str]
) -> Waits:
    """Return how long requests took, by route and server: medians and p99 in ms, one a start."""
    found: Waits = {path: {name: [] for name in names} for path in routes}
    for servers in served(names, rounds, beside, starts):
        for path in routes:
            take_turns(servers, path, WAITS_A_TURN)  # warms up
            turns = [take_turns(servers, path, WAITS_A_TURN) for _ in range(WAITS_TURNS)]
            for key in servers:
                cuts = statistics.quantiles(chain.from_iterable(ms[key] for ms in turns), n=100)
                found[path][key[0]].append((cuts[49], cuts[98]))
    return found


def table_of_waits(found: Waits) -> Iterator[str]:
    """Return the lines of the table: medians over all starts, and by how much p99 differs."""
    yield "| | | p50 | p99 | more than untraced, 95 % |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for path, by_name in found.items():
        for name, starts in by_name.items():
            p50, p99 = (statistics.median(column) for column in zip(*starts, strict=True))
            more = differences([one for _, one in starts], [one for _, one in by_name[UNTRACED]])
            low, high = interval(more)
            apart = (
                ""
                if name == UNTRACED
                else f"{statistics.median(more):.2f} [{low:.2f}, {high:.2f}]"
            )
            yield f"| {path} | {name} | {p50:.2f} ms | {p99:.2f} ms | {apart} |"


def added(found: Found, path: str, name: str, *, serving: bool = False) -> list[float]:
    """Return by how much each start exceeds that of the untraced server."""
    of, to = found[path][name], found[path][UNTRACED]
    place = 1 if serving else 0
    return differences([one[place] for one in of], [one[place] for one in to])


def table(found: Found) -> Iterator[str]:
    """Return the lines of the table: added to the untraced server, with 95 % intervals."""
    streams = [path for path in STREAMS if path in found and "/hello" in found]
    chunks = "".join(f" a chunk of {path} (serving thread) |" for path in streams)
    yield f"| | {' | '.join(found)} |{chunks}"
    yield "| --- |" + " ---: |" * (len(found) + len(streams))
    for name in next(iter(found.values())):
        cells = []
        for path, by_name in found.items():
            if name == UNTRACED:
                cells.append(
                    f"{statistics.median(one.all for one in by_name[name]):.0f} µs in all"
                )
                continue
            more = added(found, path, name)
            low, high = interval(more)
            cells.append(f"{statistics.median(more):.0f} [{low:.0f}, {high:.0f}]")
        for path in streams if name != UNTRACED else ():
            us = [
                statistics.median(added(found, path, name, serving=serving))
                - statistics.median(added(found, "/hello", name, serving=serving))
                for serving in (False, True)
            ]
            cells.append(f"{us[0] / CHUNKS:.2f} µs ({us[1] / CHUNKS:.2f})")
        yield f"| {name} | {' | '.join(cells)} |"


def shares(found: Found) -> Iterator[str]:
    """Return lines that say what part of the others' cost ours is, with 95 % intervals."""
    for other in (CONTRIB, NO_SEND, DDTRACE):
        for path, by_name in found.items():
            if OURS in by_name and other in by_name:
                pairs = list(zip(added(found, path, OURS), added(found, path, other), strict=True))
                low, high = interval_of(pairs, ratio_of_medians)
                yield (f"{path}: {ratio_of_medians(pairs):.3f} [{low:.3f}, {high:.3f}] of {other}")


def ratio_of_medians(pairs: list[tuple[float, float]]) -> float:
    """Return how many times the median of the second is in that of the first."""
    ours, others = [one for one, _ in pairs], [other for _, other in pairs]
    return statistics.median(ours) / statistics.median(others)


def main() -> None:
    """Measure, and print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--starts", type=int, default=1, help="of each server, in a round")
    arguments.add_argument("--routes", nargs="*", choices=REQUESTS, default=tuple(REQUESTS))
    arguments.add_argument("--beside", type=Path)
    arguments.add_argument("--only", nargs="*", help="of the traced servers")
    arguments.add_argument("--p99", action="store_true", help="how long requests take instead")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    traced = [OURS, IN_PYTHON, *([BESIDE] if given.beside else []), CONTRIB, NO_SEND]
    traced += [DDTRACE] if (PEER / ".installed").exists() else []
    names = [UNTRACED, AGAIN, *(name for name in traced if not given.only or name in given.only)]
    if given.p99:
        found_waits = waits(names, given.rounds, given.beside, given.starts, given.routes)
        print("\n".join(table_of_waits(found_waits)))
        return
    found, resident = measured(names, given.rounds, given.beside, given.starts, given.routes)
    if given.json:
        print(json.dumps({"cpu_us": found, "resident_mb": resident}))
        return
    print("\n".join((*table(found), *shares(found))))
    for name, mb in resident.items():
        more = statistics.median(differences(mb, resident[UNTRACED]))
        print(f"{name}: {statistics.median(mb):.1f} MB of its own, {more:+.1f}")


if __name__ == "__main__":
    main()
