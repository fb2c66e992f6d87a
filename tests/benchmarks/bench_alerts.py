"""How right the pages are: recall, strict precision and delay in simulated months.

Each seed is 64 days of requests with 30 incidents, of which those are significant that take at
least 2 % of a month's budget; strict precision counts a page on any other as wrong. The known
two-tier rules (14.4 and 6) reach .73 and .87 with a median of 16 minutes.

    python tests/benchmarks/bench_alerts.py [FIRST_SEED] [SEEDS] [REQUESTS_PER_SECOND]
"""

import sys
from statistics import quantiles

from tests.support.builders.made_objectives import made_objective
from tests.support.simulation.incidents import pages, score, simulated

RECALL, PRECISION = 0.73, 0.87


def say(line: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(first: int = 1000, seeds: int = 12, per_s: float = 2.0) -> None:
    """Simulate, and say how it went."""
    objective = made_objective()
    scores = []
    for seed in range(first, first + seeds):
        run = simulated(seed, 64, per_s, objective)
        scores.append(score(run, pages(run, objective)))
        say(f"seed {seed}: {scores[-1].found} of {scores[-1].significant} incidents paged")
    whole = scores[0]
    for one in scores[1:]:
        whole += one
    tenths = quantiles(whole.detection_min, n=10)
    say(f"recall {whole.recall:.2f} (at least {RECALL})")
    say(f"strict precision {whole.precision:.2f} (at least {PRECISION}), {whole.pages} pages")
    say(f"minutes to the page: median {tenths[4]:.0f}, nine of ten within {tenths[8]:.0f}")
    if whole.recall < RECALL or whole.precision < PRECISION:
        sys.exit("worse than promised")


if __name__ == "__main__":
    first, seeds = (int(argument) for argument in [*sys.argv[1:3], "1000", "12"][:2])
    main(first, seeds, float(sys.argv[3]) if len(sys.argv) > 3 else 2.0)
