"""The tail of a cohort: what its slowest requests spend their time on, and why."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.tail.cause import Explanation, explanation
from latencytrace.analysis.tail.groups import (
    LEAST_TAIL,
    TAIL,
    USUAL,
    Groups,
    Mask,
    Selection,
    Split,
    needed_requests,
)
from latencytrace.analysis.tail.traits import traits
from latencytrace.model.cohorts.breakdown import StageExcess, Tail
from latencytrace.model.cohorts.request_columns import STAGES, Durations, RequestColumns

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


EXAMPLES = 3
MOST_ATTRIBUTES = 12


def no_tail(quantile: float) -> Tail:
    """Return the tail of a cohort without requests."""
    return Tail(
        requests=0,
        recorded_requests=0,
        quantile=quantile,
        needed_requests=needed_requests(quantile),
        threshold_ns=None,
        tail_requests=0,
        reference_requests=0,
        stages=(),
        attributes=(),
        cause=None,
        examples=(),
    )


def tail_of(columns: RequestColumns, split: Split, quantile: float) -> Tail:
    """Compare the tail of a cohort with the requests around its median.

    Args:
        columns: The requests that `split.bands()` asked for, with their attributes.
        split: The durations of the whole cohort.
        quantile: From which on a request belongs to the tail.
    """
    groups, needed = Groups.of(columns, split), needed_requests(quantile)
    # Requests that stand for many say less than as many that stand for themselves.
    times = max(needed / split.effective, LEAST_TAIL / max(groups.effective_tail, 1.0))
    return _compared(groups, split, quantile, round(times * split.requests) if times > 1 else None)


def tail_of_selection(
    columns: RequestColumns, split: Split, selection: Selection, selected: Durations
) -> Tail:
    """Compare requests that were selected with those around the median of others.

    Args:
        columns: The others that `split.bands()` asked for, and as many as are looked at of those
            that were selected, with their attributes.
        split: The durations of the others, `without_tail`.
        selection: Bounds of the selected requests.
        selected: The durations of all of them.
    """
    groups = Groups.of_selection(columns, split, selection, selected.requests)
    effective = groups.effective_tail
    needed = max(LEAST_TAIL, round(LEAST_TAIL * selected.requests / max(effective, 1.0)))
    requests = split.requests + selected.requests
    found = _compared(
        groups, split, split.requests / requests, None if effective >= LEAST_TAIL else needed
    )
    return replace(
        found,
        requests=requests,
        recorded_requests=split.recorded + len(selected),
        threshold_ns=selection.at_least_ns,
        tail_requests=selected.requests,
    )


def _compared(groups: Groups, split: Split, quantile: float, needed: int | None) -> Tail:
    """Compare the two groups; where requests are missing, name no cause and no interval."""
    enough = needed is None
    stages = stage_excess(groups)
    if not enough:  # a few requests, drawn again, are always much the same
        stages = tuple(replace(one, low_ns=None, high_ns=None) for one in stages)
    found = traits(groups) if enough and stages else ()
    explained = explanation(groups, stages, found) if enough else None
    return Tail(
        requests=split.requests,
        recorded_requests=split.recorded,
        quantile=quantile,
        needed_requests=needed,
        threshold_ns=split.threshold_ns,
        tail_requests=split.counts[TAIL],
        reference_requests=split.counts[USUAL],
        stages=stages,
        attributes=tuple(one.apart for one in found[:MOST_ATTRIBUTES]),
        cause=explained.cause if explained else None,
        examples=tuple(
            map(groups.columns.trace_id_of, _typical(groups, _shown(groups, explained)))
        ),
    )


def _shown(groups: Groups, explained: Explanation | None) -> Mask:
    """The requests of the tail that show its cause."""
    shown = groups.tail & explained.rows if explained else groups.tail
    return shown if shown.any() else groups.tail


def _typical(groups: Groups, which: Mask) -> list[int]:
    """The few rows whose durations are nearest to their median, the slowest first."""
    rows = np.flatnonzero(which)
    if not len(rows):
        return []
    duration_ns = groups.columns.duration_ns[rows]
    distance = np.abs(duration_ns - np.median(duration_ns))
    nearest = rows[np.argsort(distance, kind="stable")[:EXAMPLES]]
    return sorted(nearest.tolist(), key=lambda row: -groups.columns.duration_ns[row])
