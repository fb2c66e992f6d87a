"""How near `capacity` comes to the knee of queues whose servers are known.

    python -m tests.benchmarks.bench_capacity [--runs 50] [--requests 10000]

Requests come in five steps, from 0.3 to 1.1 of what the servers can do, or in three, from 0.5 to
0.9; times of service are exponential.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from latencytrace.analysis.capacity.capacity import Capacity, capacity
from latencytrace.model import Stage
from tests.support.simulation.queues import Station, arrivals, served, times_of

DECODE = Station(stage=Stage.DECODE, servers=1, mean_ms=100)
SEARCH = Station(stage=Stage.RETRIEVE, servers=4, mean_ms=40, waits_as=Stage.RETRIEVE)
FULL, ORDINARY = (0.3, 0.6, 0.8, 0.95, 1.1), (0.5, 0.7, 0.9)
SERVERS = (1, 2, 4, 8, 16, 32, 64)


def answers(
    asked: argparse.Namespace, stations: Sequence[Station], loads: Sequence[float]
) -> Iterator[Capacity]:
    """The answers to some runs of a system, each drawn anew."""
    most_per_s = min(station.most_per_s for station in stations)
    seconds = asked.requests / len(loads) / most_per_s
    for seed in range(asked.first_seed, asked.first_seed + asked.runs):
        random = np.random.default_rng(seed)
        rates = [(load * most_per_s, seconds / load) for load in loads]
        columns = served(random, arrivals(random, rates), stations)
        yield capacity(times_of(columns), columns)


def row(asked: argparse.Namespace, servers: int, loads: Sequence[float]) -> str:
    """How often the knee was found, and how near it was."""
    station = replace(DECODE, servers=servers)
    found = [one.knee for one in answers(asked, [station], loads)]
    knees = [one for one in found if one is not None]
    held = sum(one.low <= servers <= one.high for one in knees)
    off = sorted(abs(one.concurrency / servers - 1) for one in knees)
    rates = sorted(abs(one.served_per_second / station.most_per_s - 1) for one in knees)
    text = f"M/M/{servers:<3} {loads[0]} to {loads[-1]}: knee in {len(knees)} of {len(found)}"
    if not knees:
        return text
    middle, far = len(knees) // 2, int(0.95 * (len(knees) - 1))
    return (
        f"{text}, its interval holds {servers} in {held}; off by {off[middle]:.1%}, p95 "
        f"{off[far]:.1%}; rate off by {rates[middle]:.1%}, p95 {rates[far]:.1%}"
    )


def main() -> None:
    """Print a line for each system."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--first-seed", type=int, default=900_000)
    asked = parser.parse_args()
    for loads in (FULL, ORDINARY):
        for servers in SERVERS:
            print(row(asked, servers, loads))
    idle = replace(DECODE, servers=100_000)
    none = answers(asked, [idle], (0.0001, 0.0002, 0.0003))
    print(f"nobody waits: knee in {sum(one.knee is not None for one in none)} of {asked.runs}")
    first = Counter(
        one.growth.first_stage if one.growth else None
        for one in answers(asked, [SEARCH, replace(DECODE, servers=16)], FULL)
    )
    print(f"search fills up before decode; first to grow: {dict(first)}")


if __name__ == "__main__":
    main()
