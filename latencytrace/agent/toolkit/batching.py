"""Batchers of one's own: tickets, the shared span, and what it was to each member."""

from collections.abc import Callable, Collection, Iterable
from contextvars import Token
from numbers import Integral
from sys import is_finalizing
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from latencytrace.agent.budget.detail import unless_spared
from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import edge_faults, guarded
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import RecordingTracer, started_here
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage, stage_and_name

MAX_SERVED = 16  # batches recorded of one ticket: a request has a bounded number of spans

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSAMPLED = TraceFlags(TraceFlags.DEFAULT)


class Ticket:
    """A request's place in a queue; made by `latencytrace.enqueue()`.

    It may travel to another thread, task or process of the same machine, and be served
    again (after a batch that failed, or step by step). One that is dropped before any
    batch served it has waited until then, or until its request ended.

    Args:
        recorder: Counts it, and notes its wait if no batch serves it; None: none does.
        span: What was current where it was made.
        since_ns: When it began to wait, a monotonic time.
        tokens: How much work it brings, if known.
    """

    __slots__ = ("_live", "_recorder", "depth", "served", "since_ns", "span", "tokens")

    def __init__(
        self, recorder: Recorder | None, span: Span, since_ns: int, tokens: int | None
    ) -> None:
        self._recorder = recorder
        self.span = span
        self.since_ns = since_ns
        self.tokens = tokens
        self.served = 0  # by so many batches
        self.depth: int | None = None  # how many waited before it in its process
        self._live = span.is_recording()

    @property
    def sampled(self) -> bool | None:
        """True if its trace is recorded; None: it belongs to none."""
        context = self.span.get_span_context()
        return context.trace_flags.sampled if context.is_valid else None

    @property
    def is_late(self) -> bool:
        """True if its span has ended, though it had not when it joined the queue."""
        return self._live and not self.span.is_recording()

    def __reduce__(self) -> tuple[Callable[..., "Ticket"], tuple[object, ...]]:
        context = self.span.get_span_context()
        with guarded("leaving a queue", edge_faults):
            self.leave_queue()
        self._recorder = None  # the process that unpickles it goes on with it
        sampled = bool(self.sampled)
        at_ns = self.since_ns + ANCHOR_NS
        return _unpickled, (context.trace_id, context.span_id, sampled, at_ns, self.tokens)

    def __del__(self) -> None:
        recorder = self._recorder
        if recorder is None or self.served or is_finalizing():
            return
        with guarded("letting go of a ticket", recorder.on_fault):
            self.leave_queue()
            recorder.batches.unused += 1
            # Perhaps in the middle of a garbage collection, where a processor or provider
            # of the program's may hold a lock: only our own way takes none.
            tracer = recorder.tracer
            ours = isinstance(tracer, RecordingTracer) and tracer.is_direct
            if ours and isinstance(self.span, RecordedSpan) and started_here(self.span):
                until_ns = min(monotonic_ns(), self.span.ended_ns or monotonic_ns())
                waited = self.wait(recorder, until_ns)
                if waited is not None:
                    waited.note({semconv.CANCELLED: True})
                    waited.end(until_ns)

    def join_queue(self, recorder: Recorder) -> None:
        """Count it among the waiting ones, and the ones before it."""
        waiting = recorder.waiting
        self.depth = len(waiting)
        waiting.add(id(self))

    def leave_queue(self) -> None:
        """Count it no more: a batch serves it, or another process does."""
        if self._recorder is not None:
            self._recorder.waiting.discard(id(self))

    def wait(self, recorder: Recorder, until_ns: int) -> Timing | None:
        """Start the span of its wait, in its own trace; None: it did not wait."""
        if until_ns <= self.since_ns:
            return None
        noted: dict[str, AttributeValue] = {}
        if self.depth is not None and not self.served:
            noted[semconv.QUEUE_DEPTH] = self.depth
        return recorder.start(
            "queue", Stage.QUEUE, noted, context=self.context(), started_ns=self.since_ns
        )

    def context(self) -> Context:
        """Its span and nothing else."""
        return set_span_in_context(self.span, Context())


