"""What code written for the SDK's spans reads of ours: the whole of its `ReadableSpan`.

None of it is on the way of a span that nobody looks at. What the SDK keeps in types of its
own (events, links with limits, the resource) is made when it is read.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    TraceFlags,
    TraceState,
)

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.agent.spans.attributes import limited
from latencytrace.model.span import AttributeValue
from latencytrace.model.span_limits import UNLIMITED

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from latencytrace.agent.spans.readable_span import Maker
    from latencytrace.agent.spans.span_extra import Extra

SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
SAMPLED_RANDOM: Final = TraceFlags(TraceFlags.SAMPLED | 0x02)  # W3C's flag of a random trace id
EMPTY_STATE: Final = TraceState()


class SdkSurface(Span):
    """The properties of a span; those with an underscore are read by instrumentations, too."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        trace_id: int
        parent_id: int
        kind_number: int
        started: int
        ended: int
        own: dict[str, AttributeValue] | None
        extra: Extra | None

        @property
        def tracer(self) -> Maker:
            """What made it."""
            ...

    @property
    def context(self) -> SpanContext:
        """The same as `get_span_context()`."""
        return self.get_span_context()

    @property
    def parent(self) -> SpanContext | None:
        """The parent's context, None for a root."""
        if not self.parent_id:
            return None
        extra = self.extra
        return SpanContext(
            self.trace_id,
            self.parent_id,
            is_remote=bool(extra and extra.remote_parent),
            trace_flags=SAMPLED_RANDOM if extra is None or extra.random_id else SAMPLED,
            trace_state=(extra.trace_state if extra else None) or EMPTY_STATE,
        )

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """The attributes, read-only."""
        own, limits = self.own or {}, self.tracer.limits
        if limits.length < UNLIMITED:
            return MappingProxyType(dict(limited(own, limits.attributes, limits.length)[0]))
        return MappingProxyType(own)

    @property
    def kind(self) -> SpanKind:
        """OpenTelemetry's span kind."""
        return SpanKind(self.kind_number)

    @property
    def start_time(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self.started + ANCHOR_NS

    @property
    def end_time(self) -> int | None:
        """Nanoseconds since the Unix epoch; None: not ended."""
        return self.ended + ANCHOR_NS if self.ended else None

    @property
    def status(self) -> Status:
        """The status, with its description."""
        extra = self.extra
        return Status(extra.status, extra.description) if extra else Status()

    @property
    def events(self) -> "tuple[Event, ...]":
        """The events."""
        return tuple(self._readable_span().events)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links."""
        return tuple(self._readable_span().links)

    @property
    def resource(self) -> "Resource":
        """What this process is."""
        return self.tracer.resource

    @property
    def instrumentation_scope(self) -> "InstrumentationScope":
        """What made it."""
        return cast("InstrumentationScope", self._readable_span().instrumentation_scope)

    @property
    def instrumentation_info(self) -> None:
        """What the SDK has given up for the scope."""
        return

    @property
    def dropped_attributes(self) -> int:
        """How many limits left out."""
        return self._readable_span().dropped_attributes

    @property
    def dropped_events(self) -> int:
        """How many a limit left out."""
        return self.extra.dropped_events if self.extra else 0

    @property
    def dropped_links(self) -> int:
        """How many a limit left out."""
        return self.extra.dropped_links if self.extra else 0

    def to_json(self, indent: int | None = 4) -> str:
        """The span as the SDK's console exporter writes it."""
        return str(self._readable_span().to_json(indent))

    def __repr__(self) -> str:
        return f'{type(self).__name__}(name="{self.name}", context={self.get_span_context()})'

    def _readable_span(self) -> "ReadableSpan":
        from latencytrace.agent.spans.readable_span import readable  # noqa: PLC0415 - loads the SDK

        return readable(self, self.resource)

    @property
    def _attributes(self) -> dict[str, AttributeValue]:
        """The attributes themselves: there are instrumentations that change them."""
        if self.own is None:
            self.own = {}
        return self.own

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
