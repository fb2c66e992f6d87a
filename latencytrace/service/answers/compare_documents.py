"""The documents of comparisons and forecasts, typed for the API's description."""

from typing_extensions import TypedDict

from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.model import Stage


class ShiftDocument(TypedDict):
    """How far a quantile shifted, at equal work and load; `low` to `high` holds at 95 %."""

    a: int
    b: int
    shift: int
    low: int | None  # null: not tested
    high: int | None
    p_value: float | None  # corrected for all tests of the comparison; null: not tested


class ShiftsDocument(TypedDict):
    """The quantiles that are tested."""

    p50: ShiftDocument
    p95: ShiftDocument
    p99: ShiftDocument


class DecileDocument(TypedDict):
    """The shift of one decile."""

    quantile: float
    a: int
    b: int
    shift: int
    low: int | None  # null: too few requests beyond it
    high: int | None


class PlainQuantilesDocument(TypedDict):
    """Quantiles as they were, whatever the mix of requests."""

    p50: int
    p95: int
    p99: int


class EngineCircumstancesDocument(TypedDict):
    """Means of what engines reported when the requests of a side began; null: none did."""

    engine_waiting_requests: float | None
    engine_running_requests: float | None
    engine_batch_size: float | None
    engine_preemptions: float | None  # in a few seconds
    engine_kv_cache_use_ratio: float | None
    engine_prefix_cache_hit_ratio: float | None
    engine_speculative_acceptance_ratio: float | None


class CircumstancesDocument(EngineCircumstancesDocument):
    """Means of what the requests of a side brought and met; null: nothing tells it."""

    input_tokens: float | None
    cached_input_ratio: float | None  # of the input tokens of requests that tell both
    output_tokens: float | None
    batch_size: float | None
    queue_depth: float | None
    concurrency: float | None
    preemptions: float | None
    cold_start_ratio: float | None  # of requests


class SideDocument(TypedDict):
    """One side of a comparison."""

    requests: int
    recorded_requests: int | None  # that count by their weights; null: all of them
    compared_requests: int  # of those recorded: of many, a share drawn by their trace ids
    failed_ratio: float | None  # that failed or were rejected, and so are not compared
    duration_ns: PlainQuantilesDocument | None
    circumstances: CircumstancesDocument


class ComparedStageDocument(TypedDict):
    """A stage's quantiles over all requests, 0 where one has none of it."""

    stage: Stage
    verdict: Verdict
    part: str | None  # by name, which most of a proven shift of its mean is; null: no single one
    p50: ShiftDocument
    p95: ShiftDocument
    p99: ShiftDocument


class SpellDocument(TypedDict):
    """A stretch of time in which a side was much slower than in the rest of it."""

    start: str
    end: str
    requests: int
    share_ratio: float  # of the side's requests that were read
    mean_ns: int
    usual_ns: int  # the mean of the side's other requests
    stage: Stage  # that most of the difference is in


class CompareDocument(TypedDict):
    """Two cohorts side by side."""

    a: SideDocument
    b: SideDocument
    verdict: Verdict
    needed_requests: int | None  # of each side, where there is not enough data
    wait_ns: int | None  # until B has as many, at the pace at which its requests came
    matched_on: list[str]
    unmatched: str | None  # what the two sides have too little of in common
    overlap_ratio: float
    at_least_ratio: float
    block_requests: list[int]  # neighbours that are taken together, of A and of B
    alike_requests: list[int]  # neighbours that were found to resemble each other; 1: none were
    spells: list[list[SpellDocument]]  # of A and of B: slow ones, which are not compared
    duration_ns: ShiftsDocument | None  # null: nothing can be compared
    deciles: list[DecileDocument]
    stages: list[ComparedStageDocument]


class BaselineDocument(TypedDict):
    """A cohort that was saved to be compared with."""

    name: str
    cohort: str
    requests: int
    saved: str
    bytes: int


class BaselinesDocument(TypedDict):
    """The baselines that are saved, in order of name."""

    baselines: list[BaselineDocument]


class ForecastDocument(TypedDict):
    """A quantile as it is, and as it would be."""

    now: int
    then: int


class ForecastsDocument(TypedDict):
    """The quantiles that are forecast."""

    p50: ForecastDocument
    p95: ForecastDocument
    p99: ForecastDocument


class WhatifDocument(TypedDict):
    """A cohort as if one of its stages were faster."""

    requests: int
    recorded_requests: int | None  # that count by their weights; null: all of them
    stage: Stage
    stage_requests: int  # with time of that stage on their critical path, of those replayed
    replayed_requests: int
    replayed_spans: int  # of these, those whose spans were kept; the others by their segments
    duration_ns: ForecastsDocument | None  # null: there is no request
    error_ratio: float | None  # of the back-test; null: there is too little for one
