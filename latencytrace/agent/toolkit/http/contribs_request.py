"""A request that contrib's middleware times through us, and what the process did to it.

Its span is contrib's, as are its start and its end. What it waited for is noted on it, as on ours.
"""

from opentelemetry.context import Context

from latencytrace.agent.context import current, enter
from latencytrace.agent.spans.span import RecordedSpan, defer
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.model import semconv


class ContribsRequest:
    """One of them, on the event loop of this thread."""

    def __init__(self, recorder: Recorder, span: RecordedSpan) -> None:
        self._requests = recorder.open_requests
        self._span = span
        self._gaps = self._requests.begin(on_loop=True)

    def activate(self) -> None:
        """Have waits be noted, until contrib leaves its span."""
        enter(Context({**current(), GAPS: self._gaps}))

    def answered(self) -> None:
        """Note what it waited for, just before contrib ends its span."""
        intervals, started_ns = IntervalRecorder(), self._span.started_ns
        self._span.set_attributes(self._gaps.described(started_ns, intervals))
        if (taken := intervals.taken(started_ns)) is not None:
            defer(self._span, semconv.INTERVALS, taken)
        self._requests.last_served = self._span
        self.over()

    def over(self) -> None:
        """Forget it; a second time changes nothing."""
        self._requests.end(self._gaps)
