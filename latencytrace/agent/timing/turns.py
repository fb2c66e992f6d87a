"""Waits of a request's steps for their turn on an event loop, on which steps of others run.

A step waits from when it is scheduled, by `call_soon`, until it runs. Not counted is the time in
which its own request ran. What only hands on a result, as `call_soon_threadsafe` has it done, has
waited on behalf of what it wakes.
"""

import threading
from contextvars import Context as VariableContext
from typing import Final

from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.context import context_in
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.intervals import IntervalRecorder, add_interval
from latencytrace.agent.timing.recorder import INTERVALS_KEY, Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS, TURN, OpenRequests, RuntimeGaps
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

WAITED_NS: Final = 100_000  # a shorter wait costs more to note than it says
MESSENGER_NS: Final = 20_000  # what runs no longer hands on a result, or counts for nothing


class Turns(threading.local):
    """The step that the loop of the current thread runs now."""

    def __init__(self) -> None:
        self._started_ns = 0
        self._ready_ns = 0  # since when what it wakes waits; 0: since it is woken

    def scheduled(self) -> int:
        """Return since when what is scheduled now waits."""
        now_ns = monotonic_ns()
        hands_on = self._ready_ns and now_ns - self._started_ns < MESSENGER_NS
        return self._ready_ns if hands_on else now_ns

    def begin(self, variables: VariableContext, since_ns: int, started_ns: int) -> int:
        """Begin what was scheduled at a time, 0 if that is unknown.

        Returns:
            Since when it has waited; 0: not long enough to be noted.
        """
        self._started_ns, self._ready_ns = started_ns, 0
        if not since_ns or started_ns - since_ns < WAITED_NS:
            return 0
        gaps = _gaps_in(variables)
        if gaps is None:
            self._ready_ns = since_ns
            return 0
        since_ns = max(since_ns, gaps.ran_ns)
        return 0 if started_ns - since_ns < WAITED_NS else since_ns

    def end(self, variables: VariableContext, started_ns: int, ended_ns: int) -> None:
        """Let its request have run until then."""
        self._ready_ns = 0
        gaps = None if ended_ns - started_ns < MESSENGER_NS else _gaps_in(variables)
        if gaps is not None:
            gaps.ran_ns = ended_ns


def note_turn(
    recorder: Recorder, variables: VariableContext, since_ns: int, started_ns: int
) -> None:
    """Note what the step of a request waited, in the call that awaits it or in the request."""
    otel = context_in(variables)
    gaps = None if otel is None else otel.get(GAPS)
    if otel is None or not isinstance(gaps, RuntimeGaps) or not recorder.detail.gaps:
        return
    span = otel.get(_SPAN_KEY)
    is_call = type(span) is RecordedSpan and semconv.STAGE in (span.raw_attributes or ())
    if not is_call or type(span) is not RecordedSpan or span.ended_ns:
        gaps.note(TURN, since_ns, started_ns)
        return
    since_ns = max(since_ns, span.started_ns)
    stream = otel.get(INTERVALS_KEY)
    if isinstance(stream, IntervalRecorder):
        stream.add(Stage.QUEUE, since_ns, started_ns)
    else:
        add_interval(span, Stage.QUEUE, since_ns, started_ns)


def _gaps_in(variables: VariableContext) -> RuntimeGaps | None:
    otel = context_in(variables)
    gaps = None if otel is None else otel.get(GAPS)
    return gaps if isinstance(gaps, RuntimeGaps) else None


if core is not None:
    core.bind_loop(OpenRequests, RuntimeGaps, GAPS, NOTICED_NS, WAITED_NS, MESSENGER_NS)
