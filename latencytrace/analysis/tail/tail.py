"""The tail of a cohort: what its slowest requests spend their time on, and why."""

from dataclasses import replace

import numpy as np

from latencytrace.analysis.tail.cause import Explanation, explanation
from latencytrace.analysis.tail.excess import stage_excess
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
from latencytrace.model.cohorts.request_columns import Durations, RequestColumns
from latencytrace.model.cohorts.tail import Tail

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
    # Those that stand for many say less than as many that stand for themselves.
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
        selection: Bounds of those that were selected.
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
