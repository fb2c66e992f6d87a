"""Runs our command line as users do, in a process of its own."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing answers there
COMMAND = (sys.executable, "-m", "latencytrace")


def environment(**more: str) -> dict[str, str]:
    """Ours without what would change the outcome."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LATENCYTRACE_", "OTEL_", "PYTHONPATH", "COVERAGE_", "COV_"))
    }
    ours = {"LATENCYTRACE_URL": NOWHERE, "LATENCYTRACE_OVERHEAD": "off", "PAGER": "cat"}
    return {**kept, **ours, **more}


def latencytrace(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 100,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=cwd,
        text=True,
        env=environment() if env is None else env,
        timeout=timeout_s,
    )


@contextmanager
def listening() -> Iterator[str]:
    """The address of a receiver that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
