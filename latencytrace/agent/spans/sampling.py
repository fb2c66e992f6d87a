"""Chooses the traces that are recorded, by OpenTelemetry's samplers.

Loaded only where a sampler is asked for, so that a program without one pays nothing:
a tracer of ours then delegates to one that asks, and gets the span from a second one.
"""

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import cast

from opentelemetry.context import Context, get_current
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    TraceState,
    get_current_span,
)
from opentelemetry.util.types import AnyValue

from latencytrace.agent.guard import FAULTS, attempted, edge_faults
from latencytrace.agent.spans.probability import (
    dropped_with,
    kept_with,
    randomness_of,
    threshold_of,
)
from latencytrace.agent.spans.processors import ProgramProcessors
from latencytrace.agent.spans.span import Details, RecordedSpan, recorded_in
from latencytrace.agent.spans.tracer import RecordingTracer, Scope, block_of, discard, new_id
from latencytrace.errors import SettingsError

ENTRY_POINTS = "opentelemetry_traces_sampler"  # where the SDK, too, finds other people's
_RANDOM = 0x02  # W3C's flag of a random trace id


class ConsistentProbability(Sampler):
    """Records a share of all traces, and says in each trace's state which share it was.

    So a service can weigh each recorded request by one over its probability, and
    services with different shares keep the same traces.
    """

    def __init__(self, probability: float) -> None:
        self._threshold = threshold_of(probability)
        self._probability = probability

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Mapping[str, AnyValue] | None = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        state = get_current_span(parent_context).get_span_context().trace_state
        if randomness_of(trace_id, state) < self._threshold:
            return SamplingResult(Decision.DROP, None, dropped_with(state))
        kept = kept_with(state, self._threshold)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, kept)

    def get_description(self) -> str:
        """Name it, as the SDK's samplers do."""
        return f"ConsistentProbability{{{self._probability}}}"


_BY_NAME: Mapping[str, Callable[[float], Sampler]] = {
    "always_on": lambda _: ALWAYS_ON,
    "always_off": lambda _: ALWAYS_OFF,
    "traceidratio": TraceIdRatioBased,
    "parentbased_always_on": lambda _: ParentBased(ALWAYS_ON),
    "parentbased_always_off": lambda _: ParentBased(ALWAYS_OFF),
    "parentbased_traceidratio": lambda ratio: ParentBased(TraceIdRatioBased(ratio)),
    "consistent_probability": ConsistentProbability,
    "parentbased_consistent_probability": lambda ratio: ParentBased(ConsistentProbability(ratio)),
}


def sampling(name: str, argument: str) -> Callable[[RecordingTracer], Tracer]:
    """Return what makes tracers that ask the sampler of a name.

    Raises:
        SettingsError: There is none of that name, or its argument cannot be used.
    """
    known = _BY_NAME.get(name)
    if known is not None:
        sampler = known(_ratio(argument if name.endswith(("ratio", "probability")) else ""))
        return lambda tracer: SamplingTracer(tracer, sampler, asks_for_children=False)
    found = importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
    if not found:
        names = ", ".join(_BY_NAME)
        raise SettingsError(f"OTEL_TRACES_SAMPLER={name!r} is none of {names}")
    theirs = next(iter(found)).load()(argument)
    return lambda tracer: SamplingTracer(tracer, theirs, asks_for_children=True)


def _ratio(argument: str) -> float:
    try:
        ratio = float(argument or 1)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise SettingsError(f"OTEL_TRACES_SAMPLER_ARG={argument!r} is no ratio from 0 to 1")
    return ratio


class UnsampledSpan(RecordedSpan):
    """A span that the program's processors see, and no receiver: "record only"."""

    __slots__ = ()

    def get_span_context(self) -> SpanContext:
        """Identify this span to its children, as one that is not sampled."""
        context = super().get_span_context()
        flags = TraceFlags(context.trace_flags & ~TraceFlags.SAMPLED)
        return SpanContext(
            context.trace_id,
            context.span_id,
            is_remote=False,
            trace_flags=flags,
            trace_state=context.trace_state,
        )


