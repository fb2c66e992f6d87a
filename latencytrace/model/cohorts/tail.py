"""The slowest requests of a cohort against its usual ones: where their time goes, and why."""

from dataclasses import dataclass
from enum import StrEnum

from latencytrace.model.stage import Stage

MOSTLY = 0.5  # of the excess, or of the tail: of less nothing is named as its cause


class CauseKind(StrEnum):
    """The kind of thing that makes a tail slow."""

    STAGE = "stage"  # work of the service itself took longer
    INPUT = "input"  # more was asked: longer input or output, or less of it cached
    WAITING = "waiting"  # behind other requests
    INSTANCE = "instance"  # one of several is slow
    RUNTIME = "runtime"  # the process stood still: garbage collection, event-loop lag
    COLD_START = "cold_start"  # something was loaded first
    DEPENDENCY = "dependency"  # another service took longer to answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StageExcess:
    """One stage's mean critical-path time in the tail and around the median."""

    stage: Stage
    tail_mean_ns: float
    reference_mean_ns: float
    low_ns: float | None  # 95 % interval of the excess; None: too few requests for one
    high_ns: float | None

    @property
    def excess_ns(self) -> float:
        """How much longer the tail spends in it."""
        return self.tail_mean_ns - self.reference_mean_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class SetApart:
    """What the tail has more often than the reference."""

    key: str
    value: str  # of a number: `over 4000`
    tail_ratio: float
    reference_ratio: float
    p_value: float  # corrected for everything that was looked at

    @property
    def attributable_ratio(self) -> float:
        """The share of the tail that would not be there without it, if it is the cause.

        Source: the attributable fraction of epidemiology, with the reference as controls.
        """
        if self.reference_ratio >= 1.0:
            return 0.0
        return (self.tail_ratio - self.reference_ratio) / (1.0 - self.reference_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What explains most of the excess."""

    kind: CauseKind
    stage: Stage | None  # that grew most
    trait: SetApart | None  # that tells the requests concerned


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The requests beyond a quantile against those around the median."""

    requests: int
    recorded_requests: int
    quantile: float
    needed_requests: int | None  # None: there are enough for a cause to be named
    threshold_ns: int | None  # None: there is no request
    tail_requests: int
    reference_requests: int
    stages: tuple[StageExcess, ...]  # the greatest excess first
    attributes: tuple[SetApart, ...]  # the greatest difference first
    cause: Cause | None  # None: nothing sets the tail apart
    examples: tuple[str, ...]  # trace ids

    @property
    def excess_ns(self) -> float | None:
        """How much longer the tail takes on average; None: there is nothing to compare."""
        return sum(stage.excess_ns for stage in self.stages) if self.stages else None
