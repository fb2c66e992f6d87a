"""The document of `GET /tail`."""

from typing_extensions import TypedDict

from latencytrace.model import Stage
from latencytrace.model.cohorts.breakdown import CauseKind


class StageExcessDocument(TypedDict):
    """A stage in the tail and in the reference; the excesses add up to that of the durations."""

    stage: Stage
    tail_mean_ns: int
    reference_mean_ns: int
    excess_ns: int
    excess_share_ratio: float | None  # null: the tail takes no longer
    low_ns: int | None  # 95 % interval of the excess; null: too few requests in the tail
    high_ns: int | None


class SetApartDocument(TypedDict):
    """A trait that is more frequent in the tail than in the reference."""

    key: str
    value: str
    tail_share_ratio: float
    reference_share_ratio: float
    p_value: float  # corrected for all that was looked at


class CauseDocument(TypedDict):
    """The cause of most of the excess, in fields and in a sentence."""

    kind: CauseKind
    stage: Stage | None
    key: str | None
    value: str | None
    sentence: str


class CulpritDocument(TypedDict):
    """Trait of requests that cost the tail more than their number explains."""

    key: str
    value: str
    cost_share_ratio: float  # of what others cost the tail
    member_share_ratio: float  # of the others in its steps


class NeighboursDocument(TypedDict):
    """Cost of others' work in shared steps to a request of the tail, and to a usual one."""

    tail_requests: int  # looked at
    reference_requests: int
    steps: int
    tail_mean_ns: int
    reference_mean_ns: int
    excess_ns: int
    excess_share_ratio: float | None  # of what the tail takes longer; null: it does not
    low_ns: int  # 95 % interval of the excess
    high_ns: int
    culprits: list[CulpritDocument]


class TailDocument(TypedDict):
    """The requests beyond a quantile against those around the median."""

    requests: int
    recorded_requests: int | None  # that count by their weights; null: all of them
    quantile: float
    needed_requests: int | None  # null: there are enough
    threshold_ns: int | None
    tail_requests: int
    reference_requests: int
    excess_ns: int | None
    stages: list[StageExcessDocument]
    attributes: list[SetApartDocument]
    cause: CauseDocument | None  # null: nothing sets the tail apart
    neighbours: NeighboursDocument | None  # null: nothing tells it
    examples: list[str]  # trace ids
