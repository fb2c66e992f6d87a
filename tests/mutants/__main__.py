"""Makes small faults, one at a time, and counts those that no test notices.

    python -m tests.mutants [--count 300] [--seed 1] [--out FILE.json] [--against FILE.json]

The faults are made in a copy of the checkout. `--against` tries those of an earlier run again, as
far as they can still be made, and names which were noticed then and are not now: it ends with 1
if there are any.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.mutants.faults import ROOMS, Fault, faults, picked
from tests.mutants.trials import Copy, Trial
from tests.support.repository.tree import ROOT


def all_faults() -> list[Fault]:
    """The faults of every room."""
    paths = [
        path for room in ROOMS for path in sorted((ROOT / "latencytrace" / room).rglob("*.py"))
    ]
    return [
        fault
        for path in paths
        for fault in faults(path.relative_to(ROOT).as_posix(), path.read_text())
    ]


def again(earlier: Sequence[Mapping[str, Any]], today: Sequence[Fault]) -> list[Fault]:
    """The faults of an earlier run that can still be made; of several alike the first ones."""
    alike: dict[tuple[str, ...], list[Fault]] = defaultdict(list)
    for fault in today:
        alike[fault.name].append(fault)
    keys = ("file", "within", "kind", "before", "after")
    names = [tuple(str(one["fault"][key]) for key in keys) for one in earlier]
    return [alike[name].pop(0) for name in names if alike[name]]


def line(trial: Trial) -> str:
    """A trial as a row of a table."""
    fault = trial.fault
    edit = " ".join(f"`{fault.before}` → `{fault.after}`".split())
    where = f"{fault.file}:{fault.line} {fault.within}"
    return f"| {trial.outcome} | {where} | {fault.kind} | {edit} | {trial.by} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try faults; 1 where one is no longer noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where the outcome is written, as JSON")
    parser.add_argument("--against", type=Path, help="the outcome of an earlier run")
    asked = parser.parse_args(arguments)
    earlier = json.loads(asked.against.read_text()) if asked.against else []
    made = all_faults()
    chosen = again(earlier, made) if asked.against else picked(made, asked.count, asked.seed)

    trials: list[Trial] = []
    print("| outcome | where | kind | fault | noticed by |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for fault in chosen:
            trials.append(copy.tried(fault))
            print(line(trials[-1]), flush=True)
            if asked.out:
                asked.out.write_text(json.dumps([asdict(one) for one in trials], indent=1))
    print(f"\n{len(trials)} faults: {dict(Counter(one.outcome for one in trials))}")
    return report_lost(earlier, trials)


def report_lost(earlier: Sequence[Mapping[str, Any]], trials: Sequence[Trial]) -> int:
    """Name what was noticed in an earlier run and is not now; 1 if there is any."""
    keys = ("file", "within", "kind", "before", "after")
    noticed = {
        tuple(str(one["fault"][key]) for key in keys)
        for one in earlier
        if one["outcome"] != "alive"
    }
    lost = [one for one in trials if one.outcome == "alive" and one.fault.name in noticed]
    if earlier:
        print(
            f"{len(earlier) - len(trials)} can no longer be made; no longer noticed: {len(lost)}"
        )
    for one in lost:
        print(line(one))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
