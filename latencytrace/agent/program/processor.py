"""A span processor of the SDK's that takes the spans of the program's own tracer provider."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import StatusCode

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.agent.export.otlp_traces import encoded_resource
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.spans.span import Details, RecordedSpan, SpanMaker
from latencytrace.agent.spans.tracer import take_over
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.span_limits import UNLIMITED, SpanLimits

_WITHIN_THEIRS: Final = SpanLimits(*[UNLIMITED] * len(SpanLimits._fields))
_KEPT_TRACERS: Final = 1000


class ProgramTracer:
    """A tracer of the program's provider, as far as our encoder reads it."""

    __slots__ = (
        "attributes",
        "encoded_resource",
        "limits",
        "name",
        "resource",
        "schema_url",
        "version",
    )

    def __init__(self, scope: InstrumentationScope | None, resource: Resource) -> None:
        self.name = scope.name if scope else ""
        self.version = scope.version if scope else None
        self.schema_url = scope.schema_url if scope else None
        self.attributes = dict((scope.attributes if scope else None) or {})
        self.limits = _WITHIN_THEIRS
        self.resource = resource
        self.encoded_resource = encoded_resource(resource.attributes)


class ProgramProcessor(SpanProcessor):
    """Hands each sampled span that ends to our exporter's queue, as one of ours.

    Args:
        flush: Sends what has ended, in a bounded time.
    """

    def __init__(
        self,
        on_end: Callable[[RecordedSpan], None],
        flush: Callable[[float], object],
        on_fault: OnFault,
    ) -> None:
        self._on_end: Callable[[RecordedSpan], None] | None = on_end
        self._flush = flush
        self._on_fault = on_fault
        self._tracers: dict[tuple[object, ...], ProgramTracer] = {}

    def on_end(self, span: ReadableSpan) -> None:
        take = self._on_end
        if take is None:
            return
        with guarded("taking a span of the program's provider", self._on_fault):
            if span.context is not None and span.context.trace_flags.sampled:
                take(self._recorded(span))

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what has ended; True in any case, since only our receiver may be away."""
        if self._on_end is not None:
            with guarded("flushing", self._on_fault):
                self._flush(timeout_millis / 1000)
        return True

    def leave(self) -> None:
        """Take no more: a provider of the SDK's keeps its processors for good."""
        self._on_end = None
        self._tracers.clear()

    def _recorded(self, span: ReadableSpan) -> RecordedSpan:
        recorded = take_over(RecordedSpan.__new__(RecordedSpan))
        context, parent = span.context, span.parent
        recorded.name = span.name
        recorded.trace_id, recorded.span_id = context.trace_id, context.span_id
        recorded.parent_id = parent.span_id if parent is not None else 0
        recorded.kind_number = span.kind.value
        recorded.started_ns = (span.start_time or 0) - ANCHOR_NS
        recorded.ended_ns = (span.end_time or 0) - ANCHOR_NS
        # A proxy of it takes a microsecond a key.
        recorded.raw_attributes = plain(span._attributes)
        recorded.details = _details(span)
        recorded.span_context = context
        recorded.tracer = cast("SpanMaker", self._tracer(span))
        return recorded

    def _tracer(self, span: ReadableSpan) -> ProgramTracer:
        scope, resource = span.instrumentation_scope, span.resource
        key: tuple[object, ...] = (id(resource),)
        if scope is not None:
            noted = repr(scope.attributes) if scope.attributes else ""
            key += (scope.name, scope.version, scope.schema_url, noted)
        tracer = self._tracers.get(key)
        if tracer is None:
            if len(self._tracers) >= _KEPT_TRACERS:
                self._tracers.clear()
            tracer = self._tracers.setdefault(key, ProgramTracer(scope, resource))
        return tracer


def add_to(program: Any, processor: SpanProcessor) -> None:
    """Add a processor to those of a provider, of which none goes away for it.

    Phoenix's provider takes its own away where another is added by its method.
    """
    if isinstance(program, TracerProvider):
        TracerProvider.add_span_processor(program, processor)
    else:
        program.add_span_processor(processor)


def plain(attributes: Mapping[str, object] | None) -> dict[str, AttributeValue]:
    """Return attributes that the SDK keeps, which are checked and within its limits."""
    kept = getattr(attributes, "_dict", None)
    return dict(kept if type(kept) is dict else attributes or {})


def _details(span: ReadableSpan) -> Details | None:
    events, links, status, parent = span.events, span.links, span.status, span.parent
    state = span.context.trace_state
    is_remote = parent is not None and parent.is_remote
    dropped = (span.dropped_attributes, span.dropped_events, span.dropped_links)
    is_plain = status.status_code is StatusCode.UNSET and not status.description
    if is_plain and not (events or links or state or is_remote or any(dropped)):
        return None
    details = Details()
    details.events = [(event.name, event.timestamp, plain(event.attributes)) for event in events]
    details.links = [(link.context, plain(link.attributes)) for link in links]
    details.status, details.description = status.status_code, status.description
    details.trace_state, details.remote_parent = state or None, is_remote
    details.dropped_attributes, details.dropped_events, details.dropped_links = dropped
    return details
