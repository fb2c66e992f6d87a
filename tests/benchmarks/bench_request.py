"""What tracing adds to a whole request: CPU time of the server's process, all threads.

    python -m tests.benchmarks.bench_request [--rounds 30] [--beside /another/checkout]

A FastAPI application on uvicorn, uvloop and httptools: an answer in one piece, a stream of 200
chunks, one whose chunks each take a turn of the event loop, one whose chunks are made on a
thread, and what a model says that is called by OpenAI's client.
Servers run side by side: untraced, untraced once more (what the two differ by is noise), with
latencytrace, with its forms in Python, with OpenTelemetry's contrib as it is and without its spans
for messages (the model's client by OpenLLMetry's instrumentation), and with ddtrace, if it is in
`.peers/ddtrace`.
In each round each gets the same requests, one after another over a kept connection, in an
order drawn anew. Spans go to a receiver that only counts them. `--beside` adds latencytrace
from another checkout, such as the one before a change.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.bench_agent import QUIET
from tests.benchmarks.bench_servers import free_port
from tests.benchmarks.discarding import Discarding, receive
from tests.benchmarks.fixed_model import model_served
from tests.benchmarks.request_server import CHUNKS
from tests.benchmarks.rounds import differences, interval

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
REQUESTS = {"/hello": 800, "/stream": 120, "/paced": 80, "/threaded": 15, "/model": 60}  # a round
STREAMS = ("/stream", "/paced", "/threaded")
SETTLE_S = 0.25  # more than an export takes to begin
START_S = 60


class Cpu(NamedTuple):
    """CPU time in µs."""

    all: float  # threads of the process
    serving: float  # the one that runs the event loop


@dataclass(frozen=True, slots=True)
class Server:
    """One that runs."""

    process: "subprocess.Popen[bytes]"
    connection: http.client.HTTPConnection

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

    def get(self, path: str) -> None:
        """Send one request and read its answer."""
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        body = response.read()
        assert response.status == http.client.OK, body

    def request_us(self, path: str) -> Cpu:
        """Return the CPU time of a request, what is done about it later included."""
        count = REQUESTS[path]
        began = self.cpu_us()
        for _ in range(count):
            self.get(path)
        time.sleep(SETTLE_S)
        ended = self.cpu_us()
        return Cpu((ended.all - began.all) / count, (ended.serving - began.serving) / count)


Found = dict[str, dict[str, list[Cpu]]]  # by route and server, one for each round


@contextmanager
def serving(
    name: str, receiver: Discarding, model: str, beside: Path | None, overhead: str = "off"
) -> Iterator[Server]:
    """Start a server with this budget of the agent's, and end it with the block."""
    port = free_port()
    root = beside if name == BESIDE and beside is not None else HERE.parents[1]
    environment = {
        **os.environ,
        **QUIET,
        "PYTHONPATH": os.fspath(root),
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address(name.replace(" ", "-")),
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "LATENCYTRACE_GPU": "0",
        "LATENCYTRACE_OVERHEAD": overhead,
        "LATENCYTRACE_COMPILED": "0" if name == IN_PYTHON else "",
        "DD_TRACE_AGENT_URL": f"http://127.0.0.1:{receiver.port}",
    }
    program = os.fspath(HERE / "request_server.py")
    command = [sys.executable, program, str(port), HOW.get(name, "untraced"), model]
    if name == DDTRACE:  # as its documentation starts a program
        (packages,) = PEER.glob("lib/python*/site-packages")
        environment["PYTHONPATH"] += f"{os.pathsep}{packages}"
        command = [os.fspath(PEER / "bin" / "ddtrace-run"), *command]
    process = subprocess.Popen(command, env=environment)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
        server = Server(process, connection)
        until = time.monotonic() + START_S
        while True:
            try:
                server.get("/hello")
                break
            except OSError:
                connection.close()
                if time.monotonic() > until or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait()


def measured(names: list[str], rounds: int, beside: Path | None) -> tuple[Found, dict[str, float]]:
    """Return µs of CPU a request, by route and server, one for each round; and memory in MB."""
    found: Found = {path: {name: [] for name in names} for path in REQUESTS}
    spawn = get_context("spawn")
    with receive(spawn) as receiver, model_served(spawn) as model, ExitStack() as stack:
        servers = {
            name: stack.enter_context(serving(name, receiver, model, beside)) for name in names
        }
        for number in range(rounds + 1):
            for path in REQUESTS:
                for name in random.sample(names, len(names)):
                    us = servers[name].request_us(path)
                    if number:  # the first round warms up
                        found[path][name].append(us)
        resident = {name: server.resident_mb() for name, server in servers.items()}
    return found, resident


def added(found: Found, path: str, name: str, *, serving: bool = False) -> list[float]:
    """Return by how much each round exceeds that of the untraced server."""
    of, to = found[path][name], found[path][UNTRACED]
    place = 1 if serving else 0
    return differences([one[place] for one in of], [one[place] for one in to])


def table(found: Found) -> Iterator[str]:
    """Return the lines of the table: added to the untraced server, with 95 % intervals."""
    chunks = " | ".join(f"a chunk of {path} (serving thread)" for path in STREAMS)
    yield f"| | {' | '.join(found)} | {chunks} |"
    yield "| --- |" + " ---: |" * (len(found) + len(STREAMS))
    for name in found["/hello"]:
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
        for path in STREAMS if name != UNTRACED else ():
            us = [
                statistics.median(added(found, path, name, serving=serving))
                - statistics.median(added(found, "/hello", name, serving=serving))
                for serving in (False, True)
            ]
            cells.append(f"{us[0] / CHUNKS:.2f} µs ({us[1] / CHUNKS:.2f})")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=30)
    arguments.add_argument("--beside", type=Path)
    arguments.add_argument("--only", nargs="*", help="of the traced servers")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    traced = [OURS, IN_PYTHON, *([BESIDE] if given.beside else []), CONTRIB, NO_SEND]
    traced += [DDTRACE] if (PEER / ".installed").exists() else []
    names = [UNTRACED, AGAIN, *(name for name in traced if not given.only or name in given.only)]
    found, resident = measured(names, given.rounds, given.beside)
    if given.json:
        print(json.dumps({"cpu_us": found, "resident_mb": resident}))
        return
    print("\n".join(table(found)))
    for name, mb in resident.items():
        print(f"{name}: {mb:.1f} MB of its own, {mb - resident[UNTRACED]:+.1f}")


if __name__ == "__main__":
    main()
