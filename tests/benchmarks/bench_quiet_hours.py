"""How often traffic is said to stay away where nothing is wrong: four rhythms, four weeks each.

None of the waves of a day may be news, and of other rhythms only the first days.

    python tests/benchmarks/bench_quiet_hours.py [FIRST_SEED] [SEEDS]
"""

import sys
from itertools import product

from tests.support.builders.made_objectives import made_objective
from tests.support.simulation.rhythms import DAY_MIN, RHYTHMS, notices

RATES = (20.0, 2.0, 0.2, 0.02)
LEARNT = 4  # days: two with such a lull, and a weekend


def main(first: int, seeds: int) -> None:
    """Simulate, and say how it went."""
    objective = made_objective()
    late = 0
    sys.stdout.write("| rhythm | requests/s | in the first four days | in the 24 after |\n")
    for (name, rhythm), per_s in product(RHYTHMS.items(), RATES):
        found = [
            place
            for seed in range(first, first + seeds)
            for place in notices(seed, objective, per_s, rhythm)
        ]
        early = sum(place < LEARNT * DAY_MIN for place in found)
        late += len(found) - early
        means = f"{early / seeds:.1f} | {(len(found) - early) / seeds:.1f}"
        sys.stdout.write(f"| {name} | {per_s:g} | {means} |\n")
        sys.stdout.flush()
    if late:
        sys.exit(f"{late} times quiet hours were news that were usual")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:3]]
    main(*(given + [700, 5][len(given) :]))
