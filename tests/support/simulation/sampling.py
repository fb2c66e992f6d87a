"""Requests of which senders recorded a share."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import RequestColumns


def sampled(columns: RequestColumns, weight: NDArray[np.int64], seed: int = 1) -> RequestColumns:
    """Those that are recorded where each is with a chance of one over its weight."""
    drawn = np.random.default_rng([seed, 23]).random(len(columns))
    recorded = np.flatnonzero(drawn * weight < 1)
    return replace(columns.taken(recorded, attributes=True), weight=weight[recorded])
