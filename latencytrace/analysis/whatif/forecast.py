"""A cohort's quantiles if a stage were faster, from a sample of replayed requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.compare.matching import matching
from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import STAGES, Durations, RequestColumns

Floats = NDArray[np.float64]

LEVELS: Final = (0.5, 0.95, 0.99)
TESTED: Final = (0.5, 0.95)  # of the back-test: the halves have too few beyond the others
LEAST_TESTED: Final = 100  # requests of each half


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One request of a sample: how long it took, and would have taken."""

    duration_ns: int
    replayed_ns: float
    weight: float  # how many requests of the cohort it stands for


def forecast(durations: Durations, sample: Sequence[Replayed]) -> list[float]:
    """The quantiles at `LEVELS` as they would be.

    What the sample loses of its own quantile is taken off the cohort's: that so few are
    replayed makes both of the sample's wrong alike.

    Args:
        durations: Of the whole cohort.
        sample: Forecast durations (n,), n > 0.
    """
    weight = np.array([one.weight for one in sample])
    now = np.array([one.duration_ns for one in sample], np.float64)
    then = np.array([one.replayed_ns for one in sample])
    exact = quantiles(durations)
    return [
        float(whole * _quantile(then, weight, level) / max(_quantile(now, weight, level), 1.0))
        for whole, level in zip(exact, LEVELS, strict=True)
    ]


def quantiles(durations: Durations) -> list[float]:
    """The quantiles at `LEVELS` as they are."""
    return weighted.quantiles(durations.ns, LEVELS, durations.weight).tolist()  # type: ignore[no-any-return] # of numbers


def back_test(columns: RequestColumns, stage: Stage, gained_ratio: float) -> float | None:
    """How far a forecast of this kind is from what really happened, as a ratio.

    The stage was fast in some requests and slow in others. Of those in which it was slow we
    forecast what they would have taken had it been as fast as in the others, each at its own
    rank, and hold that against what the others took, at equal tokens, concurrency, routes and
    models.

    Args:
        stage: The stage that becomes faster.
        gained_ratio: How much of the stage's lost time a request gains, as replays found.

    Returns:
        The largest difference at `TESTED`; None: too few requests have the stage, or it took
        the same time in all.
    """
    stage_ns = columns.stages_ns[:, STAGES.index(stage)]
    having = np.flatnonzero(stage_ns > 0)
    if len(having) < 2 * LEAST_TESTED:
        return None
    middle = weighted.quantiles(stage_ns[having], 0.5, weighted.of(having, columns.weight))
    halves = having[stage_ns[having] <= middle], having[stage_ns[having] > middle]
    fast, slow = (columns.taken(half) for half in halves)
    sizes = [weighted.effective(len(half), half.weight) for half in (fast, slow)]
    if min(sizes) < LEAST_TESTED:
        return None
    found = matching(fast, slow)
    if found.unmatched is not None:
        return None
    fast_ns, slow_ns = stage_ns[halves[0]], stage_ns[halves[1]]
    would_be_ns = _at_own_rank(slow_ns, found.b, fast_ns, found.a)
    forecast_ns = slow.duration_ns - gained_ratio * (slow_ns - would_be_ns)
    errors = []
    for level in TESTED:
        truth = _quantile(fast.duration_ns.astype(np.float64), found.a, level)
        errors.append(abs(_quantile(forecast_ns, found.b, level) - truth) / max(truth, 1.0))
    return max(errors)


def _at_own_rank(
    values: NDArray[np.int64], weight: Floats, others: NDArray[np.int64], other_weight: Floats
) -> Floats:
    """For each value, that of the others which has the same rank among them."""
    order = np.argsort(values, kind="stable")
    until = np.cumsum(weight[order])
    ranks = np.empty(len(values))
    ranks[order] = (until - weight[order] / 2) / until[-1]
    return _quantile_function(others.astype(np.float64), other_weight, ranks)


def _quantile(values: Floats, weight: Floats, level: float) -> float:
    return float(_quantile_function(values, weight, np.array([level]))[0])


def _quantile_function(values: Floats, weight: Floats, levels: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0]
    until = np.cumsum(weight[order])
    return np.asarray(np.interp(levels, (until - weight[order] / 2) / until[-1], values[order]))
