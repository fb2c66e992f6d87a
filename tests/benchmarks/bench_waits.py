"""Requests that wait while a server is held: how they agree with their clients' own clocks.

    python -m tests.benchmarks.bench_waits [--only NAME ...] [--short] [--busy] [--json]

Eight clients in a process of their own send requests of which each holds its server's event loop
or worker for 2 to 200 ms (`waits/held_app.py`); closed and open load, a new connection for each
request and kept ones. Compared are each request's end to end and first token (of gRPC's servers
the former alone): they agree within 2 % or one step of the kernel's clock, by which it tells when
bytes came (4 ms on most machines).
A line a way, and a table of the servers at the end. `--short` sends a third as many requests.
With `--busy` as many other processes as there are processors never rest meanwhile; the clients go
before all others (real-time), where they may.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind

from latencytrace.model import semconv
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.traced_server import TracedServer, traced_server

HERE = Path(__file__).parent / "waits"
PYTHON = (sys.executable, "-m")
ADDRESS = ("--bind", "127.0.0.1:PORT")
UVICORN = (*PYTHON, "uvicorn", "held_app:asgi", "--port", "PORT", "--log-level", "warning")
GUNICORN = (*PYTHON, "gunicorn", *ADDRESS, "--workers", "1", "held_app:wsgi")
GRANIAN = (*PYTHON, "granian", "--port", "PORT", "--log-level", "error", "--interface")
PROGRAM = (sys.executable, os.fspath(HERE / "held_app.py"))
SERVERS = {
    "uvicorn, h11": (*UVICORN, "--http", "h11", "--loop", "asyncio"),
    "uvicorn, httptools": (*UVICORN, "--http", "httptools", "--loop", "asyncio"),
    "uvicorn, uvloop": (*UVICORN, "--http", "httptools", "--loop", "uvloop"),
    "hypercorn": (*PYTHON, "hypercorn", *ADDRESS, "held_app:asgi"),
    "gunicorn, sync": (*GUNICORN, "--worker-class", "sync"),
    "gunicorn, gevent": (*GUNICORN, "--worker-class", "gevent"),
    "gunicorn, gthread": (*GUNICORN, "--worker-class", "gthread", "--threads", "2"),
    "waitress": (*PYTHON, "waitress", "--listen", "127.0.0.1:PORT", "--threads", "2",
                 "held_app:wsgi"),
    "werkzeug": (*PROGRAM, "werkzeug", "PORT"),
    "aiohttp": (*PROGRAM, "aiohttp", "PORT"),
    "Tornado": (*PROGRAM, "tornado", "PORT"),
    "Granian, ASGI": (*GRANIAN, "asgi", "held_app:asgi"),
    "Granian, WSGI": (*GRANIAN, "wsgi", "held_app:wsgi"),
    "Sanic": (*PROGRAM, "sanic", "PORT"),
    "gRPC": (*PROGRAM, "grpc", "PORT"),
    "gRPC, asyncio": (*PROGRAM, "grpc.aio", "PORT"),
}  # fmt: skip
OF_OTHERS = {"Granian, ASGI": "granian", "Granian, WSGI": "granian", "Sanic": "sanic"}
BY_GRPC = frozenset({"gRPC", "gRPC, asyncio"})  # which tell no first token
WAYS = tuple(product(("closed", "open"), ("new", "kept")))
REQUESTS = {2: 100, 10: 100, 50: 100, 200: 40}  # by how long each holds its server, in ms
SHORT = {2: 60, 10: 60, 50: 20, 200: 8}  # the same in a third of the time
WARM_UP = 10
WITHIN_RATIO = 0.02
STEP_NS = round(time.clock_getres(6) * 1e9)  # CLOCK_MONOTONIC_COARSE
ENOUGH = 0.95


@dataclass(frozen=True, slots=True)
class Result:
    """How many requests of a server agree with their clients."""

    server: str
    load: str
    connections: str
    held_ms: int
    requests: int
    whole: int  # those whose end to end agrees
    first: int | None  # those whose first token does; None: it is not told
    client_ns: float  # the median of their clients
    off_ns: float  # the median difference, ours less theirs
    worst_ns: int  # the largest

    def share(self) -> float:
        """Return the share of those that agree, likewise."""
        return self.agreeing() / self.requests

    def agreeing(self) -> int:
        """Return how many do, of the worse of both."""
        return self.whole if self.first is None else min(self.whole, self.first)


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Have so many processes that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def asked(
    name: str, url: str, held_ms: int, count: int, load: str, connections: str
) -> list[dict[str, str]]:
    """What the clients saw."""
    address, protocol = urlsplit(url), "grpc" if name in BY_GRPC else "http"
    way = [str(held_ms), str(count), load, connections]
    where = [protocol, str(address.hostname), str(address.port), *way]
    told = subprocess.run(
        [sys.executable, os.fspath(HERE / "outside_clients.py"), *where],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in told.stdout.splitlines()]


def agree(ours_ns: float, theirs_ns: float) -> bool:
    """Whether two clocks agree."""
    return abs(ours_ns - theirs_ns) <= max(WITHIN_RATIO * theirs_ns, STEP_NS)


def compared(
    name: str, server: TracedServer, receiver: Receiver, way: tuple[str, str, int], count: int
) -> Result:
    """Send so many requests that hold the server so long, and compare them."""
    load, connections, held_ms = way
    receiver.posts.clear()
    seen = asked(name, server.url, held_ms, count, load, connections)

    def served() -> dict[str, ReceivedSpan]:
        return {span.trace_id: span for span in receiver.spans if span.kind is SpanKind.SERVER}

    server.wait_until(lambda: all(one["trace_id"] in served() for one in seen))
    spans = served()
    whole, first, off_ns = 0, 0, []
    for one in seen:
        span, ended_ns, first_ns = (
            spans[one["trace_id"]],
            int(one["ended_ns"]),
            int(one["first_ns"]),
        )
        told_s = span.attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, 0)
        assert isinstance(told_s, float | int)
        whole += agree(span.duration_ns, ended_ns)
        first += agree(told_s * 1e9, first_ns)
        off_ns.append(span.duration_ns - ended_ns)
    return Result(
        name, load, connections, held_ms, len(seen), whole, None if name in BY_GRPC else first,
        statistics.median(int(one["ended_ns"]) for one in seen),
        statistics.median(off_ns), max(off_ns, key=abs),
    )  # fmt: skip


def measured(
    name: str, receiver: Receiver, folder: Path, requests: Mapping[int, int]
) -> Iterator[Result]:
    """Each way of asking a server, for each length of its holds."""
    ready = None if name in BY_GRPC else "/held?0"
    with traced_server(
        receiver, folder, *SERVERS[name], ready=ready, PYTHONPATH=os.fspath(HERE)
    ) as server:
        asked(name, server.url, 1, WARM_UP, "closed", "new")
        for way, (held_ms, count) in product(WAYS, requests.items()):
            yield compared(name, server, receiver, (*way, held_ms), count)


def line(result: Result) -> str:
    """A result for people."""
    way = f"{result.load}, {result.connections}"
    of = f"of {result.requests}"
    return (
        f"{result.server:20} {way:13} {result.held_ms:4} ms  {result.whole:4} "
        f"{'' if result.first is None else result.first:4} "
        f"{of:7} {result.client_ns / 1e6:8.1f} {result.off_ns / 1e6:+7.2f} "
        f"{result.worst_ns / 1e6:+8.2f}"
    )


def table(results: Sequence[Result]) -> Iterator[str]:
    """The servers, in percent of their requests."""
    yield "| server | end to end | first token | the worst of the ways |"
    yield "| --- | ---: | ---: | --- |"
    for name in dict.fromkeys(result.server for result in results):
        ways = [result for result in results if result.server == name]
        count = sum(way.requests for way in ways)
        parts = [[getattr(way, part) for way in ways] for part in ("whole", "first")]
        shares = ("" if None in part else f"{100 * sum(part) / count:.0f}" for part in parts)
        worst = min(ways, key=Result.share)
        yield (
            f"| {name} | {' | '.join(shares)} | "
            f"{100 * worst.share():.0f}: {worst.load}, {worst.connections}, {worst.held_ms} ms |"
        )


def main(names: Sequence[str], *, short: bool, busy: bool, as_json: bool) -> int:
    """Print a line a way; fail if fewer than 95 of 100 agree of any server."""
    if not as_json:
        print(f"{'':43} end first          client, ms    off    worst")
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Receiver() as receiver,
        neighbours((os.cpu_count() or 1) if busy else 0),
    ):
        for name in names:
            for result in measured(name, receiver, Path(folder), SHORT if short else REQUESTS):
                results.append(result)
                if not as_json:
                    print(line(result), flush=True)
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print("\n".join(("", *table(results))))
    servers = {result.server: (0, 0) for result in results}
    for one in results:
        agreeing, requests = servers[one.server]
        servers[one.server] = agreeing + one.agreeing(), requests + one.requests
    return 0 if all(agreeing >= ENOUGH * of for agreeing, of in servers.values()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    installed = [name for name in SERVERS if find_spec(OF_OTHERS.get(name, "sys"))]
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=installed)
    parser.add_argument("--short", action="store_true", help="a third as many requests")
    parser.add_argument("--busy", action="store_true", help="beside others that never rest")
    parser.add_argument("--json", action="store_true", help="print figures only")
    options = parser.parse_args()
    sys.exit(main(options.only, short=options.short, busy=options.busy, as_json=options.json))
