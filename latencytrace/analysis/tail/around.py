"""The requests around a quantile, which a picture of it is made of.

Quantiles of stages do not add up to a quantile of the duration. The mean request around that
quantile has stages that do.
"""

from dataclasses import dataclass

import numpy as np

from latencytrace.analysis import weighted
from latencytrace.model.cohorts.request_columns import DurationBand, Durations

WIDTH = 0.02  # of all requests, by rank
LEAST_AROUND = 10  # requests
LEAST = 100  # in all: of fewer those around p90 and p99 would be much the same
MOST_READ = 5_000  # of more a share is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The requests whose durations are about a quantile."""

    quantile: float
    requests: int
    band: DurationBand  # what is read of them


def around(durations: Durations, quantile: float) -> Around | None:
    """Find the requests around a quantile of the duration; None: there are too few.

    They are 2 % of all by rank, half of them on each side where there are as many, and at
    least 10; of equal durations all belong to them.

    Args:
        durations: Durations of all requests.
        quantile: From 0 to 1.
    """
    count, weight = durations.requests, durations.weight
    if weighted.effective(len(durations), weight) < LEAST:
        return None
    wanted = max(round(WIDTH * count), LEAST_AROUND)
    first = min(max(round(quantile * count - wanted / 2), 0), count - wanted)
    low, high = weighted.at_ranks(durations.ns, (first, first + wanted - 1), weight)
    within = (durations.ns >= low) & (durations.ns <= high)
    rows = int(np.count_nonzero(within))
    band = DurationBand(at_least_ns=low, at_most_ns=high, share_ratio=min(1.0, MOST_READ / rows))
    requests = weighted.number(rows, weighted.of(within, weight))
    return Around(quantile=quantile, requests=requests, band=band)
