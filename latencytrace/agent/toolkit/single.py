"""A request that waited in a queue and is served alone: its wait, then the work."""

from contextvars import Token

from opentelemetry.context import Context
from opentelemetry.trace import set_span_in_context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import enter, leave
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.batching import Ticket
from latencytrace.model.stage import Stage


class SingleServed:
    """Times what serves one ticket, in the request's own trace; what is made inside joins it.

    It begins at once, and is current until `deactivate`, in the same task or thread.

    Args:
        recorder: Starts its spans.
        ticket: The request's; it may come from another process.
        name: Of the span.
        stage: What the work is.
    """

    __slots__ = ("_recorder", "_ticket", "_timing", "_token")

    def __init__(self, recorder: Recorder, ticket: Ticket, name: str, stage: Stage) -> None:
        self._recorder = recorder
        self._ticket = ticket
        self._timing: Timing | None = None
        context = ticket.context()
        ticket.leave_queue()
        if ticket.sampled:
            now_ns = monotonic_ns()
            waited = ticket.wait(recorder, now_ns)
            if waited is not None:
                waited.end(now_ns)
            self._timing = recorder.start(name, stage, context=context, started_ns=now_ns)
            context = set_span_in_context(self._timing.span, context)
        self._token: Token[Context] | None = enter(context)

    def note_part(self, stage: Stage, started_ns: int) -> None:
        """Note that what was done since a monotonic time is of another stage."""
        if self._timing is not None:
            parts = self._timing.intervals or self._timing.collect_intervals()
            parts.add(stage, started_ns)

    def deactivate(self) -> None:
        """Make what was current before it current again."""
        token, self._token = self._token, None
        if token is not None:
            leave(token)

    def end(self, error: BaseException | None = None, ended_ns: int | None = None) -> None:
        """End at a monotonic time, or now; once."""
        timing, self._timing = self._timing, None
        self._ticket.served += 1
        if timing is not None:
            if error is not None:
                timing.fail(error)
            timing.end(ended_ns)
