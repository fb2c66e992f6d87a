"""The span object itself: OpenTelemetry's interface in `__slots__`.

Speed is the point here: a span costs about a tenth of the SDK's on the serving thread
(`tests/benchmarks/bench_span.py`). So there is no `__init__`, no lock, and whatever
most spans never need (events, links, status, a SpanContext) is made when asked for.
"""

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, Self, TypeVar, cast

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceState,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.compiled.core import quicker
from latencytrace.agent.context import current, enter, leave
from latencytrace.agent.guard import FAULTS, attempted, contained, edge_faults, text_of
from latencytrace.agent.spans.attributes import (
    MOST_DEFERRED,
    SCALARS,
    Deferred,
    copied_attributes,
    drop_oldest,
)
from latencytrace.agent.spans.current_span import traced_calls
from latencytrace.agent.spans.sdk_view import (
    EMPTY_STATE,
    SAMPLED,
    SAMPLED_RANDOM,
    SdkView,
    ViewedTracer,
)
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue

FRAMES: Final = 200  # the innermost; a recursion that went too deep has thousands


def stack_text(error: BaseException) -> str:
    """Return what Python would print of an exception.

    Of a deep stack the innermost frames without their lines of code: to find those takes
    0.05 ms a frame, and an exception may be noted by each of the spans that it passes.
    """
    frames = deque(traceback.walk_tb(error.__traceback__), maxlen=FRAMES + 1)
    if len(frames) <= FRAMES:
        return "".join(traceback.format_exception(error, limit=-FRAMES))
    frames.popleft()
    places = (
        f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}\n'
        for frame, line in frames
    )
    what = traceback.format_exception_only(error)
    return "".join(("Traceback (most recent call last):\n  ...\n", *places, *what))


if TYPE_CHECKING:
    from contextvars import Token

P = ParamSpec("P")
R = TypeVar("R")


def recorded_in(context: Context) -> "RecordedSpan | None":
    """Return the span of ours that is current in a context; None: none, or another library's."""
    span = context.get(_SPAN_KEY)
    return span if type(span) is RecordedSpan else None


class Details:
    """Parts that few spans have: events, links, a status, a parent in another process."""

    __slots__ = (
        "description",
        "dropped_attributes",
        "dropped_events",
        "dropped_links",
        "events",
        "links",
        "random_id",
        "remote_parent",
        "status",
        "trace_state",
    )

    def __init__(self) -> None:
        self.events: list[tuple[str, int, dict[str, AttributeValue]]] = []
        self.links: list[tuple[SpanContext, dict[str, AttributeValue]]] = []
        self.status = StatusCode.UNSET
        self.description: str | None = None
        self.trace_state: TraceState | None = None
        self.remote_parent = False
        self.random_id = True  # whether the trace's id is said to be random
        self.dropped_attributes = self.dropped_events = self.dropped_links = 0


class SpanMaker(ViewedTracer, Protocol):
    """A tracer, as far as its spans need it."""

    on_end: "Callable[[RecordedSpan], None]"  # takes each span that ends

    def start_as_current_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, object] | None = None,
        *,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> AbstractContextManager[Span]:
        """Start a span that is current inside the `with`."""
        ...


class BlockMaker(SpanMaker, Protocol):
    """A tracer of spans that begin where they are entered."""

    def moved(self, span: "RecordedSpan", here: Context) -> Span | None:
        """Hang a span of `start_as_current_span` into the context that it is entered in."""
        ...


def _worth_a_link(context: SpanContext, attributes: Mapping[str, object] | None) -> bool:
    """Tell whether a link says anything: without ids by its attributes or trace state."""
    return bool(context) and (context.is_valid or bool(attributes or context.trace_state))


def _renew(raw: dict[str, AttributeValue], new: Mapping[str, AttributeValue]) -> None:
    """Make attributes the newest, of which some were there before, as in the SDK."""
    for key, value in new.items():
        del raw[key]
        raw[key] = value


def _take_back(raw: dict[str, AttributeValue], attributes: Mapping[str, object]) -> None:
    """Leave out what is None now."""
    for key, value in list(attributes.items()):
        if value is None:
            raw.pop(key, None)


