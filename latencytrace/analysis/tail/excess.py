"""The stages that the tail spends its extra time in, with bootstrap intervals."""

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.tail.groups import Groups, Mask
from latencytrace.model.cohorts.request_columns import STAGES
from latencytrace.model.cohorts.tail import StageExcess

RESAMPLES = 1000
LEVEL = 0.95

Sums = NDArray[np.float64]


def stage_excess(groups: Groups) -> tuple[StageExcess, ...]:
    """Compare the means of the tail with those of the reference, stage by stage.

    The intervals come of a block bootstrap: stretches of time are drawn again, not single
    requests, for requests resemble their neighbours.

    Returns:
        The stages that either has, the greatest excess first; the excesses add up to that of
        the durations. Nothing, where one of the two has no request.
    """
    if not groups.tail.any() or not groups.reference.any():
        return ()
    stages_ns = groups.columns.stages_ns
    present = np.flatnonzero(stages_ns.any(axis=0))
    tail, tail_count = _block_sums(groups, groups.tail, present)
    usual, usual_count = _block_sums(groups, groups.reference, present)
    tail_ns = tail.sum(axis=0) / tail_count.sum()
    usual_ns = usual.sum(axis=0) / usual_count.sum()
    drawn = np.random.default_rng(0).multinomial(
        groups.blocks, np.full(groups.blocks, 1 / groups.blocks), RESAMPLES
    )
    drawn = drawn[(drawn @ tail_count > 0) & (drawn @ usual_count > 0)].astype(np.float64)
    # As many are in the tail of each draw as in ours: the threshold moves, past the fastest of it.
    all_count = np.bincount(groups.block, groups.weight, minlength=groups.blocks)
    wanted = drawn @ all_count * (tail_count.sum() / all_count.sum())
    moved = np.outer(wanted - drawn @ tail_count, _at_threshold(groups, present))
    again = (drawn @ tail + moved) / wanted[:, None]
    again -= drawn @ usual / (drawn @ usual_count)[:, None]
    low, high = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return tuple(
        StageExcess(
            stage=STAGES[present[place]],
            tail_mean_ns=float(tail_ns[place]),
            reference_mean_ns=float(usual_ns[place]),
            low_ns=float(low[place]),
            high_ns=float(high[place]),
        )
        for place in np.argsort(usual_ns - tail_ns, kind="stable")
        if tail_ns[place] or usual_ns[place]
    )


def _at_threshold(groups: Groups, stages: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean time in each stage of the fastest requests of the tail."""
    rows = np.flatnonzero(groups.tail)
    fastest = rows[np.argsort(groups.columns.duration_ns[rows])[: max(len(rows) // 5, 5)]]
    weight = weighted.of(fastest, groups.columns.weight)
    return weighted.mean(groups.columns.stages_ns[fastest][:, stages], weight)


def _block_sums(groups: Groups, which: Mask, stages: NDArray[np.int64]) -> tuple[Sums, Sums]:
    """The time in each stage, and the requests, of each block."""
    block, weight = groups.block[which], weighted.of(which, groups.columns.weight)
    lengths_ns = groups.columns.stages_ns[which].astype(np.float64)  # 64 bits hold no such sum
    if weight is not None:
        lengths_ns *= weight[:, None]
    sums = [np.bincount(block, lengths_ns[:, stage], minlength=groups.blocks) for stage in stages]
    counts = np.bincount(block, weight, minlength=groups.blocks).astype(np.float64)
    return np.column_stack(sums), counts
