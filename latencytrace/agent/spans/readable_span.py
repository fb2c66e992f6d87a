"""A span of ours as the SDK's own type, for processors and exporters written for it."""

from collections.abc import Mapping
from typing import Protocol, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status
from opentelemetry.util.types import AnyValue

from latencytrace.agent.spans.attributes import limited
from latencytrace.agent.spans.span_extra import Extra
from latencytrace.model.span import AttributeValue
from latencytrace.model.span_limits import SpanLimits


class Maker(Protocol):
    """What is read of the tracer that made a span."""

    name: str
    version: str | None
    schema_url: str | None
    limits: SpanLimits

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Those of the scope."""
        ...

    @property
    def resource(self) -> Resource:
        """What this process is."""
        ...


class Recorded(Protocol):
    """What is read of a span of ours."""

    name: str
    own: dict[str, AttributeValue] | None
    extra: Extra | None

    @property
    def tracer(self) -> Maker:
        """What made it."""
        ...

    @property
    def parent(self) -> SpanContext | None:
        """Its parent's context; None: a root."""
        ...

    @property
    def kind(self) -> SpanKind:
        """OpenTelemetry's span kind."""
        ...

    @property
    def status(self) -> Status:
        """The status, with its description."""
        ...

    @property
    def start_time(self) -> int:
        """Nanoseconds since the Unix epoch."""
        ...

    @property
    def end_time(self) -> int | None:
        """Nanoseconds since the Unix epoch; None: not ended."""
        ...

    def get_span_context(self) -> SpanContext:
        """Identify it."""
        ...


def readable(span: Recorded, resource: Resource) -> ReadableSpan:
    """A span as it is now, within its limits and with what they left out counted."""
    extra, limits, tracer = span.extra or Extra(), span.tracer.limits, span.tracer
    events: BoundedList[Event] = BoundedList(None)
    for name, at, attributes in extra.events:
        noted = _bounded(attributes, limits.event_attributes, limits.other_length)
        events.append(Event(name, noted, at))
    events.dropped = extra.dropped_events
    links: BoundedList[Link] = BoundedList(None)
    for context, attributes in extra.links:
        noted = _bounded(attributes, limits.link_attributes, limits.other_length)
        links.append(Link(context, noted))
    links.dropped = extra.dropped_links
    own = _bounded(span.own or {}, limits.attributes, limits.length)
    own.dropped += extra.dropped_attributes
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=resource,
        attributes=own,
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
