"""Statistics of requests, each of which stands for as many as its weight says.

Senders that record a share of all traces give requests weights. Where none has one (`None`)
the answers are numpy's, to the last digit.

Source: Kish, "Survey Sampling", Wiley 1965 (effective size).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weight = NDArray[np.int64] | NDArray[np.float64] | None


def number(rows: int, weight: Weight) -> int:
    """How many requests rows stand for."""
    return rows if weight is None else round(float(weight.sum()))


def recorded(rows: int, requests: int) -> int | None:
    """How many of some requests were recorded; None: all, each of which counts as one."""
    return None if rows == requests else rows


def effective(rows: int, weight: Weight) -> float:
    """How many requests of equal weight say as much."""
    if weight is None or not rows:
        return float(rows)
    shares = weight / weight.max()
    return float(shares.sum() ** 2 / np.square(shares).sum())


def of(rows: NDArray[np.integer[Any]] | NDArray[np.bool_], weight: Weight) -> Weight:
    return None if weight is None else weight[rows]


def mean(values: NDArray[np.int64] | Floats | NDArray[np.bool_], weight: Weight) -> Floats:
    """The mean over rows of at least one, by column where there are columns."""
    if weight is None:
        return np.asarray(values.mean(axis=0))
    return np.asarray(np.average(values, axis=0, weights=weight))


def quantiles(
    values: NDArray[np.int64] | Floats, levels: float | Sequence[float], weight: Weight
) -> Floats:
    """Quantiles of at least one value; by weight the least one that so many are within."""
    if weight is None:
        return np.asarray(np.quantile(values, levels))
    order = np.argsort(values, kind="stable")
    until = np.cumsum(weight[order])
    places = np.searchsorted(until, np.asarray(levels) * until[-1])
    found = values[order][np.minimum(places, len(values) - 1)]
    return np.asarray(found, np.float64)


def at_ranks(values: NDArray[np.int64], ranks: Sequence[int], weight: Weight) -> list[int]:
    if weight is None:
        found = np.partition(values, sorted(set(ranks)))
        return [int(found[rank]) for rank in ranks]
    order = np.argsort(values, kind="stable")
    places = np.searchsorted(np.cumsum(weight[order]), ranks, side="right")
    return [int(value) for value in values[order[places]]]


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correct p-values for how many tests were made, so that all hold together.

    Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal
    of Statistics, 1979.
    """
    order = np.argsort(p_values, kind="stable")
    stepped = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return corrected
