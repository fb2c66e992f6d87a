"""How much of the time of applications is attributed, and to which stages: Shows of `hooks.md`.

    python -m tests.benchmarks.measure_applications [NAME…]

Each runs under `latencytrace run`, against a service of its own. The first request, which often
imports and loads, is told apart from the others. One whose libraries are absent is passed over.
"""

import importlib.util
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from latencytrace.model import Stage
from tests.benchmarks.applications import NEEDS, TIMES
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

UNEXPLAINED = {Stage.UNATTRIBUTED, Stage.OTHER, Stage.RUNTIME, Stage.APPLICATION}


OURS = (*COMMAND, "run", "--", sys.executable, "-m", "tests.benchmarks.applications")


def ledgers_of(name: str, command: Sequence[str | Path] = OURS) -> list[Counter[str]]:
    """Ledgers of an application's requests, the first one first; the command has it traced."""
    with tempfile.TemporaryDirectory() as folder, RunningService(Path(folder) / "data") as service:
        done = subprocess.run(
            [*command, name],
            env=environment(
                OTEL_EXPORTER_OTLP_ENDPOINT=service.otlp,
                OTEL_SERVICE_NAME=name,
                LATENCYTRACE_URL=service.url,
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        asked = f"{service.url}/api/v1/requests?service={name}&order=newest&limit=100&since=1h"

        def found() -> list[dict[str, Any]]:
            listed = service.client.get(asked).json()["requests"]
            routes = Counter(one["route"] for one in listed)  # making ready is another's
            (route, often), *_ = [*routes.most_common(1), ("", 0)]
            return [one for one in listed if one["route"] == route] if often >= TIMES else []

        requests = sorted(until(found, lambda: done.stderr), key=lambda one: int(one["start"]))
        return [Counter(one["ledger"]) for one in requests]


def told(ledgers: Sequence[Counter[str]]) -> str:
    """The mean time, the share of it that is attributed, and the largest stages."""
    total: Counter[str] = Counter()
    for ledger in ledgers:
        total.update(ledger)
    time_ns = sum(total.values())
    mean_ms = time_ns / len(ledgers) / 1e6
    unexplained_ns = sum(total[stage] for stage in UNEXPLAINED)
    shares = [f"`{stage}` {part / time_ns:.0%}" for stage, part in total.most_common(4) if part]
    return f"{mean_ms:.1f} ms | {1 - unexplained_ns / time_ns:.1%} | {', '.join(shares)}"


def main(names: list[str]) -> None:
    """Print a table."""
    print("| application | a request | attributed | stages | the first | attributed | stages |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names or NEEDS:
        if any(importlib.util.find_spec(each) is None for each in NEEDS[name]):
            print(f"| {name} | not installed |")
            continue
        first, *others = ledgers_of(name)
        print(f"| {name} | {told(others)} | {told([first])} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
