"""`GET /capacity`: latency against load, where the knee is and what queues first."""

from collections.abc import Sequence
from typing import Final

from latencytrace.analysis.capacity.capacity import Capacity, Goodput, capacity
from latencytrace.analysis.capacity.growth import Growth, StageGrowth
from latencytrace.analysis.capacity.limits import Limit
from latencytrace.errors import QuestionError
from latencytrace.model.cohorts.request_columns import DurationBand
from latencytrace.model.objective import AVAILABILITY, NO_LIMIT_NS
from latencytrace.service.answers.documents import document
from latencytrace.service.answers.load.capacity_documents import (
    CapacityDocument,
    GoodputDocument,
    GrowthDocument,
    LimitDocument,
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
    made = document(
        CapacityDocument,
        found,
        goodput=None if found.goodput is None else _goodput(found.goodput),
        growth=None if found.growth is None else _growth(found.growth),
        sentence="",
    )
    return {**made, "sentence": sentence(made)}


def _goodput(found: Goodput) -> GoodputDocument:
    return document(GoodputDocument, found, limits=[_limit(one) for one in found.limits])


def _limit(limit: Limit) -> LimitDocument:
    measure = str(limit.measure) if limit.stage is None else f"{limit.measure}:{limit.stage}"
    only_failures = limit.at_most_ns == NO_LIMIT_NS
    return document(
        LimitDocument,
        limit,
        measure=AVAILABILITY if only_failures else measure,
        at_most_ns=None if only_failures else limit.at_most_ns,
    )


def _growth(found: Growth) -> GrowthDocument:
    return document(GrowthDocument, found, stages=[_stage(one) for one in found.stages])


def _stage(found: StageGrowth) -> StageGrowthDocument:
    growth_ns = round(found.crowded_mean_ns) - round(found.calm_mean_ns)
    return document(StageGrowthDocument, found, growth_ns=growth_ns)
