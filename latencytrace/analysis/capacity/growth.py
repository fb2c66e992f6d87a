"""The stages that take longer while more requests are under way, and the first one to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.capacity.levels import Knee, Levels
from latencytrace.analysis.capacity.occupancy import BLOCKS, Floats
from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import STAGES, RequestColumns

LEAST_ROWS: Final = 50  # of each group; with fewer there is no answer
LEAST_GROWTH: Final = 0.25  # share of the usual duration by which a level must be slower
CALM: Final = 0.25  # quantile of concurrency up to which requests count as calm without a knee
CROWDED: Final = 0.75  # and from which they count as crowded
RESAMPLES: Final = 1000
_TOLD: Final = (0.025, 0.975)  # a 95 % interval
_SEED: Final = 20_240_601


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGrowth:
    """One stage's mean critical-path time with few and with many requests under way."""

    stage: Stage
    calm_mean_ns: float
    crowded_mean_ns: float
    low_ns: float  # 95 % interval of the growth
    high_ns: float

    @property
    def growth_ns(self) -> float:
        """How much longer it takes with many."""
        return self.crowded_mean_ns - self.calm_mean_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How much longer a request takes while many are under way; its stages add up to the total."""

    calm_to: int  # requests under way, at most
    crowded_from: int
    stages: tuple[StageGrowth, ...]  # the greatest growth first
    first_stage: Stage | None  # None: no level is slower by `LEAST_GROWTH`
    first_concurrency: int | None  # the concurrency of that level


def growth(
    columns: RequestColumns, under_way: NDArray[np.int64], levels: Levels, found: Knee | None
) -> Growth | None:
    """Compare requests that ran beside few others with those that ran beside many.

    Args:
        columns: Some requests of a cohort.
        under_way: (n,): how many there were when each came, itself included.
        found: The knee; None: there is none.

    Returns:
        None: too few requests, or always as many at once.
    """
    if len(columns) < 2 * LEAST_ROWS:
        return None
    weight = columns.weight
    last = weighted.number(len(columns), weight) - 1
    ranks = math.floor(CALM * last), math.ceil(CROWDED * last)
    calm_to, crowded_from = weighted.at_ranks(under_way, ranks, weight)

    def are_enough(which: NDArray[np.bool_]) -> bool:
        return weighted.effective(int(which.sum()), weighted.of(which, weight)) >= LEAST_ROWS

    if found is not None:
        half = max(int(found.concurrency) // 2, 1)
        calm_to = half if are_enough(under_way <= half) else calm_to
        past = int(levels.last[found.level]) + 1
        crowded_from = past if are_enough(under_way >= past) else crowded_from
    calm, crowded = under_way <= calm_to, under_way >= crowded_from
    are_apart = crowded_from > max(calm_to, levels.known_from)
    if not are_apart or not (are_enough(calm) and are_enough(crowded)):
        return None
    block = np.arange(len(columns)) * BLOCKS // len(columns)
    mean_ns, again = _means(columns, calm, block)
    others_ns, others = _means(columns, crowded, block)
    low_ns, high_ns = np.nanquantile(others - again, _TOLD, axis=0)
    stages = [
        StageGrowth(
            stage=STAGES[place],
            calm_mean_ns=float(mean_ns[place]),
            crowded_mean_ns=float(others_ns[place]),
            low_ns=float(low_ns[place]),
            high_ns=float(high_ns[place]),
        )
        for place in np.argsort(mean_ns - others_ns, kind="stable").tolist()
        if mean_ns[place] or others_ns[place]
    ]
    first, first_from = _first(columns, under_way, levels, mean_ns, calm_to)
    return Growth(
        calm_to=calm_to,
        crowded_from=crowded_from,
        stages=tuple(stages),
        first_stage=first,
        first_concurrency=first_from,
    )


def _means(
    columns: RequestColumns, which: NDArray[np.bool_], block: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The mean time in each stage, and the means of bootstrap samples of blocks of requests."""
    lengths_ns = columns.stages_ns[which]
    weight = weighted.of(which, columns.weight)
    each_ns = lengths_ns.astype(np.float64)  # 64 bits do not hold every sum
    if weight is not None:
        each_ns *= weight[:, None]
    sums = np.column_stack(
        [np.bincount(block[which], each, minlength=BLOCKS) for each in each_ns.T]
    )
    counts = np.bincount(block[which], weight, minlength=BLOCKS).astype(np.float64)
    drawn = np.random.default_rng(_SEED).multinomial(
        BLOCKS, np.full(BLOCKS, 1 / BLOCKS), RESAMPLES
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        again: Floats = (drawn @ sums) / (drawn @ counts)[:, None]
    return weighted.mean(lengths_ns, weight), again


def _first(
    columns: RequestColumns,
    under_way: NDArray[np.int64],
    levels: Levels,
    usual_ns: Floats,
    calm_to: int,
) -> tuple[Stage | None, int | None]:
    """The stage that has grown most at the first level that is slower, and that level."""
    level = levels.level(under_way)
    least_ns = LEAST_GROWTH * usual_ns.sum()
    for place, first in _levels_above(levels, calm_to):
        lengths_ns = columns.stages_ns[level == place]
        weight = weighted.of(level == place, columns.weight)
        rows = weighted.effective(len(lengths_ns), weight)
        if rows < LEAST_ROWS:
            continue
        grown_ns = weighted.mean(lengths_ns, weight) - usual_ns
        error_ns = lengths_ns.sum(axis=1).std() / np.sqrt(rows)
        if grown_ns.sum() - 2 * error_ns >= least_ns:
            return STAGES[int(np.argmax(grown_ns))], first
    return None, None


def _levels_above(levels: Levels, calm_to: int) -> Sequence[tuple[int, int]]:
    return [(place, first) for place, first in enumerate(levels.first.tolist()) if first > calm_to]
