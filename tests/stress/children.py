"""Ends children of a traced program in every way, and counts the spans that never arrived.

    python -m tests.stress.children [--spans 10000]

A line for each kind of child: how many spans were made, how many arrived, how many the parent
counted as dropped. It ends with 1 where any is missing in both.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from latencytrace.agent import autostart
from tests.stress import ended_children
from tests.stress.ended_children import KINDS, NAME, SPANS
from tests.support.agent.receiving import Receiver


def arrived_and_counted(kind: str, children: int) -> tuple[int, int]:
    """Run a program to its end."""
    with Receiver() as receiver:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{next(iter(autostart.__path__))}/.:{Path.cwd()}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", ended_children.__file__, kind, str(children)],
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        return sum(span.name == NAME for span in receiver.spans), int(done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.children")
    parser.add_argument("--spans", type=int, default=10_000, help="of all kinds together")
    told = parser.parse_args(arguments)
    children = max(told.spans // len(KINDS) // SPANS, 1)
    missing = 0
    for kind in KINDS:
        arrived, counted = arrived_and_counted(kind, children)
        made = children * SPANS
        missing += made - arrived - counted
        sys.stdout.write(f"{kind:<32}made {made}  arrived {arrived}  counted {counted}\n")
        sys.stdout.flush()
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
