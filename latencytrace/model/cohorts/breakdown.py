"""Summaries of cohorts: stages of all their requests, and why their tail is slow."""

from dataclasses import dataclass
from enum import StrEnum

from latencytrace.model.span import AttributeValue
from latencytrace.model.stage import Stage

ATTRIBUTE_CHARACTERS = 128  # of an attribute's text; the rest is neither stored nor compared


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationRange:
    """Bounds of a duration; None: no bound."""

    at_least_ns: int | None = None
    at_most_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRange:
    """Bounds of a number of tokens; None: no bound."""

    at_least: int | None = None
    at_most: int | None = None


def attribute_text(value: AttributeValue) -> str:
    """Return an attribute's value as JSON spells it, cut to `ATTRIBUTE_CHARACTERS`."""
    if isinstance(value, str):
        return value[:ATTRIBUTE_CHARACTERS]
    text = str(value)[:ATTRIBUTE_CHARACTERS]
    return text.lower() if isinstance(value, bool) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Exact quantiles and mean over the requests that have a value, in nanoseconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePart:
    """A named part of a stage's critical-path time over a cohort: event-loop lag, `rank_rules`."""

    name: str
    mean_ns: float  # over all requests of the cohort
    share_ratio: float  # of the cohort's whole duration
    requests: int  # with this part


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBreakdown:
    """One stage's critical-path time over a cohort."""

    stage: Stage
    mean_ns: float  # over all requests of the cohort, 0 where the stage is absent
    share_ratio: float  # of the cohort's whole duration
    p50_ns: float  # quantiles over the `requests` that have the stage
    p95_ns: float
    p99_ns: float
    requests: int
    parts: tuple[StagePart, ...] = ()  # of `IN_PARTS`, the longest first; others have none


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkAfter:
    """Work of a cohort's requests after their answers; no part of their ledgers."""

    requests: int  # that went on after their answer; the other figures are of these
    mean_ns: float
    p50_ns: float
    p95_ns: float
    p99_ns: float
    stages: tuple[tuple[Stage, float], ...]  # means, the longest first: they add up to `mean_ns`


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Time per stage of a cohort, as means, shares and quantiles."""

    requests: int
    attributed_ratio: float | None  # None: no requests
    duration_ns: Quantiles | None
    time_to_first_token_ns: Quantiles | None
    first_tokens_of_model: int = 0  # taken from the model, since the answer was not streamed
    time_per_output_token_ns: Quantiles | None
    output_tokens_per_second: float | None  # of one request while it decodes, mean
    stages: tuple[StageBreakdown, ...]  # in the order of `Stage`; absent ones left out
    after: WorkAfter | None = None  # None: no request went on after its answer
    health_left_out: int
    reduced_detail_left_out: int
    reduced_requests: int = 0  # counted, though pauses, intervals or cheap calls are not recorded
    startup_left_out: int = 0  # traces of what a process loaded before its first request
    unsure_left_out: int = 0  # which may belong here: not all of their attributes are stored
    # The most requests of the cohort under way at once; None: there are none, or too many to tell.
    max_concurrency: int | None
    quantile_error_ratio: float = 0.0  # by how much quantiles may be wrong; 0: they are exact


MOSTLY = 0.5  # share of the excess, or of the tail, that a named cause must explain


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
    """Attribute that is more frequent in the tail than in the reference."""

    key: str
    value: str  # of a number: `over 4000`
    tail_share_ratio: float
    reference_share_ratio: float
    p_value: float  # corrected for everything that was looked at

    @property
    def attributable_ratio(self) -> float:
        """The share of the tail that would not be there without it, if it is the cause.

        Source: the attributable fraction of epidemiology, with the reference as controls.
        """
        if self.reference_share_ratio >= 1.0:
            return 0.0
        return (self.tail_share_ratio - self.reference_share_ratio) / (
            1.0 - self.reference_share_ratio
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Stage or attribute that explains most of the excess."""

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
