"""A request: what a caller asked of a service once, and what became of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from latencytrace.model.detail import TraceDetail
from latencytrace.model.stage import Stage
from latencytrace.model.trace import Repair

Ledger = Mapping[Stage, int]  # nanoseconds on the critical path; absent stages took none


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of the critical path spent in one span."""

    start_ns: int  # relative to the request's start
    end_ns: int
    stage: Stage
    span_id: str  # of an unattributed segment: the span that spent it
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """The time that a stage ran in one request, on the critical path or not."""

    busy_ns: int  # while at least one of its spans ran
    exclusive_ns: int  # its spans' durations less what their children cover, added up


def ledger_of(segments: Iterable[Segment]) -> dict[Stage, int]:
    """Add up segments by stage.

    Returns:
        Nanoseconds per stage that occurs; over the segments of a request they
        add up to exactly its duration.
    """
    ledger: dict[Stage, int] = {}
    for segment in segments:
        length_ns = segment.end_ns - segment.start_ns
        ledger[segment.stage] = ledger.get(segment.stage, 0) + length_ns
    return ledger


class RequestStatus(StrEnum):
    """The way in which a request ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


class FirstTokenOf(StrEnum):
    """Where the first token is taken that ends a time to first token."""

    CALLER = "caller"  # it left for the caller
    MODEL = "model"  # a model made it: the answer was not streamed, or no hook saw it leave


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricAttributes:
    """Attributes of OpenTelemetry's metrics of a request, by the conventions' keys."""

    http: tuple[tuple[str, str | int], ...] = ()  # empty: not asked over HTTP
    gen_ai: tuple[tuple[str, str | int], ...] = ()  # empty: no generative model served it
    error_type: str | None = None  # of a request that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request with its ledger: one row of the table `requests`."""

    trace_id: str
    span_id: str
    outermost: bool
    service: str
    instance: str | None
    route: str  # `POST /chat`; a root that is no server span: its name
    model: str | None
    version: str | None
    status: RequestStatus
    start_ns: int  # since the Unix epoch
    duration_ns: int
    revision: int  # 1 for the first; a late span writes the next
    time_to_first_token_ns: int | None = None
    time_to_first_token_of: FirstTokenOf | None = None
    model_time_to_first_token_ns: int | None = None  # what the model itself says
    time_per_output_token_ns: int | None = None
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    batch_size: int | None = None
    queue_depth: int | None = None  # the most that waited before it in one of its queues
    concurrency: int | None = None  # requests under way in its process when it began
    preemptions: int | None = None  # how often an engine made it wait again
    cold_start: bool | None = None  # whether something was loaded for it
    startup: bool = False  # no request: the process loaded, before it served any
    # A health, readiness or metrics route, or a request of unknown time: left out of
    # breakdowns, metrics and objectives.
    health: bool = False
    detail: TraceDetail = TraceDetail.FULL  # in which it was traced
    weight: int = 1  # how many requests it stands for, where its sender sampled
    ledger: Ledger  # sums to `duration_ns`
    segments: tuple[Segment, ...]  # partition [0, duration_ns) in order
    # What its spans went on with after its end, by stage, until the last of them ended; empty:
    # with nothing. No part of `ledger`.
    after: Ledger = field(default_factory=dict)
    repairs: tuple[Repair, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()  # to ask for it by (`cohort_attributes`)
    attributes_left_out: int = 0
    # Known while it is attributed, and not kept.
    metric_attributes: MetricAttributes = field(default=MetricAttributes(), compare=False)

    @property
    def after_ns(self) -> int:
        """How long it went on after its end; 0: it did not."""
        return sum(self.after.values())

    @property
    def counts(self) -> bool:
        """Return whether breakdowns, metrics and objectives count it."""
        return not (self.health or self.startup)
