"""The document of `GET /capacity`."""

from typing_extensions import TypedDict

from latencytrace.model import Stage


class LevelDocument(TypedDict):
    """Rates and durations while so many requests were under way."""

    concurrency: int  # from so many under way at once
    concurrency_to: int  # to so many
    time_share_ratio: float  # of the time that was counted
    served: int  # answers that ended meanwhile
    served_per_second: float
    good_per_second: float | None  # of these, within all limits; null: there is none
    p50_ns: int | None  # of requests that came meanwhile; null: too few were read
    p95_ns: int | None


class KneeDocument(TypedDict):
    """How many at once are kept up with; beyond them hardly more are served a second."""

    concurrency: float
    low: int  # 95 % interval
    high: int
    served_per_second: float  # at the knee and beyond
    low_per_second: float
    high_per_second: float


class LimitDocument(TypedDict):
    """A limit that requests shall meet; null: of any."""

    measure: str
    at_most_ns: int | None  # null: they must not fail
    service: str | None
    route: str | None
    model: str | None
    version: str | None


class GoodputDocument(TypedDict):
    """Requests a second that meet all limits."""

    limits: list[LimitDocument]
    good_ratio: float  # of all requests
    per_second: float
    best_per_second: float | None  # of any level; null: none was held long enough
    best_concurrency: int | None


class StageGrowthDocument(TypedDict):
    """A stage with few and with many requests under way; growths add up to the durations'."""

    stage: Stage
    calm_mean_ns: int
    crowded_mean_ns: int
    growth_ns: int
    low_ns: int  # 95 % interval of the growth
    high_ns: int


class GrowthDocument(TypedDict):
    """Cost of more requests at once to each of them."""

    calm_to: int  # requests under way, at most
    crowded_from: int
    first_stage: Stage | None  # that grew most at the first level that was slower; null: none was
    first_concurrency: int | None
    stages: list[StageGrowthDocument]


class ReplicasDocument(TypedDict):
    """How many replicas a rate asks for, each at its knee."""

    requests_per_second: float
    count: int
    low: int  # 95 % interval, by that of the knee's rate
    high: int
    each_per_second: float
    instances: float  # that served the cohort, on average over its time


class CapacityDocument(TypedDict):
    """A cohort's latency against its load."""

    requests: int
    recorded_requests: int | None  # that count by their weights; null: all of them
    read_requests: int  # of which stages are known
    needed_requests: int | None  # null: there are enough
    counted_ns: int  # the time that was counted
    requests_per_second: float | None
    concurrency: float | None  # the mean
    max_concurrency: int | None  # null: a share of all was recorded
    levels: list[LevelDocument]
    knee: KneeDocument | None  # null: none is proven
    goodput: GoodputDocument | None  # null: there is no limit
    growth: GrowthDocument | None  # null: too few requests, or always as many at once
    replicas: ReplicasDocument | None  # null: no knee is proven
    sentence: str
