"""A cohort's latency against its load: rates and durations by how many requests are under way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.capacity.growth import Growth, growth
from latencytrace.analysis.capacity.levels import Knee, Levels, knee
from latencytrace.analysis.capacity.limits import Limit, are_good, holding
from latencytrace.analysis.capacity.occupancy import Occupancy
from latencytrace.model.cohorts.request_columns import RequestColumns, RequestTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Replicas for a rate of requests; the interval is that of the knee's rate, 95 %."""

    requests_per_second: float
    instances: float  # that served the cohort, on average over its time
    each_per_second: float  # answered by one of them at the knee
    count: int
    low: int
    high: int


def replicas(knee: Knee, columns: RequestColumns, rate_per_s: float) -> Replicas:
    """Return how many replicas a rate needs if each answers as much as an instance at the knee.

    Args:
        knee: Knee of the cohort, whichever instances served it.
        columns: Requests of the cohort, or a share, in order of start; at least one.
        rate_per_s: The rate that is asked for.
    """
    instances = instances_at_once(columns)

    def needed(answered_per_s: float) -> int:
        return max(1, math.ceil(rate_per_s * instances / answered_per_s))

    return Replicas(
        requests_per_second=rate_per_s,
        instances=instances,
        each_per_second=knee.served_per_second / instances,
        count=needed(knee.served_per_second),
        low=needed(knee.high_per_second),
        high=needed(knee.low_per_second),
    )


