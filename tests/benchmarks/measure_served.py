"""Applications that people serve with, unchanged, and what is told of their requests.

    python -m tests.benchmarks.measure_served [--said] [NAME…]

Each runs under `latencytrace run`, against a service of its own, and is asked by one client and
then by eight, in a process that keeps its own clock. One whose library is absent is passed over:
run it with the Python of an environment that has it. With `--said` what `doctor`, `breakdown` and
`requests` say of each stands on the standard error.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import httpx

from latencytrace.model import Stage
from tests.benchmarks.applications import served_model
from tests.benchmarks.served_applications import APPLICATIONS, Application
from tests.support.models.tiny_chat import tiny_chat
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.servers.traced_server import end
from tests.support.waiting import until

UNEXPLAINED = {Stage.UNATTRIBUTED, Stage.OTHER, Stage.RUNTIME, Stage.APPLICATION}
WARM_UP = 8
FIRST_ERROR = 400
SAID = (("doctor", "--"), ("breakdown",), ("requests", "--limit", "5"))


@dataclass(frozen=True)
class Seen:
    """The same requests by their clients and by the service."""

    theirs: list[dict[str, int]]
    ours: list[dict[str, Any]]

    def line(self) -> str:
        """The columns of a table."""
        theirs = sorted(one["ended_ns"] for one in self.theirs)
        ours = sorted(int(one["duration_ns"]) for one in self.ours)
        total: Counter[str] = Counter()
        for one in self.ours:
            total.update(one["ledger"])
        whole = sum(total.values()) or 1
        attributed = 1 - sum(total[stage] for stage in UNEXPLAINED) / whole
        named = attributed + total[Stage.RUNTIME] / whole  # with what its process waited for
        shares = [f"`{stage}` {part / whole:.0%}" for stage, part in total.most_common(5) if part]
        return (
            f"{len(ours)} of {len(theirs)} | {ms(theirs, 0.5)} / {ms(theirs, 0.99)} "
            f"| {ms(ours, 0.5)} / {ms(ours, 0.99)} | {attributed:.1%} | {named:.1%} "
            f"| {', '.join(shares)}"
        )


def ms(times_ns: Sequence[int], quantile: float) -> str:
    """A quantile in milliseconds."""
    return f"{times_ns[int(quantile * (len(times_ns) - 1))] / 1e6:.1f}" if times_ns else "-"


def asked(url: str, application: Application, clients: int, count: int) -> list[dict[str, int]]:
    """The clients' record."""
    how = [str(clients), str(count), application.method, application.path]
    how.append(json.dumps(application.body))
    if application.login:
        known = httpx.post(url + application.login, json={"email": "", "password": ""})
        how.append(known.json()["token"])
    told = subprocess.run(
        [sys.executable, os.fspath(Path(__file__).with_name(application.clients)), url, *how],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seen: list[dict[str, int]] = [json.loads(line) for line in told.stdout.splitlines()]
    failed = Counter(one["status"] for one in seen if one["status"] >= FIRST_ERROR)
    assert not failed, failed
    return seen


def measured(
    application: Application, folder: Path, service: RunningService, *, said: bool
) -> list[Seen]:
    """Ask an application."""
    for name, text in application.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if application.has_model:
        chat = tiny_chat(width=256, layers=4)
        chat.model.save_pretrained(folder / "tiny-chat")
        chat.tokenizer.save_pretrained(folder / "tiny-chat")
    port = str(free_port())
    url, log = f"http://127.0.0.1:{port}", folder / "application.log"
    command = [part.replace("PORT", port) for part in application.command]
    variables = environment(
        OTEL_EXPORTER_OTLP_ENDPOINT=service.otlp,
        OTEL_SERVICE_NAME="application",
        LATENCYTRACE_URL=service.url,
        MODEL=model(),
        OPENAI_API_BASE_URL=model(),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **application.variables,
    )
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "run", "--", *command],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=variables,
        )
    try:
        until(lambda: answers(url, application), log.read_text, patience_s=150)
        asked(url, application, 1, WARM_UP)
        time.sleep(2)
        seen = [
            Seen(asked_now, listed(service, application, since_ns, len(asked_now)))
            for clients in (1, 8)
            for since_ns in [time.time_ns()]
            for asked_now in [asked(url, application, clients, application.requests)]
        ]
        if said:
            say(command, folder, variables)
    except (AssertionError, subprocess.CalledProcessError):
        print(log.read_text(), file=sys.stderr)
        raise
    else:
        return seen
    finally:
        end(process)


def say(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
    """Print what our commands say of an application."""
    for told in SAID:
        print(f"$ latencytrace {' '.join(told)}", file=sys.stderr, flush=True)
        subprocess.run(
            [*COMMAND, *told, *(command if told[-1] == "--" else ())],
            cwd=folder,
            env=variables,
            stdout=sys.stderr,
            check=False,
        )


@cache
def model() -> str:
    """The base address of a model that another process serves, which thinks for a while."""
    return served_model()


def answers(url: str, application: Application) -> bool:
    """Return whether it serves already."""
    try:
        return application.is_ready in httpx.get(url + application.ready, trust_env=False).text
    except httpx.TransportError:
        return False


def listed(
    service: RunningService, application: Application, since_ns: int, count: int
) -> list[dict[str, Any]]:
    """The requests that the service knows, once they are there or have had their time."""
    until_s = time.monotonic() + 12
    path = f"/requests?service={application.service}&limit=1000&order=newest&since=1h"
    requests: Any = []
    found: list[dict[str, Any]] = []
    while time.monotonic() < until_s and len(found) < count:
        time.sleep(0.5)
        requests = service.ask(path)["requests"]
        found = [
            one
            for one in requests
            if int(one["start"]) >= since_ns - 5_000_000 and one["route"] == application.route
        ]
    if len(found) < count:
        print(Counter(one["route"] for one in requests), file=sys.stderr)
    return found


def versions(application: Application) -> str:
    """The installed versions."""
    return ", ".join(f"{name} {version(name)}" for name in application.needs)


def main(names: list[str]) -> None:
    """Print a table."""
    said = "--said" in names
    names = [name for name in names if name != "--said"]
    print(
        "| application | clients | requests | p50 / p99, ms | reported | attributed | named "
        "| stages |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names or APPLICATIONS:
        application = APPLICATIONS[name]
        try:
            installed = versions(application)
        except PackageNotFoundError:
            print(f"| {name} | not installed |")
            continue
        with (
            tempfile.TemporaryDirectory() as folder,
            RunningService(Path(folder) / "data") as service,
        ):
            for clients, seen in zip(
                (1, 8), measured(application, Path(folder), service, said=said), strict=True
            ):
                print(f"| {name}: {installed} | {clients} | {seen.line()} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
