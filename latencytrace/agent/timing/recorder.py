"""Starts the spans that hooks record: of a stage, through OpenTelemetry's interface.

The tracer behind it is ours, or the program's own where it has one; a hook cannot tell.
"""

from collections.abc import Collection, Mapping
from contextvars import Token

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # that the SDK sets around its exporters' posts
    Context,
    create_key,
    set_value,
)
from opentelemetry.context import get_value as context_value
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.budget.detail import SPARED, Detail
from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.compiled.core import core, quicker
from latencytrace.agent.context import current, enter, leave
from latencytrace.agent.device.pending_spans import PendingDeviceSpans
from latencytrace.agent.device.timers import DeviceTimers, no_events
from latencytrace.agent.guard import FAULTS, OnFault, edge_faults
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.spans.span import RecordedSpan, defer
from latencytrace.agent.spans.tracer import RecordingTracer
from latencytrace.agent.timing.counts import BatchTally, ModelSteps
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.runtime_gaps import OpenRequests
from latencytrace.agent.timing.server_timing import ServerTimings
from latencytrace.agent.timing.starting import Starting
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage

INTERVALS_KEY = create_key("latencytrace.intervals")
SUPPRESSED = "suppress_instrumentation"  # the key that instrumentations set
_INTERNAL, _SERVER = SpanKind.INTERNAL, SpanKind.SERVER
_new = object.__new__


