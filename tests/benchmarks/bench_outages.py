"""How soon an outage at a fraction of the usual traffic is told, with its own tier and without.

Each line is the median of simulated outages in which every request is bad: those at night, when
traffic was low before, and those that took the traffic with them. `page` is `LatencySLOBurn`,
`first alert` that or `LatencySLONoData`. At two requests a second the service promises
to alert within a quarter of an hour, at 2 to 10 % of the traffic, in all of them.

    python tests/benchmarks/bench_outages.py [FIRST_SEED] [SEEDS]
"""

import sys
from collections.abc import Iterable
from itertools import product
from statistics import median

from latencytrace.analysis.slo.burn_rate import burn_rules
from tests.support.builders.made_objectives import made_objective
from tests.support.simulation.outages import Outage, outage

RATES, SHARES = (20.0, 2.0, 0.2, 0.02), (0.02, 0.05, 0.1)
PROMISED_MIN = 15
NEVER = float("inf")


def say(line: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def minutes(found: Iterable[float | None]) -> str:
    """Their median."""
    middle = median(NEVER if one is None else one for one in found)
    return "never" if middle == NEVER else f"{middle:.0f} min"


def main(first: int, seeds: int) -> None:
    """Simulate, and say how it went."""
    objective = made_objective()
    rules = burn_rules(objective)
    without = [rule for rule in rules if rule.least_ratio]
    late = 0
    say("| requests/s | traffic left | its way | page before | page now | first alert | worst |")
    for per_s, share, sudden in product(RATES, SHARES, (False, True)):
        runs: list[tuple[Outage, Outage]] = []
        for seed in range(first, first + seeds):
            before, now = (
                outage(seed, objective, each, per_s, share, sudden=sudden)
                for each in (without, rules)
            )
            runs.append((before, now))
        told = [now.told_min for _, now in runs]
        worst = max(NEVER if one is None else one for one in told)
        late += per_s >= 2 and worst > PROMISED_MIN
        before_text = minutes(before.page_min for before, _ in runs)
        now_text = minutes(now.page_min for _, now in runs)
        kind = "taken" if sudden else "low before"
        say(
            f"| {per_s:g} | {share:.0%} | {kind} | {before_text} | {now_text} | {minutes(told)} | "
            f"{minutes([worst if worst < NEVER else None])} |"
        )
    if late:
        sys.exit(f"{late} kinds of outages were told later than promised")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:3]]
    main(*(given + [500, 10][len(given) :]))
