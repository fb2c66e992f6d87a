"""The requests around a quantile: those that a picture of it is made of.

Quantiles of stages do not add up to a quantile of the duration. The mean request around that
quantile has stages that do.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import DurationBand

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


def around(durations_ns: NDArray[np.int64], quantile: float) -> Around | None:
    """Find the requests around a quantile of the duration; None: there are too few.

    They are 2 % of all by rank, half of them on each side where there are as many, and at
    least 10; of equal durations all belong to them.

    Args:
        durations_ns: Of all requests, in any order.
        quantile: From 0 to 1.
    """
    count = len(durations_ns)
    if count < LEAST:
        return None
    wanted = max(round(WIDTH * count), LEAST_AROUND)
    first = min(max(round(quantile * count - wanted / 2), 0), count - wanted)
    low, high = np.partition(durations_ns, (first, first + wanted - 1))[
        [first, first + wanted - 1]
    ].tolist()
    requests = int(np.count_nonzero((durations_ns >= low) & (durations_ns <= high)))
    band = DurationBand(
        at_least_ns=low, at_most_ns=high, share_ratio=min(1.0, MOST_READ / requests)
    )
    return Around(quantile=quantile, requests=requests, band=band)
