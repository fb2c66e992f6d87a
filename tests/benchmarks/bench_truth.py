"""The share of a request's time in a wrong stage, whatever runs beside it.

    python tests/benchmarks/bench_truth.py [--requests N]

On the simulated system, whose truth is known (`tests/support/simulation`).
"""

import argparse
import sys

from latencytrace.analysis.ledger.requests import requests_of
from tests.support.simulation.simulator import Aside, simulate
from tests.support.simulation.ways import WAYS, wrong_ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    requests = parser.parse_args().requests
    sys.stdout.write(f"{'':72}    p50    p95\n")
    for way, aside in {"nothing beside it": Aside(), **WAYS}.items():
        served = simulate(1, requests, {}, aside)
        wrong = wrong_ratios((one, dict(requests_of(one.spans, {})[0].ledger)) for one in served)
        p50, p95 = (wrong[len(wrong) * share // 100] for share in (50, 95))
        sys.stdout.write(f"{way:72} {p50:6.1%} {p95:6.1%}\n")


if __name__ == "__main__":
    main()
