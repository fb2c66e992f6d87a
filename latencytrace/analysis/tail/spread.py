"""The usual spread of a stage: some requests are the slowest of any, without a cause."""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.tail.groups import Groups

QUARTERS = (0.25, 0.5, 0.75)
_NORMAL = 1.349  # standard deviations between the quartiles of a normal distribution
_LIN_MARGIN = 1.2
_LOG_MARGIN = 1.25
_SKEW = 1.4  # how much wider the upper half of an exponential distribution is than its lower
_LOG_SKEW = 1.1


def is_unusual(lengths_ns: NDArray[np.int64], groups: Groups) -> bool:
    """Say whether a stage's length in the tail is more than the stage's own spread.

    The median of the tail is held against the quartiles of the cohort, in two ways. It lies
    farther out than the tail of an exponential distribution would, in standard deviations, and
    than that of a log-normal one, in their logarithms. Where a quarter of the requests or more
    is slow for the same reason, the lower half of the cohort tells the spread.
    """
    tail = groups.median(lengths_ns, groups.tail)
    low, median, high = _weighted_quantiles(lengths_ns, groups.weight)
    if tail <= high:
        return False
    if high <= 0:  # most requests do not have the stage at all
        return True
    share = float(groups.weight[groups.tail].sum() / groups.weight.sum())
    middle = share / 2  # of the tail, from above
    exponential = (-math.log(middle) - math.log(2)) / (math.log(3) / _NORMAL)
    width = min(high - low, 2 * _SKEW * (median - low)) if low > 0 else high - low
    if (tail - median) * _NORMAL <= _LIN_MARGIN * exponential * width:
        return False
    if low <= 0:
        return True
    normal = NormalDist().inv_cdf(1 - middle)
    log_width = min(math.log(high / low), 2 * _LOG_SKEW * math.log(median / low))
    return math.log(tail / median) * _NORMAL > _LOG_MARGIN * normal * log_width


def _weighted_quantiles(
    values: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[float, float, float]:
    order = np.argsort(values, kind="stable")
    summed = np.cumsum(weight[order])
    places = np.searchsorted(summed, np.array(QUARTERS) * summed[-1])
    low, median, high = values[order][np.minimum(places, len(values) - 1)].tolist()
    return float(low), float(median), float(high)
