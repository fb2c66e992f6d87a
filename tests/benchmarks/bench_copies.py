"""The cost of a backup, its restoration and the move to a server: a million spans by default.

    python -m tests.benchmarks.bench_copies [--spans 1000000]

The server is the engine behind an HTTP front in a process of its own. The move is killed half-way
and goes on.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from latencytrace.service.store import open_store
from tests.benchmarks.bench_service import BASE_NS, Pattern
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns
from tests.support.clickhouse.front import INSERTS, ClickHouseFront
from tests.support.servers.command_line import COMMAND, environment
from tests.support.tables.ledger_tables import write
from tests.support.waiting import until

SPANS_A_POST: Final = 2_500
HOUR_NS: Final = 3600 * 10**9


def fill(folder: Path, spans: int) -> None:
    """Make a store with so many spans, over some days; of a tenth of traces they are kept."""
    pattern = Pattern(1, SPANS_A_POST)
    groups = -(-spans // pattern.spans)
    with closing(open_store("chdb", folder)) as store:
        for group in range(groups):
            age_ns = (groups - group) * HOUR_NS
            blocks = [columns(body) for body in pattern.bodies(group << 20, group * HOUR_NS)]
            store.insert(blocks, age_ns)
            store.keep([(blocks[0], np.arange(blocks[0].count))], age_ns)
            ids = {(int(high), int(low)) for block in blocks for high, low in block.trace_id}
            start_ns = BASE_NS + group * HOUR_NS
            requests = [
                made_request(trace_id=f"{high:016x}{low:016x}", start_ns=start_ns + place)
                for place, (high, low) in enumerate(sorted(ids))
            ]
            write(store, requests, [], age_ns=age_ns)


def run(*arguments: str | Path) -> float:
    """Run a command, and say how long it took and what it said."""
    began_s = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], check=True, capture_output=True, env=environment(),
        text=True,
    )  # fmt: skip
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{arguments[0]:8} {took_s:8.1f} s   {done.stdout.splitlines()[0]}\n")
    return took_s


def main() -> None:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spans", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "data", options.spans)
        run("backup", folder / "copy.tar", "--data", folder / "data")
        size = (folder / "copy.tar").stat().st_size
        sys.stdout.write(f"         {size / options.spans:8.1f} bytes a span\n")
        run("restore", folder / "copy.tar", "--data", folder / "restored")
        with ClickHouseFront(folder / "engine") as front:
            first = subprocess.Popen(
                [*COMMAND, "migrate", front.url(), "--data", str(folder / "data")],
                env=environment(), stdout=subprocess.DEVNULL,
            )  # fmt: skip
            half = options.spans // 100_000  # pieces of at most 50 000 rows
            until(lambda: int(front.told(INSERTS)) >= half, patience_s=600)
            first.send_signal(signal.SIGKILL)
            first.wait()
            sys.stdout.write(f"killed after {front.told(INSERTS)} inserts\n")
            before_s = sum(os.times()[2:4])
            run("migrate", front.url(), "--data", folder / "data")
            sys.stdout.write(f"         {sum(os.times()[2:4]) - before_s:8.1f} s of CPU\n")


if __name__ == "__main__":
    main()
