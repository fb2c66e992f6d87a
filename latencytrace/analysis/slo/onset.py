"""The moment since which requests have been bad, from their counts in slots."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

_ENOUGH = 6  # requests that would be bad in a stretch that is well
_HALF = 0.5  # of the share that fires: below, a stretch of requests was well


def burning_since(
    bad: NDArray[np.int64], total: NDArray[np.int64], least_ratio: float, calm_slots: int
) -> int | None:
    """Find where the burn that goes on now began: after the last stretch that was well.

    An incident before that stretch is another one, though a long window may hold both.

    Args:
        bad: Bad requests of each slot, the newest last.
        total: All requests of each.
        least_ratio: The share of bad requests that fires.
        calm_slots: How long a stretch is well before it parts two incidents, at least: of few
            requests it is longer, for chance has none of a few be bad.

    Returns:
        The place of the first slot; None: no request was bad.
    """
    well_ratio = _HALF * least_ratio
    a_slot = max(total.sum() / max(len(total), 1), 1 / max(len(total), 1))
    calm_slots = max(calm_slots, min(ceil(_ENOUGH / (least_ratio * a_slot)), len(total) // 4))
    requests, faults = rolling(total, calm_slots), rolling(bad, calm_slots)
    well = np.flatnonzero((requests > 0) & (faults <= well_ratio * requests))
    first = int(well[-1]) + 1 if len(well) else 0
    # The end of that stretch may hold the first slots of the burn.
    while first > 0 and bad[first - 1] > well_ratio * total[first - 1]:
        first -= 1
    burning = np.flatnonzero(bad[first:])
    return first + int(burning[0]) if len(burning) else None


def rolling(counts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Sum each slot with those before it, so many in all."""
    sums = np.concatenate(([0], np.cumsum(counts)))
    starts = np.maximum(np.arange(1, len(sums)) - length, 0)
    return np.asarray(sums[1:] - sums[starts], np.int64)