class Recorder:
    """Starts spans for hooks; one for all of them, with what they share.

    Args:
        detail: In which requests are traced; None: always in full detail.
        propagate_to: Patterns of hosts that get headers; none: all do.
    """

    __slots__ = (
        "batches",
        "detail",
        "devices",
        "on_fault",
        "open_requests",
        "propagate_to",
        "server_timings",
        "starting",
        "steps",
        "tracer",
        "waiting",
    )

    def __init__(
        self,
        tracer: Tracer,
        on_fault: OnFault,
        detail: Detail | None = None,
        propagate_to: tuple[str, ...] = (),
    ) -> None:
        self.tracer = tracer
        self.detail = detail or Detail()
        self.on_fault = on_fault
        self.batches = BatchTally()
        self.steps = ModelSteps()
        self.devices = DeviceTimers(no_events)
        self.open_requests = OpenRequests(on_fault, self.detail)
        self.server_timings = ServerTimings(on_fault)
        self.propagate_to = propagate_to
        self.starting = Starting()
        self.waiting: set[int] = set()  # tickets that no batch has served yet, by their `id`

    def start(
        self,
        name: str,
        stage: Stage | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        context: Context | None = None,
        started_ns: int | None = None,
    ) -> "Timing":
        """Start a span that is not current yet.

        Args:
            name: Of low cardinality.
            stage: None for a framework span, which explains nothing by itself.
            attributes: Scalars only.
            context: Where its parent is; None: the current one.
            started_ns: A monotonic time; None: now.
        """
        detail, pending = self.detail, self.devices.pending
        if detail.spares and kind is not _SERVER:
            here = current() if context is None else context
            if SPARED in here:
                spared = NonRecordingSpan(get_current_span(here).get_span_context())
                at_ns = monotonic_ns() if started_ns is None else started_ns
                return Timing(spared, at_ns, pending)
        noted = attributes
        if stage is not None or detail.lacks is not None or self.starting.under_way:
            noted = self._noted(stage, attributes or {}, kind, context)
        tracer = self.tracer
        if started_ns is None and type(tracer) is RecordingTracer and tracer.delegate is None:
            span = tracer.start_span(name, context, kind, noted, None, None, False, False)  # noqa: FBT003 - by place: CPython calls so the fastest
            # If not ours, it was decided on: to start it again would be to draw again.
            began_ns = span.started_ns if type(span) is RecordedSpan else monotonic_ns()
            return Timing(span, began_ns, pending)
        began_ns = monotonic_ns() if started_ns is None else started_ns
        at_ns = began_ns + ANCHOR_NS
        span = tracer.start_span(name, context, kind, noted, None, at_ns, False, False)  # noqa: FBT003 - likewise
        return Timing(span, began_ns, pending)

    def _noted(
        self,
        stage: Stage | None,
        attributes: Mapping[str, AttributeValue],
        kind: SpanKind,
        context: Context | None,
    ) -> Mapping[str, AttributeValue]:
        noted = {**attributes}
        if stage is not None:
            noted[semconv.STAGE] = stage.value
        if self.starting.under_way and kind is not _SERVER and _is_root(context):
            noted[semconv.STARTUP] = True
        lacks = self.detail.lacks
        if lacks is not None and (kind is _SERVER or _is_root(context)):
            noted.setdefault(semconv.DETAIL, lacks.value)
        return noted

    @quicker("start_call")
    def start_call(
        self,
        timing: "Timing",
        name: str,
        noted: Mapping[str, AttributeValue],
        here: Context,
        kind: SpanKind = _INTERNAL,
    ) -> None:
        """Start the span of a call now, as `start` does, but quicker.

        Args:
            timing: What is to hold it, made without `__init__`.
            name: Of low cardinality.
            noted: Scalars, its stage among them.
            kind: OpenTelemetry's; no server's.
        """
        lacks = self.detail.lacks
        if (lacks is not None or self.starting.under_way) and _is_root(here):
            noted = {**noted}
            if self.starting.under_way:
                noted[semconv.STARTUP] = True
            if lacks is not None:
                noted.setdefault(semconv.DETAIL, lacks.value)
        timing.pending = self.devices.pending
        timing.intervals = timing.token = None
        tracer = self.tracer
        if type(tracer) is RecordingTracer and tracer.delegate is None:
            span = tracer.start_span(name, here, kind, noted, None, None, False, False)  # noqa: FBT003 - by place: CPython calls so the fastest
            timing.span = span
            # If not ours, it was decided on: to start it again would be to draw again.
            timing.started_ns = span.started_ns if type(span) is RecordedSpan else monotonic_ns()
            return
        timing.started_ns = monotonic_ns()
        timing.span = tracer.start_span(
            name,
            here,
            kind,
            noted,
            start_time=timing.started_ns + ANCHOR_NS,
            record_exception=False,
            set_status_on_exception=False,
        )

    def reset_after_fork(self) -> None:
        """In a forked child: keep nothing of the parent's."""
        self.batches = BatchTally()
        self.starting = Starting()
        self.waiting = set()
        self.devices.reset_after_fork()
        self.open_requests.reset_after_fork()

    @property
    def decides(self) -> bool:
        """Tell whether it is ours to decide on a request: no other tracer samples."""
        return self.detail.spares and getattr(self.tracer, "delegate", self) is None

    @staticmethod
    def inside(*stages: Stage) -> bool:
        """Tell whether the current span is of such a stage, so that a call is its inner one."""
        return is_inside(current(), stages)

    @staticmethod
    def suppressed() -> bool:
        """Tell whether recording is suppressed here."""
        return is_suppressed(current())

    @staticmethod
    def suppressing() -> Context:
        return set_value(SUPPRESSED, value=True)

    @staticmethod
    def stream() -> IntervalRecorder | None:
        """Return where interleaved work is noted, inside a stream; None outside."""
        intervals = context_value(INTERVALS_KEY)
        return intervals if isinstance(intervals, IntervalRecorder) else None


def is_suppressed(context: Context) -> bool:
    """Tell whether recording is suppressed in a context."""
    return bool(context.get(SUPPRESSED) or context.get(_SUPPRESS_INSTRUMENTATION_KEY))


def is_inside(context: Context, stages: Collection[str]) -> bool:
    """Tell whether the span of a context is of such a stage, and still under way.

    It is not in a task that outlives the call that started it.
    """
    span = context.get(_SPAN_KEY)
    if type(span) is RecordedSpan:
        raw = span.raw_attributes
        return raw is not None and raw.get(semconv.STAGE) in stages and not span.ended_ns
    if span is None or not isinstance(span, Span):
        return False
    attributes = getattr(span, "attributes", None)
    return (
        isinstance(attributes, Mapping)
        and attributes.get(semconv.STAGE) in stages
        and span.is_recording()
    )


