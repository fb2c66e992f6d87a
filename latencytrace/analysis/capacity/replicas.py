"""How many replicas a rate asks for, each at its knee."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from latencytrace.analysis.capacity.levels import Knee
from latencytrace.model.cohorts.request_columns import RequestColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Replicas for a rate of requests; the interval is that of the knee's rate, 95 %."""

    rate_per_s: float
    instances: float  # that served the cohort, on average over its time
    each_per_s: float  # answered by one of them at the knee
    count: int
    low: int
    high: int


def replicas(knee: Knee, columns: RequestColumns, rate_per_s: float) -> Replicas:
    """Divide a rate by what one instance answers at the knee.

    Args:
        knee: Of the cohort, whichever instances served it.
        columns: Its requests, or a share of them, in order of start; at least one.
        rate_per_s: The rate that is asked for.
    """
    instances = instances_at_once(columns)

    def needed(answered_per_s: float) -> int:
        return max(1, math.ceil(rate_per_s * instances / answered_per_s))

    return Replicas(
        rate_per_s=rate_per_s,
        instances=instances,
        each_per_s=knee.rate_per_s / instances,
        count=needed(knee.rate_per_s),
        low=needed(knee.high_per_s),
        high=needed(knee.low_per_s),
    )


def instances_at_once(columns: RequestColumns) -> float:
    """How many instances served at once, on average; where none is named, one.

    Each counts from its first request to its last: of pods that replaced each other
    one was there at a time.
    """
    order = np.argsort(columns.instance.number, kind="stable")  # which keeps the order of start
    starts_ns, number = columns.start_ns[order], columns.instance.number[order]
    cuts = np.flatnonzero(np.diff(number, prepend=-2)).tolist()
    spans_ns = [
        int(starts_ns[beyond - 1] - starts_ns[first])
        for first, beyond in pairwise([*cuts, len(number)])
    ]
    whole_ns = int(columns.start_ns[-1] - columns.start_ns[0])
    return max(1.0, sum(spans_ns) / whole_ns) if whole_ns else 1.0