class SamplingTracer(Tracer):
    """Asks a sampler, and makes what it wants recorded with a tracer of ours.

    Args:
        sampler: The SDK's, or one written for it.
        asks_for_children: Whether it may decide otherwise on the child of a recorded span.
    """

    encoded_resource: bytes | None = None  # that of this process

    def __init__(
        self, tracer: RecordingTracer, sampler: Sampler, *, asks_for_children: bool
    ) -> None:
        self.name = tracer.name
        self.version = tracer.version
        self.schema_url = tracer.schema_url
        self.attributes = tracer.attributes
        self.limits = tracer.limits
        self._sampler = sampler
        self._asks_for_children = asks_for_children
        self._processors = tracer.processors
        self._on_end = tracer.on_end
        self.on_end: Callable[[RecordedSpan], None] = self._end
        scope = Scope(self.name, self.version, self.schema_url, tuple(self.attributes.items()))
        self._maker = RecordingTracer(scope, ProgramProcessors())
        self._maker.limits = tracer.limits

    @property
    def resource(self) -> Resource:
        """Return what this process is."""
        return self._processors.resource

    def start_span(
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
        """Start a span that is not current, if the sampler wants it."""
        try:
            parent = get_current_span(context).get_span_context()
            trace_id = parent.trace_id if parent.is_valid else new_id(128)
            decided = self._decided(context, trace_id, name, kind, attributes, links)
            if decided.decision is Decision.DROP:
                return NonRecordingSpan(_unrecorded(parent, trace_id, decided.trace_state))
            span = self._maker.start_span(
                name,
                Context(),
                kind,
                decided.attributes,
                links,
                start_time,
                record_exception,
                set_status_on_exception,
            )
            if isinstance(span, RecordedSpan):  # else it could not be made
                self._adopt(span, parent, trace_id, decided)
                if self._processors.on_start is not None:
                    self._processors.on_start(span, context)
        except FAULTS as fault:
            edge_faults("starting a span", fault)
            return INVALID_SPAN
        return span

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
        """Start a span, if the sampler wants it, that is current inside the `with`."""
        span = self.start_span(
            name,
            context,
            kind,
            attributes,
            links,
            start_time,
            record_exception,
            set_status_on_exception,
        )
        return block_of(span, end_on_exit=end_on_exit)

    def _adopt(
        self, span: RecordedSpan, parent: SpanContext, trace_id: int, decided: SamplingResult
    ) -> None:
        if decided.decision is Decision.RECORD_ONLY:
            span.__class__ = UnsampledSpan
        span.tracer = self
        span.trace_id = trace_id
        if parent.is_valid:
            span.parent_id = parent.span_id
        random_id = not parent.is_valid or bool(parent.trace_flags & _RANDOM)
        if parent.is_remote or decided.trace_state or not random_id:
            details = span.details = span.details or Details()
            details.remote_parent = parent.is_remote
            details.trace_state = decided.trace_state
            details.random_id = random_id

    def _end(self, span: RecordedSpan) -> None:
        if type(span) is UnsampledSpan:
            self._processors.on_end(span, discard)
        else:
            self._on_end(span)

    def _decided(
        self,
        context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, object] | None,
        links: Sequence[Link] | None,
    ) -> SamplingResult:
        noted = cast("Mapping[str, AnyValue] | None", attributes)
        if not self._asks_for_children:
            recorded = recorded_in(get_current() if context is None else context)
            if recorded is not None:
                state = recorded.details.trace_state if recorded.details else None
                return SamplingResult(Decision.RECORD_AND_SAMPLE, noted, state)
        decided: object = attempted(
            lambda: self._sampler.should_sample(context, trace_id, name, kind, noted, links or ()),
            otherwise=None,
        )
        if isinstance(decided, SamplingResult):
            return decided
        return SamplingResult(Decision.RECORD_AND_SAMPLE, noted)


def _unrecorded(parent: SpanContext, trace_id: int, state: TraceState | None) -> SpanContext:
    """Return what identifies a span that is not recorded to its children."""
    random_id = not parent.is_valid or bool(parent.trace_flags & _RANDOM)
    flags = TraceFlags(_RANDOM if random_id else TraceFlags.DEFAULT)
    return SpanContext(trace_id, new_id(64), is_remote=False, trace_flags=flags, trace_state=state)
