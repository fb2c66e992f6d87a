"""Shows spans of ours to code written for the SDK's: the whole of its `ReadableSpan`.

None of it costs a span that is not read. The SDK's own types (events, links
with limits, the resource) are made, and the SDK loaded, when they are read.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.agent.spans.attributes import limited, worked_out
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.span_limits import UNLIMITED, SpanLimits

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.util.types import AnyValue

SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
SAMPLED_RANDOM: Final = TraceFlags(TraceFlags.SAMPLED | 0x02)  # W3C's flag of a random trace id
EMPTY_STATE: Final = TraceState()


class ViewedTracer(Protocol):
    """A tracer, as far as it is read of its spans."""

    name: str  # of the instrumentation scope
    version: str | None
    schema_url: str | None
    limits: SpanLimits
    encoded_resource: bytes | None  # of OTLP; None: that of this process

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Return those of the scope."""
        ...

    @property
    def resource(self) -> "Resource":
        """Return what this process is."""
        ...


class ViewedDetails(Protocol):
    """The details of a span, as far as they are read."""

    events: list[tuple[str, int, dict[str, AttributeValue]]]
    links: list[tuple[SpanContext, dict[str, AttributeValue]]]
    status: StatusCode
    description: str | None
    trace_state: TraceState | None
    remote_parent: bool
    random_id: bool
    dropped_attributes: int
    dropped_events: int
    dropped_links: int


class SdkView(Span):
    """The properties of a span; those with an underscore are read by instrumentations, too."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        trace_id: int
        parent_id: int
        kind_number: int
        started_ns: int
        ended_ns: int
        raw_attributes: dict[str, AttributeValue] | None

        @property
        def details(self) -> ViewedDetails | None:
            """Return what few spans have."""
            ...

        @property
        def tracer(self) -> ViewedTracer:
            """Return what made it."""
            ...

    @property
    def context(self) -> SpanContext:
        return self.get_span_context()

    @property
    def parent(self) -> SpanContext | None:
        """Return the parent's context, None for a root."""
        if not self.parent_id:
            return None
        details = self.details
        return SpanContext(
            self.trace_id,
            self.parent_id,
            is_remote=bool(details and details.remote_parent),
            trace_flags=SAMPLED_RANDOM if details is None or details.random_id else SAMPLED,
            trace_state=(details.trace_state if details else None) or EMPTY_STATE,
        )

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        raw, limits = self._attributes, self.tracer.limits
        if limits.length < UNLIMITED:
            return MappingProxyType(dict(limited(raw, limits.attributes, limits.length)[0]))
        return MappingProxyType(raw)

    @property
    def kind(self) -> SpanKind:
        return SpanKind(self.kind_number)

    @property
    def start_time(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self.started_ns + ANCHOR_NS

    @property
    def end_time(self) -> int | None:
        """Nanoseconds since the Unix epoch; None: not ended."""
        return self.ended_ns + ANCHOR_NS if self.ended_ns else None

    @property
    def status(self) -> Status:
        details = self.details
        return Status(details.status, details.description) if details else Status()

    @property
    def events(self) -> "tuple[Event, ...]":
        return tuple(self._readable_span().events)

    @property
    def links(self) -> tuple[Link, ...]:
        return tuple(self._readable_span().links)

    @property
    def resource(self) -> "Resource":
        """Return what this process is."""
        return self.tracer.resource

    @property
    def instrumentation_scope(self) -> "InstrumentationScope":
        return cast("InstrumentationScope", self._readable_span().instrumentation_scope)

    @property
    def instrumentation_info(self) -> None:
        """Return nothing: the SDK has given it up for the scope."""
        return

    @property
    def dropped_attributes(self) -> int:
        """Count what limits left out."""
        return self._readable_span().dropped_attributes

    @property
    def dropped_events(self) -> int:
        """Count what a limit left out."""
        return self.details.dropped_events if self.details else 0

    @property
    def dropped_links(self) -> int:
        """Count what a limit left out."""
        return self.details.dropped_links if self.details else 0

    def to_json(self, indent: int | None = 4) -> str:
        """The span as the SDK's console exporter writes it."""
        return str(self._readable_span().to_json(indent))

    def __repr__(self) -> str:
        return f'{type(self).__name__}(name="{self.name}", context={self.get_span_context()})'

    def _readable_span(self) -> "ReadableSpan":
        return readable(self, self.resource)

    @property
    def _attributes(self) -> dict[str, AttributeValue]:
        """The attributes themselves: there are instrumentations that change them."""
        raw = self.raw_attributes
        if raw is None:
            raw = self.raw_attributes = {}
        elif self.ended_ns:  # what is deferred is so at the end
            raw = self.raw_attributes = worked_out(raw)
        return raw

    @property
    def _name(self) -> str:
        return self.name

    _context = context
    _parent = parent
    _kind = kind
    _start_time = start_time
    _end_time = end_time
    _status = status
    _events = events
    _links = links
    _resource = resource
    _instrumentation_scope = instrumentation_scope


def readable(span: SdkView, resource: "Resource") -> "ReadableSpan":
    """Return a span as it is now, within its limits and with what they left out counted."""
    # Loaded where it is used: it takes a while.
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util import BoundedList
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    details, limits, tracer = span.details, span.tracer.limits, span.tracer
    events: BoundedList[Event] = BoundedList(None)
    links: BoundedList[Link] = BoundedList(None)
    raw = worked_out(span.raw_attributes or {})
    attributes = _bounded(raw, limits.attributes, limits.length)
    if details is not None:
        for name, at, noted in details.events:
            kept = _bounded(noted, limits.event_attributes, limits.other_length)
            events.append(Event(name, kept, at))
        for context, noted in details.links:
            kept = _bounded(noted, limits.link_attributes, limits.other_length)
            links.append(Link(context, kept))
        events.dropped, links.dropped = details.dropped_events, details.dropped_links
        attributes.dropped += details.dropped_attributes
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=resource,
        attributes=attributes,
        events=events,
        links=links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=InstrumentationScope(
            tracer.name,
            tracer.version,
            tracer.schema_url,
            cast("Mapping[str, AnyValue]", tracer.attributes),
        ),
    )


def _bounded(
    attributes: Mapping[str, AttributeValue], count: int, length: int
) -> BoundedAttributes:
    kept, dropped = limited(attributes, count, length)
    bounded = BoundedAttributes(attributes=cast("Mapping[str, AnyValue]", kept))
    bounded.dropped = dropped
    return bounded
