"""One request that an application serves, however a server calls the application."""

from collections.abc import Iterable, Mapping
from contextvars import Token
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.budget.detail import SPARED
from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.context import current, enter, leave
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.timing.holds import NOTICED_NS, Wait
from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.agent.timing.intervals import (
    IntervalRecorder,
    Stages,
    weight_of,
)
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.runtime_gaps import GAPS, REQUEST, RuntimeGaps
from latencytrace.agent.timing.server_timing import ServerTiming
from latencytrace.agent.toolkit.answer_events import AnswerEvents
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.arrival import answered
from latencytrace.agent.toolkit.http.caller import carried_beside
from latencytrace.agent.toolkit.http.proxy_queue import queued_ns
from latencytrace.agent.toolkit.http.routed import RoutedRequest
from latencytrace.agent.toolkit.streaming import ANSWER, Answering, AnswerStream
from latencytrace.agent.toolkit.token_times import TokenRecorder
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.detail import TraceDetail, least
from latencytrace.model.packed import PROCESSOR_WAIT
from latencytrace.model.stage import Stage

_FIRST_SERVER_ERROR = 500
_SERVER = SpanKind.SERVER


class ServedRequest(RoutedRequest):
    """A request from its arrival to the end of its answer.

    Args:
        name: Of the span, until the route is known: HTTP's method.
        attributes: What the request says of itself.
        caller: The context that its headers carry.
        started_ns: A monotonic time; None: now.
        arrived_ns: When it came, before its server could take it up; None: unknown.
    """

    __slots__ = (
        "_carried",
        "_gaps",
        "_lacks",
        "_noted",
        "_token",
        "detail",
        "has_ended",
        "intervals",
        "is_spared",
        "name",
        "recorder",
        "stages",
        "timing",
    )
    answer: AnswerStream | None = None  # None: it is not streamed
    connection: object = None  # that it came over; None: unknown

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        attributes: HookAttributes,
        caller: Context,
        *,
        kind: SpanKind = _SERVER,
        on_loop: bool,
        started_ns: int | None = None,
        arrived_ns: int | None = None,
    ) -> None:
        wait = (
            None if arrived_ns is None else _waited(recorder, attributes, arrived_ns, started_ns)
        )
        if wait is not None:
            started_ns = wait.since_ns
        self.recorder = recorder
        self.name = name
        self._carried = carried_beside(caller)  # as baggage; None: the caller's span alone
        self.detail: TraceDetail | None = TraceDetail.FULL  # None: nothing is recorded
        if recorder.decides:
            caller, self.detail = recorder.detail.decide(caller)
        self.is_spared = self.detail is not TraceDetail.FULL
        recorder.detail.count(self.detail)
        self._lacks = recorder.detail.lacks
        if self.detail is None:
            began_ns = monotonic_ns() if started_ns is None else started_ns
            self.timing = Timing(get_current_span(caller), began_ns, recorder.devices.pending)
        else:
            if self.is_spared:
                attributes[semconv.DETAIL] = self.detail.value
            self.timing = recorder.start(
                name, None, attributes, kind=kind, context=caller, started_ns=started_ns
            )
        self.intervals = IntervalRecorder()  # its own, not those of a stream below
        self._gaps = None if self.is_spared else recorder.open_requests.begin(on_loop=on_loop)
        if self._gaps is not None:
            self._gaps.request = self
            if wait is not None:
                _record(recorder, self._gaps, self.timing.span, wait)
        self._token: Token[Context] | None = None
        self._noted: HookAttributes = {}  # set at its end, all at once
        self.stages: ServerTiming | None = None  # None: they are not asked for
        self.has_ended = False

    @property
    def answering(self) -> AnswerStream | Answering | None:
        """Return the answer, or what makes it once it is asked for; None: it is not streamed."""
        return self.answer

    @property
    def answer_made(self) -> AnswerStream | None:
        """Return the answer, as far as anything is known of it."""
        return self.answer

    def activate(self) -> None:
        """Make the request's span current, and its answer known to the models that make it."""
        try:
            span = self.timing.span
            around = current() if self._carried is None else {**current(), **self._carried}
            entries = {**around, _SPAN_KEY: span, GAPS: self._gaps, REQUEST: self}
            if self.is_spared:
                entries[SPARED] = True
            elif self.answering is not None:
                entries[ANSWER] = self.answering
            self._token = enter(Context(entries))
        except FAULTS as fault:
            self.recorder.on_fault("making a request current", fault)

    def deactivate(self) -> None:
        """Make the span before it current again."""
        try:
            token, self._token = self._token, None
            if token is not None:
                leave(token)
        except FAULTS as fault:
            self.recorder.on_fault("leaving a request", fault)

    def ran_until(self, now_ns: int) -> None:
        """Note that a step of it has run, of which nothing is current once its callback ends."""
        if self._gaps is not None:
            self._gaps.ran_ns = now_ns

    def time_stages(self) -> None:
        """Collect its stages for the header `Server-Timing`, if they are asked for."""
        self.stages = self.recorder.server_timings.begin(self.timing.span, self.timing.started_ns)

    def note_status(self, status: int) -> None:
        self._noted[semconv.HTTP_RESPONSE_STATUS_CODE] = status
        if status >= _FIRST_SERVER_ERROR:
            known: Mapping[str, object] = getattr(self.timing.span, "attributes", None) or {}
            if semconv.ERROR_TYPE not in known:  # what was raised says more
                self._noted[semconv.ERROR_TYPE] = str(status)
            self.timing.span.set_status(StatusCode.ERROR)
            self.answers_failure()

    def answers_failure(self) -> None:
        """Prepare for what may be raised behind an answer that says that the server failed."""

    def fail(self, error: BaseException) -> None:
        """Note what the application raised, or that the caller is gone."""
        try:
            if self.has_ended and not isinstance(error, Exception):
                return  # cancelled when it had answered
            if self.timing.span.is_recording():  # the SDK's spans complain once they have ended
                self.timing.note(self._noted)
                self._noted = {}  # for what is raised goes before a status
                self.timing.fail(error)
        except FAULTS as fault:
            self.recorder.on_fault("noting an exception", fault)

    def has_left(self) -> None:
        """End with the last byte of the answer."""
        self.end()

    def end(self) -> None:
        """End the span; a second time changes nothing."""
        if self.has_ended:
            return
        self.has_ended = True
        try:
            if self._gaps is not None:
                self.recorder.open_requests.end(self._gaps)
            if self.timing.span.is_recording():
                self.describe()
                self.timing.note(self._noted)
                self.timing.end()
            if self._gaps is not None:
                _note_end(self, self._gaps)
            if self.connection is not None:
                answered(self.connection)
            if self.stages is not None:
                self.recorder.server_timings.end(self.stages)
        except FAULTS as fault:
            self.recorder.on_fault("ending a request", fault)

    def describe(self) -> None:
        """Note what is known of it only now, at its end."""
        self.settle_route()
        timing, detail = self.timing, self.recorder.detail
        if self._gaps is None:
            return
        self._noted |= self._gaps.described(timing.started_ns, self.intervals)
        lacks = least(self._lacks, detail.lacks)  # of when it began, and of now
        if lacks is not None:
            self._noted[semconv.DETAIL] = lacks.value
        self.describe_answer()

    def describe_answer(self) -> None:
        """Note its answer, and the work within its span."""
        timing, answer, detail = self.timing, self.answer_made, self.recorder.detail
        if answer is None or not (answer.streams or answer.held):
            timing.intervals = self.intervals if detail.intervals else None
            return
        stages = self.intervals.give_away()
        detail.chunks += answer.chunks_in(stages)
        if not detail.intervals:
            stages = {}
        weight = answer.weight + weight_of(stages)
        timing.defer(
            semconv.TOKEN_TIMES,
            Deferred(StreamedAttributes(answer, stages, timing.started_ns), weight),
        )