def instances_at_once(columns: RequestColumns) -> float:
    """Return how many instances served at once, on average; 1 if requests name none.

    An instance counts from its first request to its last, so that pods which replaced each
    other are not counted together.
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


LEAST_REQUESTS: Final = 500
LEAST_ROWS: Final = 20  # of a level; with fewer no quantile is shown
LEAST_TIME: Final = 0.01  # share of the time that a level must last for its goodput to count
LEVELS: Final = (0.5, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLatency:
    """Rates and durations while a number of requests is under way."""

    concurrency: int  # lowest number of requests under way
    concurrency_to: int  # highest
    time_share_ratio: float  # of the time that was counted
    served: int  # answers that ended meanwhile
    served_per_second: float
    good_per_second: float | None  # of those, within all limits
    p50_ns: float | None  # of requests that came meanwhile; None: too few were read
    p95_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Requests a second that meet all limits."""

    limits: tuple[Limit, ...]
    good_ratio: float  # of all requests
    per_second: float
    best_per_second: float | None  # at the best level; None: no level lasted long enough
    best_concurrency: int | None  # the lowest of that level


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Latency against load."""

    requests: int
    recorded_requests: int | None  # None: all of them
    read_requests: int  # of which stages are known
    needed_requests: int | None  # None: there are enough
    counted_ns: int  # of the time
    requests_per_second: float | None
    concurrency: float | None  # the mean
    max_concurrency: int | None  # None: a share of all was recorded
    levels: tuple[LevelLatency, ...]
    knee: Knee | None
    goodput: Goodput | None  # None: there is no limit
    growth: Growth | None
    replicas: Replicas | None = None  # None: no knee is proven


def capacity(
    times: RequestTimes,
    columns: RequestColumns,
    limits: Sequence[Limit] = (),
    rate_per_s: float | None = None,
) -> Capacity:
    """Find the load that a cohort's service keeps up with.

    Args:
        times: Times of all requests.
        columns: Columns of any share of them.
        limits: Latency limits that the service has to meet.
        rate_per_s: Rate to serve; None: the rate that came.
    """
    requests = weighted.number(len(times), times.weight)
    effective = weighted.effective(len(times), times.weight)
    if effective < LEAST_REQUESTS:
        needed = math.ceil(LEAST_REQUESTS * requests / effective) if requests else LEAST_REQUESTS
        return _too_few(requests, len(times), len(columns), needed)
    found = Occupancy.of(times)
    levels = Levels.of(found)
    inside = np.flatnonzero(_is_inside(found.block(columns.start_ns), found))
    columns = columns.taken(inside)
    came = found.coming(columns.start_ns, columns.weight)
    limits = holding(limits, columns)
    good = are_good(limits, columns) if limits else None
    good_ratios = None if good is None else _good_ratios(levels, found, columns, good)
    good_ratio = None
    if good is not None and len(good):
        good_ratio = float(weighted.mean(good, columns.weight))
    bend = knee(levels)
    length_s = found.length_ns / 1e9
    counted = _is_inside(found.block(times.start_ns), found)
    started = weighted.number(int(np.count_nonzero(counted)), weighted.of(counted, times.weight))
    wanted_per_s = started / length_s if rate_per_s is None else rate_per_s
    return Capacity(
        requests=requests,
        recorded_requests=weighted.recorded(len(times), requests),
        read_requests=len(columns),
        needed_requests=None,
        counted_ns=found.length_ns,
        requests_per_second=started / length_s,
        concurrency=float(levels.crowd_s.sum() / length_s),
        max_concurrency=levels.most if times.weight is None else None,
        levels=_latencies(levels, columns, levels.level(came), good_ratios, length_s),
        knee=bend,
        goodput=_goodput(levels, limits, good_ratio, good_ratios, started / length_s),
        growth=growth(columns, came, levels, bend),
        replicas=replicas(bend, columns, wanted_per_s) if bend and len(columns) else None,
    )


def _too_few(requests: int, recorded: int, read: int, needed: int) -> Capacity:
    return Capacity(
        requests=requests,
        recorded_requests=weighted.recorded(recorded, requests),
        read_requests=read,
        needed_requests=needed,
        counted_ns=0,
        requests_per_second=None,
        concurrency=None,
        max_concurrency=None,
        levels=(),
        knee=None,
        goodput=None,
        growth=None,
    )


def _is_inside(block: NDArray[np.int64], found: Occupancy) -> NDArray[np.bool_]:
    return (block >= 0) & (block < len(found.edges_ns) - 1)


def _good_ratios(
    levels: Levels, found: Occupancy, columns: RequestColumns, good: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(m,): the share of the answers that ended at a level that are good; NaN: none was read."""
    level = levels.level(found.leaving(columns.start_ns + columns.duration_ns))
    served = are_good((), columns)
    of_good, answers = (
        np.bincount(level[one], weighted.of(one, columns.weight), minlength=len(levels))
        for one in (good, served)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(of_good / answers)


def _latencies(
    levels: Levels,
    columns: RequestColumns,
    level: NDArray[np.int64],
    good_ratios: NDArray[np.float64] | None,
    length_s: float,
) -> tuple[LevelLatency, ...]:
    found = []
    for place in range(len(levels)):
        taken_ns = columns.duration_ns[level == place]
        weight = weighted.of(level == place, columns.weight)
        p50_ns, p95_ns = None, None
        if weighted.effective(len(taken_ns), weight) >= LEAST_ROWS:
            p50_ns, p95_ns = weighted.quantiles(taken_ns, LEVELS, weight).tolist()
        rate = float(levels.rate_per_s[place])
        ratio = None if good_ratios is None else float(good_ratios[place])
        found.append(
            LevelLatency(
                concurrency=int(levels.first[place]),
                concurrency_to=int(levels.last[place]),
                time_share_ratio=float(levels.time_s[:, place].sum()) / length_s,
                served=int(levels.served[:, place].sum()),
                served_per_second=rate,
                good_per_second=None if ratio is None or np.isnan(ratio) else rate * ratio,
                p50_ns=p50_ns,
                p95_ns=p95_ns,
            )
        )
    return tuple(found)


def _goodput(
    levels: Levels,
    limits: tuple[Limit, ...],
    good_ratio: float | None,
    good_ratios: NDArray[np.float64] | None,
    requests_per_s: float,
) -> Goodput | None:
    if good_ratio is None or good_ratios is None:
        return None
    rates = np.nan_to_num(levels.rate_per_s * good_ratios)
    held = levels.time_s.sum(axis=0) >= LEAST_TIME * levels.time_s.sum()
    # By the lower bound of its rate: among levels with few answers, chance makes one the best.
    came = levels.served.sum(axis=0) / levels.mean_weight
    sure = rates * (1 - 2 / np.sqrt(np.maximum(came, 4.0)))
    best = int(np.argmax(np.where(held, sure, -1.0))) if held.any() else None
    return Goodput(
        limits=limits,
        good_ratio=good_ratio,
        per_second=good_ratio * requests_per_s,
        best_per_second=None if best is None else float(rates[best]),
        best_concurrency=None if best is None else int(levels.first[best]),
    )
