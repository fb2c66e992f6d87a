"""Counts how often `tail` names the cause of simulated incidents, and one where there is none.

    python -m tests.stress.tail_causes [--runs 100] [--first-seed 1] [--requests 20000]

See `docs/pages/tail.md`.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import Pool

from latencytrace.model.cohorts.breakdown import CauseKind
from tests.support.simulation.tails import INCIDENTS, tail

NOTHING = "nothing"

Run = tuple[int, CauseKind | None, int]


def named(run: Run) -> tuple[CauseKind | None, str, bool]:
    """The kind of a run's incident, the kind that was named, and whether an attribute was."""
    seed, kind, requests = run
    found = tail(seed, kind, requests)
    return kind, found.cause.kind if found.cause else NOTHING, bool(found.attributes)


def runs(told: argparse.Namespace) -> Iterator[Run]:
    """As many of each kind of incident, and five times as many without any."""
    for place, kind in enumerate([*INCIDENTS, *[None] * 5]):
        first = told.first_seed + place * told.runs
        yield from ((seed, kind, told.requests) for seed in range(first, first + told.runs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each kind of incident, and one for none."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.tail_causes")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=1)
    told = parser.parse_args(arguments)
    with Pool(told.processes) as pool:
        found = pool.map(named, runs(told), chunksize=10)
    for kind in (*INCIDENTS, None):
        of_kind = [answer for one, answer, _ in found if one is kind]
        attributes = sum(apart for one, _, apart in found if one is kind)
        right = of_kind.count(kind or NOTHING)
        others = Counter(answer for answer in of_kind if answer != (kind or NOTHING))
        rest = ", ".join(f"{name} {times}" for name, times in others.most_common())
        print(  # noqa: T201 - its output
            f"{kind or NOTHING:12} {right:4} of {len(of_kind)}; "
            f"attributes named in {attributes}; {rest or 'nothing else'}"
        )


if __name__ == "__main__":
    main()
