"""Columns beside objects on as many traces made at random as one likes.

    python tests/stress/columns_beside_objects.py --traces 1000000 --seed 1

Ends with status 1 at the first difference, and says which trace of which seed it was.
"""

import argparse
import sys
from random import Random

from latencytrace.analysis.columns.shapes import MOST_SHAPES
from tests.support.simulation.by_columns import ByColumns, differences
from tests.support.simulation.made_traces import made_attempts, made_calls, made_trace
from tests.support.simulation.simulator import GPU, MS, VECTORS, Aside, simulate
from tests.support.simulation.ways import WAYS

BATCH = 500
SKEWS_NS: tuple[dict[str, int], ...] = ({}, {GPU: 37 * MS, VECTORS: -12 * MS}, {GPU: 2 * MS})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    by_columns = ByColumns()
    ways = [Aside(), *WAYS.values()]
    done = by_objects = 0
    for number in range(-(-asked.traces // BATCH)):
        seed = asked.seed * 1_000_003 + number
        random = Random(seed)
        made = (made_trace, made_calls, made_attempts)[number % 3]
        traces = {f"{one:032x}": made(random, one) for one in range(1, BATCH + 1)}
        if len(by_columns.shapes.spans) > MOST_SHAPES // 2:  # as good as no trace is like another
            by_columns = ByColumns()
        if number % 20 == 0:
            aside, skew_ns = ways[number // 20 % len(ways)], random.choice(SKEWS_NS)
            traces = {one.trace_id: one.spans for one in simulate(seed, 100, skew_ns, aside)}
        found, others = by_columns(traces)
        wrong = differences(found, traces)
        if wrong:
            sys.exit(f"seed {seed}, traces {wrong}: columns and objects differ")
        done += len(traces)
        by_objects += len(others)
        if number % 20 == 0:
            sys.stdout.write(f"{done} traces gave the same, {by_objects} of them by objects\n")
            sys.stdout.flush()
    sys.stdout.write(f"all {done} traces gave the same, {by_objects} of them by objects\n")


if __name__ == "__main__":
    main()
