"""`GET /capacity`: latency against load, where the knee is and what queues first."""

from collections.abc import Sequence
from typing import Final

from latencytrace.analysis import weighted
from latencytrace.analysis.capacity.capacity import (
    Capacity,
    Goodput,
    LevelLatency,
    Replicas,
    capacity,
)
from latencytrace.analysis.capacity.growth import Growth, StageGrowth
from latencytrace.analysis.capacity.levels import Knee
from latencytrace.analysis.capacity.limits import Limit
from latencytrace.errors import QuestionError
from latencytrace.model.cohorts.request_columns import DurationBand
from latencytrace.model.objective import AVAILABILITY, NO_LIMIT_NS
from latencytrace.service.answers.load.capacity_documents import (
    CapacityDocument,
    GoodputDocument,
    GrowthDocument,
    KneeDocument,
    LevelDocument,
    LimitDocument,
    ReplicasDocument,
    StageGrowthDocument,
)
from latencytrace.service.answers.load.sentence import sentence
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store

MOST_REQUESTS: Final = 2_000_000  # 24 bytes each, while they are sorted
MOST_READ: Final = 50_000  # requests whose stages are read; of more a share


def capacity_of(
    store: Store,
    cohort: Cohort,
    limits: Sequence[Limit],
    now_ns: int,
    rate_per_s: float | None = None,
) -> CapacityDocument:
    """Find what the service of a cohort keeps up with.

    How many are under way is counted over all requests, in whatever detail they were traced. One
    that a wrong clock dates ahead of now would stretch the time that is counted: it is left out.

    Raises:
        QuestionError: There are more than can be counted.
    """
    if cohort.until_ns is None:
        cohort = cohort.model_copy(update={"until_ns": now_ns})
    requests = store.count(cohort)
    if requests > MOST_REQUESTS:
        raise QuestionError(
            f"{requests:,} requests are more than the {MOST_REQUESTS:,} that are counted at once: "
            "take a shorter time, or one instance"
        )
    times = store.times(cohort)
    share = min(1.0, MOST_READ / max(len(times), 1))
    columns = store.cohort_columns(cohort, [DurationBand(share_ratio=share)])
    return capacity_document(capacity(times, columns, limits, rate_per_s))


def capacity_document(found: Capacity) -> CapacityDocument:
    document: CapacityDocument = {
        "requests": found.requests,
        "recorded_requests": weighted.recorded(found.recorded_requests, found.requests),
        "read_requests": found.read_requests,
        "needed_requests": found.needed_requests,
        "counted_ns": found.length_ns,
        "requests_per_second": found.requests_per_s,
        "concurrency": found.concurrency,
        "max_concurrency": found.most,
        "levels": [_level(one) for one in found.levels],
        "knee": None if found.knee is None else _knee(found.knee),
        "goodput": None if found.goodput is None else _goodput(found.goodput, found.levels),
        "growth": None if found.growth is None else _growth(found.growth),
        "replicas": None if found.replicas is None else _replicas(found.replicas),
        "sentence": "",
    }
    document["sentence"] = sentence(document)
    return document


def _level(found: LevelLatency) -> LevelDocument:
    return {
        "concurrency": found.first,
        "concurrency_to": found.last,
        "time_share_ratio": found.time_ratio,
        "served": found.served,
        "served_per_second": found.served_per_s,
        "good_per_second": found.good_per_s,
        "p50_ns": None if found.p50_ns is None else round(found.p50_ns),
        "p95_ns": None if found.p95_ns is None else round(found.p95_ns),
    }


def _knee(found: Knee) -> KneeDocument:
    return {
        "concurrency": found.concurrency,
        "low": found.low,
        "high": found.high,
        "served_per_second": found.rate_per_s,
        "low_per_second": found.low_per_s,
        "high_per_second": found.high_per_s,
    }


def _replicas(found: Replicas) -> ReplicasDocument:
    return {
        "requests_per_second": found.rate_per_s,
        "count": found.count,
        "low": found.low,
        "high": found.high,
        "each_per_second": found.each_per_s,
        "instances": found.instances,
    }


def _goodput(found: Goodput, levels: Sequence[LevelLatency]) -> GoodputDocument:
    best = None if found.best_level is None else levels[found.best_level]
    return {
        "limits": [_limit(one) for one in found.limits],
        "good_ratio": found.good_ratio,
        "per_second": found.per_s,
        "best_per_second": found.best_per_s,
        "best_concurrency": None if best is None else best.first,
    }


def _limit(limit: Limit) -> LimitDocument:
    measure = str(limit.measure) if limit.stage is None else f"{limit.measure}:{limit.stage}"
    only_failures = limit.at_most_ns == NO_LIMIT_NS
    return {
        "measure": AVAILABILITY if only_failures else measure,
        "at_most_ns": None if only_failures else limit.at_most_ns,
        "service": limit.service,
        "route": limit.route,
        "model": limit.model,
        "version": limit.version,
    }


def _growth(found: Growth) -> GrowthDocument:
    return {
        "calm_to": found.calm_to,
        "crowded_from": found.crowded_from,
        "first_stage": found.first,
        "first_concurrency": found.first_from,
        "stages": [_stage(one) for one in found.stages],
    }


def _stage(found: StageGrowth) -> StageGrowthDocument:
    return {
        "stage": found.stage,
        "calm_mean_ns": round(found.calm_mean_ns),
        "crowded_mean_ns": round(found.crowded_mean_ns),
        "growth_ns": round(found.crowded_mean_ns) - round(found.calm_mean_ns),
        "low_ns": round(found.low_ns),
        "high_ns": round(found.high_ns),
    }
