"""What tracing adds to a whole request in instructions, which no neighbour of the machine changes.

    python -m tests.benchmarks.bench_instructions      # needs valgrind; some ten minutes

The servers of `bench_request.py` run under valgrind's callgrind, one after another, and answer
some more requests of a route or some fewer: what they differ by is what a request takes in user
space, in all threads, until its spans have left. Spans leave when a server ends, all at once.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.bench_request import (
    CONTRIB,
    IN_PYTHON,
    NO_SEND,
    OURS,
    UNTRACED,
    serving,
)
from tests.benchmarks.discarding import Discarding, receive
from tests.benchmarks.fixed_model import model_served

TRACED = (OURS, IN_PYTHON, NO_SEND, CONTRIB)
FEW = 20
MORE = {"/hello": 400, "/stream": 100}
AT_THE_END = {"OTEL_BSP_SCHEDULE_DELAY": "3600000", "PYTHONHASHSEED": "0"}


def instructions(name: str, path: str, count: int, receiver: Discarding, model: str) -> int:
    """Return the instructions of a server from its start to its end.

    Raises:
        FileNotFoundError: There is no valgrind.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        under = ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={file}")
        with serving(name, receiver, model, None, under=under, environ=AT_THE_END) as server:
            for _ in range(count):
                server.get(path)
        (counted,) = re.findall(r"^(?:totals|summary): (\d+)", file.read_text(), re.MULTILINE)[:1]
    return int(counted)


def measured(traced: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return instructions a request by server and route."""
    found: dict[str, dict[str, float]] = {}
    spawn = get_context("spawn")
    with receive(spawn) as receiver, model_served(spawn) as model:
        for name in (UNTRACED, *traced):
            found[name] = {}
            for path, more in MORE.items():
                few = instructions(name, path, FEW, receiver, model)
                many = instructions(name, path, FEW + more, receiver, model)
                found[name][path] = (many - few) / more
                print(f"{name} {path}: {found[name][path]:,.0f}", file=sys.stderr, flush=True)
    return found


def table(found: dict[str, dict[str, float]]) -> Iterator[str]:
    """Return the lines of the table."""
    yield f"| instructions | {' | '.join(MORE)} |"
    yield "| --- |" + " ---: |" * len(MORE)
    for name, by_path in found.items():
        more = {path: by_path[path] - found[UNTRACED][path] for path in MORE}
        cells = [
            f"{by_path[path]:,.0f}" if name == UNTRACED else f"{more[path]:+,.0f}" for path in MORE
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--only", nargs="*", help="of the traced servers")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    found = measured([name for name in TRACED if not given.only or name in given.only])
    print(json.dumps(found) if given.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
