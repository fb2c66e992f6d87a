"""The tail of a cohort: what its slowest requests spend their time on, and why."""

import numpy as np

from latencytrace.analysis.tail.cause import Explanation, explanation
from latencytrace.analysis.tail.excess import stage_excess
from latencytrace.analysis.tail.groups import Groups, Mask, Split, needed_requests
from latencytrace.analysis.tail.traits import traits
from latencytrace.model.cohorts.request_columns import RequestColumns
from latencytrace.model.cohorts.tail import Tail

EXAMPLES = 3
MOST_ATTRIBUTES = 12


def no_tail(quantile: float) -> Tail:
    """Return the tail of a cohort without requests."""
    return Tail(
        requests=0,
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
    groups = Groups.of(columns, split)
    requests, needed = sum(split.counts), needed_requests(quantile)
    enough = requests >= needed
    stages = stage_excess(groups)
    found = traits(groups) if enough and stages else ()
    explained = explanation(groups, stages, found) if enough else None
    return Tail(
        requests=requests,
        quantile=quantile,
        needed_requests=None if enough else needed,
        threshold_ns=split.threshold_ns,
        tail_requests=split.counts[3],
        reference_requests=split.counts[1],
        stages=stages,
        attributes=tuple(one.apart for one in found[:MOST_ATTRIBUTES]),
        cause=explained.cause if explained else None,
        examples=tuple(map(columns.trace_id_of, _typical(groups, _shown(groups, explained)))),
    )


def _shown(groups: Groups, explained: Explanation | None) -> Mask:
    """The requests of the tail that show its cause."""
    shown = groups.tail & explained.rows if explained else groups.tail
    return shown if shown.any() else groups.tail


def _typical(groups: Groups, which: Mask) -> list[int]:
    """The few rows whose durations are nearest to their median, the slowest first."""
    rows = np.flatnonzero(which)
    duration_ns = groups.columns.duration_ns[rows]
    distance = np.abs(duration_ns - np.median(duration_ns))
    nearest = rows[np.argsort(distance, kind="stable")[:EXAMPLES]]
    return sorted(nearest.tolist(), key=lambda row: -groups.columns.duration_ns[row])
