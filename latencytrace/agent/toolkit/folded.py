"""Calls beyond the first of a span, which have no span each: their request keeps their time.

It is an interval of the call's stage on the request's span: exact in sum, and bounded however
many calls there are.
"""

from typing import Any, Final

from opentelemetry.context import Context, create_key

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import REQUEST
from latencytrace.agent.toolkit.within import Within
from latencytrace.model.stage import Stage

FOLDED: Final = create_key("latencytrace-folded-call")  # what is below it is a part of it


class FoldedCall(Within):
    """One such call.

    Args:
        stage: What the call is part of.
        intervals: Of its request.
    """

    __slots__ = ("_intervals", "_stage", "_started_ns")
    is_span = False  # which a generator would hold across its items

    def __init__(self, stage: Stage, intervals: IntervalRecorder) -> None:
        super().__init__(FOLDED)
        self._stage = stage
        self._intervals = intervals
        self._started_ns = monotonic_ns()

    def finish(self, _: object) -> None:
        """Note its time, whether it returned or raised."""
        self._intervals.add(self._stage, self._started_ns)

    fail = finish


def folded(recorder: Recorder, stage: Stage, here: Context) -> FoldedCall | None:
    """Begin one; None: no request is under way that takes intervals.

    Args:
        here: What is current; `FOLDED` is not in it.
    """
    request: Any = here.get(REQUEST)
    if request is None or request.has_ended or not recorder.detail.intervals:
        return None
    return FoldedCall(stage, request.intervals)
