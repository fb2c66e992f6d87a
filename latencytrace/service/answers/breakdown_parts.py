"""Parts of a breakdown: the requests around quantiles, and the stages over time."""

from collections.abc import Mapping
from typing import Final

from typing_extensions import TypedDict

from latencytrace.analysis.tail.around import LEAST, Around, around
from latencytrace.model import Stage
from latencytrace.service.answers.documents import by_stage
from latencytrace.service.answers.overview_documents import column_length_ns, times_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store

QUANTILES: Final = (0.5, 0.9, 0.99)
TIMELINE_COLUMNS: Final = 60


class AroundDocument(TypedDict):
    """The mean request around a quantile; its stages add up to `mean_ns`, but for rounding."""

    quantile: float
    requests: int
    at_least_ns: int
    at_most_ns: int
    mean_ns: int
    stages: dict[Stage, int]


class AroundsDocument(TypedDict):
    """`GET /breakdown/quantiles`."""

    requests: int
    needed_requests: int | None  # null: there are enough
    quantiles: list[AroundDocument]


class StageColumnDocument(TypedDict):
    """The requests that started in a column of time: how many, and their mean in each stage."""

    since: str
    until: str
    requests: int
    mean_ns: int
    stages: dict[Stage, int]


class StagesOverTimeDocument(TypedDict):
    """`GET /breakdown/timeline`: columns without requests are left out."""

    since: str
    until: str
    column_ns: int
    columns: list[StageColumnDocument]


def arounds(store: Store, cohort: Cohort) -> AroundsDocument:
    """`GET /breakdown/quantiles`."""
    durations = store.durations(cohort)
    found = [one for level in QUANTILES if (one := around(durations, level)) is not None]
    means = store.stage_means(cohort, [one.band for one in found]) if found else []
    return {
        "requests": durations.requests,
        "needed_requests": None if found else LEAST,
        "quantiles": [_around(one, of) for one, of in zip(found, means, strict=True)],
    }


def stages_over_time(store: Store, cohort: Cohort, now_ns: int) -> StagesOverTimeDocument:
    """`GET /breakdown/timeline`."""
    since_ns, until_ns = times_ns(cohort, now_ns)
    column_ns = column_length_ns(since_ns, until_ns, TIMELINE_COLUMNS)
    return {
        "since": str(since_ns),
        "until": str(until_ns),
        "column_ns": column_ns,
        "columns": [
            {
                "since": str(since_ns + one.column * column_ns),
                "until": str(since_ns + (one.column + 1) * column_ns),
                "requests": one.requests,
                "mean_ns": round(sum(one.mean_ns.values())),
                "stages": by_stage(one.mean_ns),
            }
            for one in store.stages_over_time(cohort, column_ns)
        ],
    }


def _around(found: Around, means_ns: Mapping[Stage, float]) -> AroundDocument:
    return {
        "quantile": found.quantile,
        "requests": found.requests,
        "at_least_ns": found.band.at_least_ns,
        "at_most_ns": found.band.at_most_ns,
        "mean_ns": round(sum(means_ns.values())),
        "stages": by_stage(means_ns),
    }
