"""Our tracers: ids, the parent, the sampled flag."""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, cast

from opentelemetry.context import Context, create_key
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    NoOpTracer,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    get_current_span,
    use_span,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.compiled.core import core, quicker
from latencytrace.agent.context import current
from latencytrace.agent.guard import FAULTS, edge_faults
from latencytrace.agent.process.forks import in_child
from latencytrace.agent.spans.attributes import SCALARS, copied_attributes
from latencytrace.agent.spans.current_span import CurrentSpan
from latencytrace.agent.spans.processors import ProgramProcessors
from latencytrace.agent.spans.span import Details, RecordedSpan
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.span_limits import SpanLimits

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.util.types import AnyValue

_new = object.__new__
TRACE_ID = create_key("latencytrace.trace_id")  # in a context: of the trace that begins there
_INTERNAL = SpanKind.INTERNAL  # which takes longer to look up than to compare
_RANDOM = 0x02  # W3C's flag of a random trace id

# Our own generator: programs call `random.seed(0)`, and their ids would repeat.
_random = random.Random()  # noqa: S311 - ids are unique, not secret
random_bits = _random.getrandbits
_forks = 0  # behind this process: a span from before the last one is the parent's to send


def _after_fork() -> None:
    global _forks  # noqa: PLW0603 - one number a process
    _forks += 1
    if core is not None:
        core.note_forks(_forks)
    _random.seed()


in_child(_after_fork)


def started_here(span: RecordedSpan) -> bool:
    """Tell whether a span started in this process, not in the one that it was forked from."""
    return span.forks == _forks


def take_over(span: RecordedSpan) -> RecordedSpan:
    """Mark a span as one of this process, which is to send it."""
    span.forks = _forks
    return span


def new_id(bits: int) -> int:
    """Return random bits that are not all zero."""
    identifier = random_bits(bits)
    return identifier or new_id(bits)  # zero means "no id"


# Takes a span that begins a trace, and its attributes; returns what is to stand in its place,
# or None: it is recorded.
Roots = Callable[[RecordedSpan, Mapping[str, object] | None], Span | None]


def discard(_span: RecordedSpan) -> None:
    """Take a span that ended while no agent runs."""


def inherited(parent: Details) -> Details | None:
    """Return a child's share of its parent's: the trace state, and whether the id is random."""
    if not parent.trace_state and parent.random_id:
        return None
    details = Details()
    details.trace_state = parent.trace_state
    details.random_id = parent.random_id
    return details


def block_of(span: Span, *, end_on_exit: bool) -> AbstractContextManager[Span]:
    """Return a block that makes a span current which has just been started."""
    if not isinstance(span, RecordedSpan):  # it records nothing, so nothing is noted
        return use_span(span, end_on_exit=end_on_exit)
    span.parent_context = current()
    span.attached = end_on_exit
    return span


class Scope(NamedTuple):
    """An instrumentation scope of OpenTelemetry."""

    name: str
    version: str | None
    schema_url: str | None = None
    attributes: tuple[tuple[str, AttributeValue], ...] = ()