class HeldTiming(Timing):
    """A span that ends when its answer has left, and is released once it is known why that failed.

    Starlette sends all of a 500 before it raises what a handler raised.
    """

    __slots__ = ("_left_ns",)

    def __init__(self, timing: Timing) -> None:
        super().__init__(timing.span, timing.started_ns, timing.pending)
        self._left_ns: int | None = None

    def end(self, ended_ns: int | None = None) -> None:
        if self.intervals is not None:
            self.defer(semconv.INTERVALS, self.intervals.taken(self.started_ns))
            self.intervals = None
        if self._left_ns is None:
            self._left_ns = monotonic_ns() if ended_ns is None else ended_ns

    def let_go(self) -> None:
        """End the span, at that time."""
        super().end(self._left_ns)


class StreamedAttributes:
    """The attributes of a streamed answer, whose last chunks may not be read yet."""

    __slots__ = ("_answer", "_span_start_ns", "_stages")

    def __init__(self, answer: AnswerStream, stages: Stages, span_start_ns: int) -> None:
        self._answer = answer
        self._stages = stages
        self._span_start_ns = span_start_ns

    def __call__(self) -> dict[str, AttributeValue]:
        """Work them out."""
        answer, stages, start_ns = self._answer, self._stages, self._span_start_ns
        return {**answer.described(start_ns), **answer.sends_described(stages, start_ns)}


