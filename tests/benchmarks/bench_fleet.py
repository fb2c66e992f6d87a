"""A fleet on one ClickHouse server: kills, the server away, every acknowledged request once.

    python -m tests.benchmarks.bench_fleet [--requests 4000] [--agents 50] [--kills 20]
        [--away 1] [--away-s 300] [--seconds 480]

Services and senders are processes and threads of this machine; the server is the engine behind an
HTTP front. It ends with a fault where a ledger is missing, there twice, or not what was sent.
"""

import argparse
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

from tests.stress.fleet import Trouble, account_of


def main() -> None:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--services", type=int, default=3)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--away", type=int, default=1)
    parser.add_argument("--away-s", type=float, default=300)
    parser.add_argument("--seconds", type=float, default=480, help="that sending takes at least")
    trouble = Trouble(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        outcome = account_of(trouble, Path(folder))
    for name, value in ((one.name, getattr(outcome, one.name)) for one in fields(outcome)):
        sys.stdout.write(f"{name.replace('_', ' '):16} {value}\n")


if __name__ == "__main__":
    main()