class RecordingTracer(Tracer):
    """Makes `RecordedSpan`s for one instrumentation scope."""

    __slots__ = (
        "attributes",
        "delegate",
        "limits",
        "name",
        "on_end",
        "processors",
        "roots",
        "schema_url",
        "version",
    )

    encoded_resource: bytes | None = None  # that of this process
    _tracer = NoOpTracer()  # as a `ProxyTracer` has it while no provider is set: LangSmith asks

    def __init__(self, scope: "Scope", processors: ProgramProcessors) -> None:
        self.name, self.version, self.schema_url = scope[:3]
        self.attributes = dict(scope.attributes)
        self.processors = processors
        self.limits = SpanLimits()
        self.on_end: Callable[[RecordedSpan], None] = discard  # takes each span that ends
        self.roots: Roots | None = None  # decides on spans that begin a trace
        self.delegate: Tracer | None = None  # the program's own, or one that asks a sampler

    @property
    def resource(self) -> "Resource":
        """Return what this process is."""
        return self.processors.resource

    @property
    def is_direct(self) -> bool:
        """Tell whether a span goes to the exporter alone, through no code of the program's."""
        return self.delegate is None and self.processors.on_start is None

    @quicker("start_span")
    def start_span(  # noqa: C901, PLR0912 - OpenTelemetry's signature; a call costs
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, object] | None = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002
    ) -> Span:
        """Start a span that is not current; it does not record if the parent is not sampled."""
        if self.delegate is not None:
            return self.delegate.start_span(
                name, context, kind, cast("Mapping[str, AnyValue] | None", attributes),
                links, start_time, record_exception, set_status_on_exception,
            )  # fmt: skip
        try:
            here = current() if context is None else context
            parent = here.get(_SPAN_KEY)
            span = _new(RecordedSpan)
            span.details = None
            if type(parent) is RecordedSpan:
                span.trace_id = parent.trace_id
                span.parent_id = parent.span_id
                if parent.details is not None:
                    span.details = inherited(parent.details)
            else:
                unsampled = _adopted(span, parent, here, attributes, self.roots)
                if unsampled is not None:
                    return unsampled
            span.span_id = random_bits(64) or new_id(64)
            span.name = name
            span.tracer = self
            span.ended_ns = 0
            span.forks = _forks
            span.kind_number = 0 if kind is _INTERNAL else kind.value
            span.raw_attributes = span.span_context = span.parent_context = span.token = None
            if attributes:
                if type(attributes) is dict:
                    raw = attributes.copy()
                else:
                    raw = copied_attributes(attributes)
                for value in raw.values():  # cheaper than `issuperset` of a map
                    if type(value) not in SCALARS:
                        raw = copied_attributes(raw)
                        break
                span.raw_attributes = raw
                if len(raw) > self.limits.attributes:
                    span.shed(raw)
            span.attached = True
            span.record_error = record_exception
            span.mark_error = set_status_on_exception
            if links:
                span.add_links(links)
            span.started_ns = monotonic_ns() if start_time is None else start_time - ANCHOR_NS
            if self.processors.on_start is not None:
                self.processors.on_start(span, context)
        except FAULTS as fault:
            edge_faults("starting a span", fault)
            return INVALID_SPAN
        return span

    @quicker("start_as_current_span")
    def start_as_current_span(  # type: ignore[override]
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, object] | None = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002
        end_on_exit: bool = True,  # noqa: FBT001, FBT002
    ) -> AbstractContextManager[Span]:
        """Start a span that is current inside the `with`, or during each decorated call."""
        first: tuple[Context, Span] | None = None
        direct = self.delegate is None and self.processors.on_start is None
        if direct and context is None and start_time is None and not links:
            here = current()
            span = self.start_span(
                name,
                here,
                kind,
                attributes,
                None,
                ANCHOR_NS,  # that is 0, until it is entered
                record_exception,  # by place: CPython calls so the fastest
                set_status_on_exception,
            )
            if type(span) is RecordedSpan:
                span.parent_context = here
                span.attached = end_on_exit
                return span
            first = here, span
        return self._block(
            name,
            context,
            kind,
            attributes,
            links,
            start_time,
            record_exception,
            set_status_on_exception,
            end_on_exit,
            first,
        )

    def _block(
        self,
        name: str,
        context: Context | None,
        kind: SpanKind,
        attributes: Mapping[str, object] | None,
        links: Sequence[Link] | None,
        start_time: int | None,
        record_exception: bool,  # noqa: FBT001
        set_status_on_exception: bool,  # noqa: FBT001
        end_on_exit: bool,  # noqa: FBT001
        first: tuple[Context, Span] | None,
    ) -> CurrentSpan:
        """Return a span that starts when it is entered; no closure, since one costs.

        The `first` one is there, and does not record: to start it again would be to draw again.
        """

        def begin() -> AbstractContextManager[Span]:
            if self.delegate is not None:
                return self.delegate.start_as_current_span(
                    name,
                    context,
                    kind,
                    cast("Mapping[str, AnyValue] | None", attributes),
                    links,
                    start_time,
                    record_exception,
                    set_status_on_exception,
                    end_on_exit,
                )
            started = self.start_span(
                name,
                context,
                kind,
                attributes,
                links,
                start_time,
                record_exception,
                set_status_on_exception,
            )
            return block_of(started, end_on_exit=end_on_exit)

        def begin_first() -> AbstractContextManager[Span]:
            if first is None or current() is not first[0]:
                return begin()
            return block_of(first[1], end_on_exit=end_on_exit)

        return CurrentSpan(begin, begin if first is None else begin_first)

    def moved(self, span: RecordedSpan, here: Context) -> Span | None:
        """Hang a span into the context that it is entered in; return one in its place, or None."""
        return _moved(span, here, self.roots)


if core is not None:
    core.bind_spans(
        RecordedSpan, RecordingTracer, Details, _INTERNAL, random_bits, new_id, TRACE_ID, ANCHOR_NS
    )


def _moved(span: RecordedSpan, here: Context, roots: Roots | None) -> Span | None:
    """Hang a block's span into a context; return what is current in its place, None: itself."""
    if not (span.parent_id or get_current_span(here).get_span_context().is_valid):
        return None  # it begins a trace there, too: that is decided
    parent, dropped = here.get(_SPAN_KEY), span.details and span.details.dropped_attributes
    span.details = span.span_context = None
    if type(parent) is not RecordedSpan:
        other = _adopted(span, parent, here, span.raw_attributes, roots)
        if other is not None:
            return other
    else:
        span.trace_id, span.parent_id = parent.trace_id, parent.span_id
        span.details = parent.details and inherited(parent.details)
    if dropped:
        span.details = span.details or Details()
        span.details.dropped_attributes = dropped
    return None


def _is_sdks(span: Span) -> bool:
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    return sdk is not None and isinstance(span, sdk.Span)


def _adopted(
    span: RecordedSpan,
    found: object,
    here: Context,
    attributes: Mapping[str, object] | None,
    roots: Roots | None,
) -> Span | None:
    """Hang a span below a parent that is not ours, or make it a root.

    A parent that records is sampled whatever its flag says, for Instana never sets it; but the
    SDK's, which may be recorded only.
    """
    # `isinstance` takes long for None.
    theirs = None if found is None or not isinstance(found, Span) else found
    parent = None if theirs is None else theirs.get_span_context()
    if theirs is None or parent is None or not parent.is_valid:
        span.trace_id = cast("int", here.get(TRACE_ID)) or random_bits(128) or new_id(128)
        span.parent_id = 0
        return None if roots is None else roots(span, attributes)
    if not parent.trace_flags.sampled and (not theirs.is_recording() or _is_sdks(theirs)):
        return NonRecordingSpan(
            SpanContext(
                parent.trace_id,
                new_id(64),
                is_remote=False,
                trace_flags=TraceFlags(parent.trace_flags & _RANDOM),
                trace_state=parent.trace_state,
            )
        )
    span.trace_id = parent.trace_id
    span.parent_id = parent.span_id
    random_id = bool(parent.trace_flags & _RANDOM)
    if parent.is_remote or parent.trace_state or not random_id:
        details = span.details = Details()
        details.remote_parent = parent.is_remote
        details.trace_state = parent.trace_state
        details.random_id = random_id
    return None