if core is not None:
    core.bind_streams(
        AnswerStream,
        AnswerStream([]),
        AnswerEvents,
        TokenRecorder,
        StreamedAttributes,
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        semconv.TOKEN_TIMES,
        semconv.STREAMED_CHOICES,
        semconv.STREAMED_TOKENS,
        semconv.STREAMED_EVENTS,
    )


def is_served() -> bool:
    """Say whether the current span is that of a request that is served."""
    span = current().get(_SPAN_KEY)
    return (
        span is not None
        and isinstance(span, Span)
        and span.is_recording()
        and getattr(span, "kind", None) is _SERVER
    )


def joined_caller(recorder: Recorder, headers: Any) -> Token[Context] | None:
    """Make a WebSocket's caller current: a connection may live for hours, and is no request."""
    with guarded("joining the caller's trace", recorder.on_fault):
        if not (get_current_span().get_span_context().is_valid or recorder.suppressed()):
            return enter(propagation.extract(headers))
    return None


def request_served() -> ServedRequest | None:
    """Return the request that the current code serves, whatever spans are around; None: none."""
    found = current().get(REQUEST)
    return found if isinstance(found, ServedRequest) and not found.has_ended else None


def _waited(
    recorder: Recorder, attributes: HookAttributes, arrived_ns: int, started_ns: int | None
) -> Wait | None:
    """Return how long a request waited for its turn; a proxy's queue ends where that begins."""
    until_ns = monotonic_ns() if started_ns is None else started_ns
    wait = recorder.open_requests.holds.wait(arrived_ns, until_ns)
    queued_ns = attributes.get(semconv.QUEUED_NS)
    if wait is not None and isinstance(queued_ns, int):
        attributes[semconv.QUEUED_NS] = max(queued_ns - (until_ns - wait.since_ns), 0)
    return wait


def _record(recorder: Recorder, gaps: RuntimeGaps, span: Span, wait: Wait) -> None:
    """Record a wait as the first thing within a request's span."""
    gaps.concurrency += wait.behind
    within, had_processor_ns = (
        set_span_in_context(span, Context()),
        wait.since_ns + wait.processor_ns,
    )
    if wait.processor_ns:
        recorder.start(
            PROCESSOR_WAIT, Stage.RUNTIME, context=within, started_ns=wait.since_ns
        ).end(had_processor_ns)
    if had_processor_ns < wait.until_ns:
        waited_for = "worker" if gaps.loop_thread is None else "event loop"
        name = f"{waited_for} held by {wait.by}" if wait.by else "waiting to be read"
        recorder.start(name, Stage.QUEUE, context=within, started_ns=had_processor_ns).end(
            wait.until_ns
        )


def _note_end(request: ServedRequest, gaps: RuntimeGaps) -> None:
    """Note that a thread could serve no other request meanwhile."""
    requests = request.recorder.open_requests
    if gaps.loop_thread is not None:
        requests.last_served = request.timing.span
    elif (now_ns := monotonic_ns()) - (came_ns := request.timing.started_ns) >= NOTICED_NS:
        requests.holds.note(came_ns, now_ns, request.title, came_ns)


def queue_attributes(values: Iterable[Any]) -> HookAttributes:
    """Read how long a request waited behind a proxy out of the values of its headers."""
    attributes: HookAttributes = {}
    for value in values:
        waited_ns = queued_ns(str(value))
        if waited_ns is not None:
            attributes[semconv.QUEUED_NS] = waited_ns
    return attributes