def _unpickled(
    trace_id: int,
    span_id: int,
    sampled: bool,  # noqa: FBT001 - as it was pickled
    at_ns: int,
    tokens: int | None,
) -> Ticket:
    flags = _SAMPLED if sampled else _UNSAMPLED
    span = NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags))
    return Ticket(None, span, at_ns - ANCHOR_NS, tokens)


def new_ticket(recorder: Recorder | None, tokens: object) -> Ticket:
    """A ticket for the current request; outside of any it only adds to a batch's size."""
    span: Span = INVALID_SPAN
    counted = None
    with guarded("joining a queue", edge_faults):
        if recorder is not None and not recorder.suppressed():
            span = unless_spared(recorder.detail, get_current_span())
        if isinstance(tokens, Integral):  # no tensor: reading one may wait for the device
            counted = max(int(tokens), 0)
    ticket = Ticket(recorder, span, monotonic_ns(), counted)
    with guarded("counting waits", edge_faults):
        if recorder is not None:
            ticket.join_queue(recorder)
    return ticket


class Batch:
    """Times what serves many requests at once; made by `latencytrace.batch(tickets)`.

    The work is one span in a trace of its own, whatever started the worker. When it ends,
    each member gets two spans in its own trace, children of what was current where it
    joined the queue: its wait, and the batch. The latter and the shared span are linked
    to each other.

    Args:
        tickets: Of the members; one that is named twice counts once, None is passed over.
        name: One of latencytrace's stages, or the user's own name of an `application` stage.
        attributes: Scalars; they travel with the shared span.
    """

    __slots__ = (
        "_attributes",
        "_context",
        "_entered",
        "_members",
        "_name",
        "_named",
        "_recorder",
        "_stage",
        "_step",
        "_tickets",
        "_token",
    )

    def __init__(
        self,
        recorder: Callable[[], Recorder],
        tickets: Iterable[Ticket | None],
        name: str,
        attributes: dict[str, AttributeValue],
    ) -> None:
        self._recorder = recorder
        self._tickets = tickets
        self._name = name
        self._stage = Stage.APPLICATION
        self._named: dict[str, AttributeValue] = {}
        self._attributes = attributes
        self._members: tuple[Ticket, ...] = ()
        self._step: Timing | None = None
        self._context: Context | None = None
        self._token: Token[Context] | None = None
        self._entered = 0

    def __enter__(self) -> Self:
        self._entered += 1
        if self._entered == 1:  # within itself it goes on
            self.begin()
            self.activate()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        ended_ns = monotonic_ns()
        if self._entered > 1:
            self._entered -= 1
            return
        self._entered = 0
        self.deactivate()
        self.end(exc_val, ended_ns)

    def begin(self) -> None:
        """Begin, where the work goes from thread to thread: `activate` it in each."""
        with guarded("starting a batch", edge_faults):
            self._stage, self._named = stage_and_name(self._name)
            self._begin(self._recorder())

    def activate(self) -> None:
        """Make the batch current until `deactivate`, in the same task or thread."""
        with guarded("making a batch current", edge_faults):
            if self._context is not None:
                self._token = enter(self._context)

    def deactivate(self) -> None:
        """Make what was current before it current again."""
        with guarded("leaving a batch", edge_faults):
            token, self._token = self._token, None
            if token is not None:
                leave(token)

    def end(self, error: BaseException | None = None, ended_ns: int | None = None) -> None:
        """End at a monotonic time, or now; once."""
        with guarded("ending a batch", edge_faults):
            step, self._step = self._step, None
            if step is not None:
                at_ns = monotonic_ns() if ended_ns is None else ended_ns
                self._finish(self._recorder(), step, at_ns, error)

    def note_part(self, stage: Stage, started_ns: int) -> None:
        """Note that what was done since a monotonic time is of a stage of its own."""
        if self._step is not None:
            parts = self._step.intervals or self._step.collect_intervals()
            parts.add(stage, started_ns)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.__exit__(exc_type, exc_val, exc_tb)

    def _begin(self, recorder: Recorder) -> None:
        members = tuple(dict.fromkeys(one for one in self._tickets if isinstance(one, Ticket)))
        for member in members:
            member.leave_queue()
        if recorder.suppressed():
            return
        sampled = {member.sampled for member in members}
        if False in sampled and True not in sampled:  # it could not be found: record nothing
            unsampled = next(member.span for member in members if member.sampled is False)
            self._context = set_span_in_context(unsampled, Context())
            return
        recorder.steps.begin(*(member.span for member in members))
        self._members = members
        self._step = recorder.start(
            self._name,
            self._stage,
            {**self._named, **self._attributes, **_sizes(members), semconv.SHARED: True},
            context=Context(),
        )
        self._context = set_span_in_context(self._step.span, Context())
        recorder.batches.steps += 1
        recorder.batches.late += sum(member.is_late for member in members)

    def _finish(
        self, recorder: Recorder, step: Timing, ended_ns: int, error: BaseException | None
    ) -> None:
        parts = step.intervals.packed(step.started_ns) if step.intervals is not None else ""
        noted: dict[str, AttributeValue] = {semconv.INTERVALS: parts} if parts else {}
        for member in self._members:
            with guarded("ending a member of a batch", recorder.on_fault):
                if member.sampled:
                    self._record(recorder, step, member, ended_ns, error, noted)
                member.served += 1
                member.since_ns = max(member.since_ns, ended_ns)
        if error is not None:
            step.fail(error)
        step.end(ended_ns)

    def _record(
        self,
        recorder: Recorder,
        step: Timing,
        member: Ticket,
        ended_ns: int,
        error: BaseException | None,
        noted: dict[str, AttributeValue],
    ) -> None:
        """Write into a member's own trace what it waited, and what the batch took."""
        recorder.batches.reused += member.served > 0
        if member.served >= MAX_SERVED:
            recorder.batches.left_out += 1
            return
        waited = member.wait(recorder, step.started_ns)
        if waited is not None:
            waited.end(step.started_ns)
        tokens = {} if member.tokens is None else {semconv.BATCH_TOKENS: member.tokens}
        served = recorder.start(
            self._name,
            self._stage,
            {**self._named, semconv.BATCH_SIZE: len(self._members), **tokens, **noted},
            context=member.context(),
            started_ns=step.started_ns,
        )
        served.span.add_link(step.span.get_span_context(), {semconv.SHARED: True})
        if served.span.is_recording():
            link = (
                step.span.link_member
                if isinstance(step.span, RecordedSpan)
                else step.span.add_link
            )
            link(served.span.get_span_context(), tokens)
            recorder.batches.members += 1
        if error is not None:
            served.fail(error)
        served.end(ended_ns)


