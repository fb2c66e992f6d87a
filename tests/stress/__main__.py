"""Puts the service under stress, and counts what it acknowledged and what became of it.

    python -m tests.stress [--requests 10000] [--rate 50] [--hogs 3] [--slow-ms 0 60 500]
                           [--services 1 2] [--kills 0] [--full-disk] [--json]

A run for each delay of the store and each number of services; see `docs/pages/service-tests.md`.
It ends with 1 where something does not add up.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Final

from tests.stress.accounts import Account
from tests.stress.runs import Stress, account_of

_COLUMNS: Final = (
    *("requests", "acknowledged", "missing", "undivided", "spans_lost", "incomplete"),
    *(
        "misplaced",
        "duplicated",
        "missing_inner",
        "refused",
        "unanswered",
        "answered_p99_s",
        "settled_s",
    ),
)


def stresses(told: argparse.Namespace) -> list[Stress]:
    """All runs that are asked for."""
    return [
        Stress(
            requests=told.requests,
            rate=told.rate,
            hogs=told.hogs,
            slow_ms=slow_ms,
            services=services,
            kills=told.kills,
            full_disk=told.full_disk,
            seed=told.seed,
        )
        for slow_ms, services in product(told.slow_ms, told.services)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all, and print a line for each; 1 where something does not add up."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.stress",
        description="Count what the service acknowledged under stress, and what became of it.",
    )
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--hogs", type=int, default=3, help="processes that take all the CPU")
    parser.add_argument(
        "--slow-ms", type=float, nargs="+", default=[0.0, 60.0, 500.0], help="of each insert"
    )
    parser.add_argument("--services", type=int, nargs="+", choices=(1, 2), default=[1, 2])
    parser.add_argument("--kills", type=int, default=0, help="kill -9 so many times")
    parser.add_argument("--full-disk", action="store_true", help="on a small disk, full once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="a document a line")
    told = parser.parse_args(arguments)
    if not told.json:
        _line("slow_ms", "services", *_COLUMNS)
    failed = False
    for stress in stresses(told):
        with tempfile.TemporaryDirectory(prefix="latencytrace-stress-") as folder:
            account = account_of(stress, Path(folder) / "data")
        failed |= bool(account.faults)
        _show(stress, account, as_json=told.json)
    return int(failed)


def _show(stress: Stress, account: Account, *, as_json: bool) -> None:
    if as_json:
        document = {"stress": asdict(stress), "account": asdict(account)}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        numbers = asdict(account)
        _line(f"{stress.slow_ms:g}", stress.services, *(numbers[name] for name in _COLUMNS))
        for fault in account.faults:
            sys.stdout.write(f"    {fault}\n")
    sys.stdout.flush()


def _line(*cells: object) -> None:
    sys.stdout.write("  ".join(f"{cell!s:>13}" for cell in cells).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main())