def _is_root(context: Context | None) -> bool:
    return not get_current_span(context).get_span_context().is_valid


class Timing:
    """A span under way, and the work interleaved with it."""

    __slots__ = ("intervals", "pending", "span", "started_ns", "token")

    def __init__(self, span: Span, started_ns: int, pending: PendingDeviceSpans) -> None:
        self.span = span
        self.started_ns = started_ns
        self.pending = pending
        self.intervals: IntervalRecorder | None = None
        self.token: Token[Context] | None = None

    def collect_intervals(self) -> IntervalRecorder:
        """Begin to collect interleaved work on this span."""
        self.intervals = IntervalRecorder()
        return self.intervals

    def context(self) -> Context:
        """Return the current context with this span in it, and with its intervals if any."""
        if self.intervals is None:
            return Context({**current(), _SPAN_KEY: self.span})
        return Context({**current(), _SPAN_KEY: self.span, INTERVALS_KEY: self.intervals})

    @quicker("activate_timing")
    def activate(self) -> None:
        """Make the span current until `deactivate`, in the same task and thread."""
        try:
            entries = {**current()}
            entries[_SPAN_KEY] = self.span
            if self.intervals is not None:
                entries[INTERVALS_KEY] = self.intervals
            self.token = enter(Context(entries))
        except FAULTS as fault:
            edge_faults("making a span current", fault)

    @quicker("deactivate_timing", edge_faults)
    def deactivate(self) -> None:
        """Make the span before it current again."""
        token, self.token = self.token, None
        try:
            if token is not None:
                leave(token)
        except FAULTS as fault:
            edge_faults("making the span before it current", fault)

    def note(self, attributes: Mapping[str, AttributeValue]) -> None:
        self.span.set_attributes(attributes)

    def defer(self, key: str, deferred: Deferred | None) -> None:
        """Have attributes worked out when the span is sent, where it is ours; None: none are."""
        if deferred is None:
            return
        if type(self.span) is RecordedSpan:
            defer(self.span, key, deferred)
        else:
            self.span.set_attributes(deferred.attributes())

    def fail(self, error: BaseException) -> None:
        """Note that the call raised: its type only, for its text may hold a prompt."""
        if not self.span.is_recording():
            return
        name = type(error).__qualname__
        if isinstance(error, Exception):
            self.span.set_attribute(semconv.ERROR_TYPE, name)
            self.span.set_status(StatusCode.ERROR)
        elif name in {"CancelledError", "GeneratorExit"}:
            self.span.set_attribute(semconv.CANCELLED, value=True)
        else:
            self.span.set_attribute(semconv.ERROR_TYPE, name)

    @quicker("end_timing", edge_faults)
    def end(self, ended_ns: int | None = None) -> None:
        """End the span at a monotonic time, or now, with its intervals packed; only once."""
        span = self.span
        # The SDK's span would warn of a second end.
        if span.ended_ns if type(span) is RecordedSpan else not span.is_recording():
            return
        if self.intervals is not None:
            self.defer(semconv.INTERVALS, self.intervals.taken(self.started_ns))
        at_ns = monotonic_ns() if ended_ns is None else ended_ns
        if self.pending.waiting:  # what ends behind work on a device has often waited for it
            self.pending.settle()
        if type(span) is not RecordedSpan:
            span.end(at_ns + ANCHOR_NS)
            return
        try:  # as its `end` does, a call less
            if span.ended_ns:  # meanwhile, as by another thread; none comes in between now
                return
            span.ended_ns = at_ns
            span.parent_context = None
            span.tracer.on_end(span)
        except FAULTS as fault:
            edge_faults("ending a span", fault)


if core is not None:
    core.bind_recorder(Recorder, Timing, Starting)
