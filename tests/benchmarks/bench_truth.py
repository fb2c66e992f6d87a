"""The share of a request's time in a wrong stage, whatever runs beside it.

    python tests/benchmarks/bench_truth.py [--requests N]

On the simulated system, whose truth is known (`tests/simulator.py`, `tests/ways.py`).
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from latencytrace.analysis.requests import requests_of
from tests.simulator import simulate
from tests.ways import WAYS, Way, wrong_ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    requests = parser.parse_args().requests
    sys.stdout.write(f"{'':72}    p50    p95\n")
    for way in (Way(), *WAYS):
        served = simulate(1, requests, {}, way)
        wrong = wrong_ratios((one, dict(requests_of(one.spans, {})[0].ledger)) for one in served)
        p50, p95 = (wrong[len(wrong) * share // 100] for share in (50, 95))
        said = (type(way).__doc__ or "").splitlines()[0]
        sys.stdout.write(f"{said:72.72} {p50:6.1%} {p95:6.1%}\n")


if __name__ == "__main__":
    main()
