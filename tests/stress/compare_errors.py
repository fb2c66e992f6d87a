"""Counts how often `compare` is wrong, and how often it finds what there is.

    python -m tests.stress.compare_errors [--pairs 200] [--seed 1] [NAME…]

Each line is one kind of pair, drawn anew each time: see `docs/pages/compare.md`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from latencytrace.analysis.compare.comparison import compare
from latencytrace.analysis.compare.verdict import AT_LEAST, Verdict
from tests.support.simulation.cohorts import System, cohort, slower, with_incident

USUAL: Final = System()
ALIKE: Final = System(likeness=0.9)
VERY_ALIKE: Final = System(likeness=0.98)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two systems, and how many requests of each are compared."""

    a: System = USUAL
    b: System = USUAL
    requests: int
    at_least_ratio: float = AT_LEAST
    incident: Mapping[str, float] | None = None  # of B alone


PAIRS: Final[Mapping[str, Pair]] = {
    # nothing changed; any shift that is proven at all would be told
    "same, 500": Pair(requests=500, at_least_ratio=0.0),
    "same, 4 000": Pair(requests=4_000, at_least_ratio=0.0),
    "same, alike 0.9, 4 000": Pair(a=ALIKE, b=ALIKE, requests=4_000, at_least_ratio=0.0),
    "same, alike 0.98, 10 000": Pair(
        a=VERY_ALIKE, b=VERY_ALIKE, requests=10_000, at_least_ratio=0.0
    ),
    # only the mix or the load changed
    "longer prompts, 4 000": Pair(
        b=replace(USUAL, prompt=1_000), requests=4_000, at_least_ratio=0.0
    ),
    "longer answers, 4 000": Pair(
        b=replace(USUAL, answer=150), requests=4_000, at_least_ratio=0.0
    ),
    "more load, 4 000": Pair(
        b=replace(USUAL, others=5, requests_per_s=100), requests=4_000, at_least_ratio=0.0
    ),
    "errors, 4 000": Pair(b=replace(USUAL, failing_ratio=0.2), requests=4_000, at_least_ratio=0.0),
    # nothing changed but for an incident in B
    "incident, 2 000": Pair(requests=2_000, at_least_ratio=0.0, incident={}),
    "incident, 10 000": Pair(requests=10_000, at_least_ratio=0.0, incident={}),
    "incident of a fifth, 4 000": Pair(
        requests=4_000, at_least_ratio=0.0, incident={"hit_ratio": 0.2}
    ),
    "incident of 2 %, 4 000": Pair(
        requests=4_000, at_least_ratio=0.0, incident={"extra_ms": 300, "end_ratio": 0.42}
    ),
    "small incident, 4 000": Pair(requests=4_000, at_least_ratio=0.0, incident={"extra_ms": 60}),
    "incident, alike 0.9, 10 000": Pair(
        a=ALIKE, b=ALIKE, requests=10_000, at_least_ratio=0.0, incident={"hit_ratio": 0.2}
    ),
    # what there is to find
    "median 5 %, incident, 4 000": Pair(b=slower(USUAL, 1.05), requests=4_000, incident={}),
    "median 5 %, incident, 8 000": Pair(b=slower(USUAL, 1.05), requests=8_000, incident={}),
    "median 5 %, incident of a fifth, 8 000": Pair(
        b=slower(USUAL, 1.05), requests=8_000, incident={"hit_ratio": 0.2}
    ),
    "median 5 %, 2 000": Pair(b=slower(USUAL, 1.05), requests=2_000),
    "median 5 %, 4 000": Pair(b=slower(USUAL, 1.05), requests=4_000),
    "median 5 %, 8 000": Pair(b=slower(USUAL, 1.05), requests=8_000),
    "median 5 %, alike 0.9, 40 000": Pair(a=ALIKE, b=slower(ALIKE, 1.05), requests=40_000),
    "5 % and longer prompts, 8 000": Pair(
        b=slower(replace(USUAL, prompt=1_000), 1.05), requests=8_000
    ),
    "slowest 3 % x 1.5, 2 000": Pair(b=replace(USUAL, worst_ratio=0.03), requests=2_000),
    "slowest 3 % x 1.5, 4 000": Pair(b=replace(USUAL, worst_ratio=0.03), requests=4_000),
    "any 3 % x 1.5, 40 000": Pair(b=replace(USUAL, slow_ratio=0.03), requests=40_000),
    "any 3 % x 1.5, 80 000": Pair(b=replace(USUAL, slow_ratio=0.03), requests=80_000),
    "any 3 % x 1.5, 80 000, 1 %": Pair(
        b=replace(USUAL, slow_ratio=0.03), requests=80_000, at_least_ratio=0.01
    ),
    "search 30 % slower, 2 000": Pair(b=replace(USUAL, retrieve_ms=52), requests=2_000),
}


def verdicts(pair: Pair, pairs: int, seed: int) -> Counter[Verdict]:
    """Compare so many pairs, and count what is said."""
    found: Counter[Verdict] = Counter()
    for number in range(pairs):
        random = np.random.default_rng([seed, number])
        a, b = (cohort(random, system, pair.requests) for system in (pair.a, pair.b))
        if pair.incident is not None:
            b = with_incident(random, b, **pair.incident)
        found[compare(a, b, at_least_ratio=pair.at_least_ratio).verdict] += 1
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each kind of pair."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.compare_errors")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(PAIRS))
    told = parser.parse_args(arguments)
    for name in told.names:
        began = time.perf_counter()
        found = verdicts(PAIRS[name], told.pairs, told.seed)
        said = " ".join(f"{verdict}={found[verdict]}" for verdict in Verdict)
        took = f"{time.perf_counter() - began:.0f} s"
        sys.stdout.write(f"{name:40} {said} {took}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
