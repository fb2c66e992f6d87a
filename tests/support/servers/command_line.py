"""Runs our command line as users do, in a process of its own."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.nowhere import NOWHERE

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


def python(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 200,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python's to its end, by default in our own environment."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=check,
        cwd=cwd,
        text=True,
        env=env,
        timeout=timeout_s,
    )


def latencytrace(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 200,
) -> subprocess.CompletedProcess[str]:
    env = environment() if env is None else env
    return python(*COMMAND[1:], *arguments, env=env, cwd=cwd, timeout_s=timeout_s)


@contextmanager
def listening() -> Iterator[str]:
    """The address of a receiver that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
