"""The stages that one request's time went to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from latencytrace.model.stage import Stage

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