def _sizes(members: Collection[Ticket]) -> dict[str, AttributeValue]:
    """Count the members, and the tokens if those of all are known."""
    known = [member.tokens for member in members if member.tokens is not None]
    sizes: dict[str, AttributeValue] = {semconv.BATCH_SIZE: len(members)}
    if known and len(known) == len(members):
        sizes[semconv.BATCH_TOKENS] = sum(known)
    return sizes


class SingleServed:
    """Times what serves one ticket, in the request's own trace; what is made inside joins it.

    It begins at once, and is current until `deactivate`, in the same task or thread.

    Args:
        ticket: The request's; it may come from another process.
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


class Tickets:
    """Those of one library, by the futures of what waits, which takes no attributes itself."""

    def __init__(self) -> None:
        self._tickets: WeakKeyDictionary[Any, Ticket] = WeakKeyDictionary()

    def take(self, recorder: Recorder, *futures: object) -> None:
        """Take one ticket for all that a request puts into the queue."""
        self.share(new_ticket(recorder, None), *futures)

    def share(self, ticket: Ticket | None, *futures: object) -> None:
        """Let all of these have a ticket, if there is one."""
        if ticket is not None:
            self._tickets.update((future, ticket) for future in futures)

    def of(self, futures: Iterable[object]) -> list[Ticket | None]:
        """Return the ticket of each; None: it came before the hook did."""
        return [self._tickets.get(future) for future in futures]


def batch_of(
    recorder: Recorder, tickets: Iterable[Ticket | None], stage: Stage = Stage.FORWARD
) -> Batch | None:
    """Return the batch that serves these tickets; None: there is none among them."""
    found = list(tickets)
    return Batch(lambda: recorder, found, stage, {}) if any(found) else None
