"""The record of a load so far; it survives an interruption."""

from dataclasses import dataclass, field

from latencytrace.cli.load_test.outcome import NO_LIMITS, Limits, Outcome
from latencytrace.cli.load_test.plan import Step

SERVICE = "latencytrace-load"  # what breakdowns call the generator


@dataclass(slots=True, kw_only=True)
class StepRecord:
    """The record of one rate."""

    step: Step
    began_ns: int
    outcomes: list[Outcome] = field(default_factory=list)
    failed: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    elapsed_ns: int = 0
    cpu_ns: int = 0  # of this whole process


@dataclass(slots=True, kw_only=True)
class SpansSent:
    """Counts of the load's own spans."""

    url: str
    sent: int = 0
    lost: int = 0
    last_error: str | None = None


@dataclass(slots=True, kw_only=True)
class LoadRecord:
    """Every step begun, in order."""

    steps: list[StepRecord] = field(default_factory=list)
    spans: SpansSent | None = None  # None: requests are not traced
    limits: Limits = NO_LIMITS  # that answers shall meet