class RecordedSpan(SdkView):
    """One span of ours; made by a tracer, never by itself.

    It is its own context manager and its own entry in the exporter's queue. Times
    are monotonic nanoseconds; `start_time` and `end_time` are those of the wall.
    """

    __slots__ = (
        "attached",
        "details",
        "ended_ns",
        "forks",
        "kind_number",
        "mark_error",
        "name",
        "parent_context",
        "parent_id",
        "raw_attributes",
        "record_error",
        "span_context",
        "span_id",
        "started_ns",
        "token",
        "trace_id",
        "tracer",
    )
    name: str
    trace_id: int
    span_id: int
    parent_id: int  # 0: a root
    kind_number: int  # SpanKind's value
    started_ns: int  # 0: a block that is not entered yet
    ended_ns: int  # 0: still recording
    forks: int  # behind the process that it started in
    raw_attributes: dict[str, AttributeValue] | None  # before their lengths are limited
    details: Details | None
    tracer: "SpanMaker"
    span_context: SpanContext | None
    parent_context: Context | None  # of `start_as_current_span`: what to hang it into
    token: "Token[Context] | None"
    attached: bool
    record_error: bool  # as an event
    mark_error: bool  # as the status

    # --- OpenTelemetry's Span

    def get_span_context(self) -> SpanContext:
        """Identify this span to its children."""
        context = self.span_context
        if context is None:
            details = self.details
            context = self.span_context = SpanContext(
                self.trace_id,
                self.span_id,
                is_remote=False,
                trace_flags=SAMPLED_RANDOM if details is None or details.random_id else SAMPLED,
                trace_state=(details.trace_state if details else None) or EMPTY_STATE,
            )
        return context

    def is_recording(self) -> bool:
        """Tell whether the span has not ended yet."""
        return self.ended_ns == 0

    def set_attribute(self, key: str, value: object) -> None:
        """Set one attribute; a value that is no scalar is copied or left out."""
        try:
            if self.ended_ns:
                return
            raw = self.raw_attributes
            if type(value) not in SCALARS or not key:
                self.set_attributes({key: value})
            elif raw is None:
                self.raw_attributes = {key: value}  # type: ignore[dict-item]  # a scalar, as was just checked
            else:
                count = len(raw)
                raw[key] = value  # type: ignore[assignment]  # a value of its own kind
                if len(raw) == count:  # set again, so it is the newest, as in the SDK
                    raw[key] = raw.pop(key)
                elif count >= self.tracer.limits.attributes:
                    self.shed(raw)
        except FAULTS as fault:
            edge_faults("setting an attribute", fault)

    def set_attributes(self, attributes: Mapping[str, object]) -> None:
        try:
            if self.ended_ns:
                return
            copied, raw = copied_attributes(attributes), self.raw_attributes
            if "" in copied:  # an empty key says nothing
                del copied[""]
                self._details().dropped_attributes += 1
            if raw is None:
                raw = self.raw_attributes = {}
            count = len(raw) + len(copied)
            if count > self.tracer.limits.attributes:
                self._push(raw, copied)
            else:
                raw.update(copied)
                if len(raw) < count:
                    _renew(raw, copied)
            if len(copied) < len(attributes):
                _take_back(raw, attributes)
        except FAULTS as fault:
            edge_faults("setting attributes", fault)

    @contained("adding an event")
    def add_event(
        self,
        name: str,
        attributes: Mapping[str, object] | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Note something that happened at one instant (wall time in nanoseconds)."""
        if self.ended_ns:
            return
        at = timestamp if timestamp is not None else monotonic_ns() + ANCHOR_NS
        details = self._details()
        details.events.append((name, at, copied_attributes(attributes or {})))
        if len(details.events) > self.tracer.limits.events:
            del details.events[0]
            details.dropped_events += 1

    @contained("adding a link")
    def add_link(
        self, context: SpanContext, attributes: Mapping[str, object] | None = None
    ) -> None:
        """Refer to a span that shared work with this one."""
        if self.ended_ns or not _worth_a_link(context, attributes):
            return
        details = self._details()
        details.links.append((context, copied_attributes(attributes or {})))
        if len(details.links) > self.tracer.limits.links:
            del details.links[0]
            details.dropped_links += 1

    @contained("adding links")
    def add_links(self, links: Iterable[Link | None]) -> None:
        """Refer to spans, those of them that can be referred to."""
        for link in links:
            if link:
                self.add_link(link.context, link.attributes)

    def link_member(self, context: SpanContext, attributes: Mapping[str, AttributeValue]) -> None:
        """Refer to a member of a batch: of those no limit leaves any out."""
        self._details().links.append((context, dict(attributes)))

    def update_name(self, name: str) -> None:
        if not self.ended_ns:
            self.name = name

    @contained("setting a status")
    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status; as in the SDK, OK is final and UNSET is ignored."""
        code = status.status_code if isinstance(status, Status) else status
        if self.ended_ns or code is StatusCode.UNSET or not isinstance(code, StatusCode):
            return
        details = self._details()
        if details.status is StatusCode.OK:
            return
        details.status = code
        if isinstance(status, Status):
            description = status.description
        details.description = description if code is StatusCode.ERROR else None

    @contained("recording an exception")
    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, object] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
    ) -> None:
        """Note an exception as OpenTelemetry's event of that name."""
        kind = type(exception)
        name = kind.__qualname__
        if kind.__module__ and kind.__module__ != "builtins":
            name = f"{kind.__module__}.{name}"
        noted: dict[str, object] = {
            semconv.EXCEPTION_TYPE: name,
            semconv.EXCEPTION_MESSAGE: text_of(exception),
            semconv.EXCEPTION_STACKTRACE: attempted(lambda: stack_text(exception), otherwise=""),
            "exception.escaped": str(escaped),
        }
        self.add_event(semconv.EXCEPTION_EVENT, {**noted, **(attributes or {})}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """End the span and hand it to the exporter; a second call changes nothing."""
        try:
            now = monotonic_ns() if end_time is None else end_time - ANCHOR_NS
            if self.ended_ns:  # no other thread comes in between this and the next line
                return
            self.ended_ns = now
            if not self.started_ns:  # a block that was never entered
                self.started_ns = now
            self.parent_context = None
            self.tracer.on_end(self)
        except FAULTS as fault:
            edge_faults("ending a span", fault)

    # --- as a context manager and as a decorator

    @quicker("span_enter")
    def __enter__(self) -> Self:
        try:
            around = self.parent_context
            if around is not None:
                if not self.started_ns:  # of `start_as_current_span`: it begins only now
                    here = current()
                    if here is not around:
                        return cast("Self", _entered_elsewhere(self, here))
                    self.started_ns = monotonic_ns()
                entries = {**around}
                entries[_SPAN_KEY] = self  # set apart it takes a quarter less than in a display
                self.token = enter(Context(entries))
        except FAULTS as fault:
            edge_faults("making a span current", fault)
        return self

    @quicker("span_exit", edge_faults)
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        try:
            token = self.token
            if token is not None:
                self.token = None
                leave(token)
            elif not self.started_ns:
                self.started_ns = monotonic_ns()
            if exc_val is not None and not self.ended_ns:
                self._note(exc_val, escaped=token is None)
            now = monotonic_ns()
            if self.attached and not self.ended_ns:  # as `end` does, a call less
                self.ended_ns = now
                self.parent_context = None
                self.tracer.on_end(self)
        except FAULTS as fault:
            edge_faults("leaving a span", fault)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate: each call of the function is a span of its own; this one is dropped."""
        again = partial(
            self.tracer.start_as_current_span, self.name, kind=self.kind,
            attributes=self.raw_attributes, record_exception=self.record_error,
            set_status_on_exception=self.mark_error, end_on_exit=self.attached,
        )  # fmt: skip
        return traced_calls(function, again)

    # --- itself

    def _note(self, error: BaseException, *, escaped: bool) -> None:
        """Note the error of the block; of a current span exceptions only, as in the SDK."""
        if not (escaped or isinstance(error, Exception)):
            return
        if self.record_error:
            self.record_exception(error, escaped=escaped)
        if self.mark_error:
            self.set_status(StatusCode.ERROR, f"{type(error).__name__}: {text_of(error)}")

    def _push(self, raw: dict[str, AttributeValue], new: Mapping[str, AttributeValue]) -> None:
        """Add attributes one by one, since each may push an older one out."""
        for key, value in new.items():
            raw.pop(key, None)
            raw[key] = value
            self.shed(raw)

    def shed(self, raw: dict[str, AttributeValue]) -> None:
        """Leave out the oldest attributes beyond the limit, counted."""
        details = self._details()
        while raw and len(raw) > self.tracer.limits.attributes:
            drop_oldest(raw)
            details.dropped_attributes += 1

    def _details(self) -> Details:
        if self.details is None:
            self.details = Details()
        return self.details


def _entered_elsewhere(span: RecordedSpan, here: Context) -> Span:
    """Begin a block in another context than that in which it was made; return what is current."""
    other = cast("BlockMaker", span.tracer).moved(span, here)
    span.parent_context, span.started_ns = here, monotonic_ns()
    if other is not None:
        span.attached = span.record_error = span.mark_error = False
    shown = span if other is None else other
    span.token = enter(Context({**here, _SPAN_KEY: shown}))
    return shown


def defer(span: RecordedSpan, key: str, deferred: Deferred) -> None:
    """Have attributes of ours worked out when a span is sent; called as it ends."""
    if span.ended_ns:
        return
    raw = span.raw_attributes
    if raw is None:
        raw = span.raw_attributes = {}
    if len(raw) + MOST_DEFERRED > span.tracer.limits.attributes:  # it may push others out
        span.set_attributes(deferred.attributes())
    else:
        raw[key] = deferred  # type: ignore[assignment] # computed when they are read
