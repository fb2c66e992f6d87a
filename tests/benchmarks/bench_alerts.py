"""How right the pages are: recall, strict precision and delay in simulated months.

Each seed is 64 days of requests with 30 incidents, of which those are significant that take at
least 2 % of a month's budget; strict precision counts a page on any other as wrong. The known
two-tier rules (14.4 and 6) reach .73 and .87 with a median of 16 minutes at 2 requests a second.
Each rate is simulated with the outages' tier and without: it must not make a page more wrong.

    python tests/benchmarks/bench_alerts.py [FIRST_SEED] [SEEDS] [REQUESTS_PER_SECOND...]
"""

import sys
from collections.abc import Sequence
from statistics import quantiles

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import BurnRule
from tests.support.builders.made_objectives import made_objective
from tests.support.simulation.incidents import Score, pages, score, simulated

RECALL, PRECISION = 0.73, 0.87  # of the known rules
DAYS = 64
RATES = (20.0, 2.0, 0.2, 0.02)


def say(line: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def scored(seeds: Sequence[int], per_s: float, rules: Sequence[BurnRule]) -> Score:
    """Add up what the pages of these tiers are worth."""
    objective = made_objective()
    runs = (simulated(seed, DAYS, per_s, objective) for seed in seeds)
    first, *others = (score(run, pages(run, objective, rules)) for run in runs)
    return sum(others, first)


def row(per_s: float, tiers: str, found: Score, seeds: int) -> str:
    """A line of the table."""
    tenths = quantiles(found.detection_min, n=10)
    wrong = found.pages - found.right
    return (
        f"| {per_s:g} | {tiers} | {found.recall:.3f} | {found.precision:.3f} | "
        f"{wrong} ({wrong / (seeds * DAYS / 30):.2f} a month) | {tenths[4]:.0f} min | "
        f"{tenths[8]:.0f} min |"
    )


def main(first: int, count: int, rates: Sequence[float]) -> None:
    """Simulate, and say how it went."""
    rules = burn_rules(made_objective())
    seeds = range(first, first + count)
    worse = []
    say("| requests/s | tiers | recall | precision | wrong pages | median | nine of ten |")
    for per_s in rates:
        before = scored(seeds, per_s, [rule for rule in rules if rule.least_ratio])
        now = scored(seeds, per_s, rules)
        say(row(per_s, "without the outages'", before, count))
        say(row(per_s, "all", now, count))
        wrong = now.pages - now.right > before.pages - before.right
        least = min(before.recall, RECALL), min(before.precision, PRECISION)
        if wrong or now.recall < least[0] or now.precision < least[1]:
            worse.append(per_s)
    if worse:
        sys.exit(f"worse than promised at {worse} requests a second")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:3]]
    start, many = given + [1000, 12][len(given) :]
    main(start, many, [float(argument) for argument in sys.argv[3:]] or RATES)
