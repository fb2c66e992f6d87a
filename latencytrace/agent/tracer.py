"""Our tracer provider: ids, the parent, the sampled flag, and who takes the ended spans."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, cast

from opentelemetry.context import Context, get_current
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
    TracerProvider,
    use_span,
)
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # where a context holds its span
)

from latencytrace.agent.attribute_values import copied_attributes
from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.guard import FAULTS, contained, edge_faults
from latencytrace.agent.program_processors import ProgramProcessors
from latencytrace.agent.recorded_span import RecordedSpan
from latencytrace.agent.span_extra import Extra
from latencytrace.model.span import AttributeValue
from latencytrace.model.span_limits import SpanLimits

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.util.types import AnyValue

_new = object.__new__
_RANDOM = 0x02  # W3C's flag of a random trace id

# Our own generator: programs call `random.seed(0)`, and their ids would repeat.
_random = random.Random()  # noqa: S311 - ids are unique, not secret
_random_bits = _random.getrandbits
_forks = 0  # behind this process: a span from before the last one is the parent's to send


def _after_fork() -> None:
    global _forks  # noqa: PLW0603 - one number a process
    _forks += 1
    _random.seed()


os.register_at_fork(after_in_child=_after_fork)


def started_here(span: RecordedSpan) -> bool:
    """Whether a span started in this process, not in the one that this one was forked from."""
    return span.forks == _forks


def new_id(bits: int) -> int:
    """Random bits that are not all zero."""
    identifier = _random_bits(bits)
    return identifier or new_id(bits)  # zero means "no id"


def _forget(_span: RecordedSpan) -> None:
    """Take a span that ended while no agent runs."""


def inherited(parent: Extra) -> Extra | None:
    """What a child has of its parent's: the trace state, and whether the id is random."""
    if not parent.trace_state and parent.random_id:
        return None
    extra = Extra()
    extra.trace_state = parent.trace_state
    extra.random_id = parent.random_id
    return extra


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
        "ended",
        "limits",
        "name",
        "processors",
        "schema_url",
        "version",
    )

    def __init__(self, scope: "Scope", processors: ProgramProcessors) -> None:
        self.name = scope.name
        self.version = scope.version
        self.schema_url = scope.schema_url
        self.attributes = dict(scope.attributes)
        self.processors = processors
        self.limits = SpanLimits()
        self.ended: Callable[[RecordedSpan], None] = _forget  # takes each span that ends
        self.delegate: Tracer | None = None  # the program's own, or one that asks a sampler

    @property
    def is_direct(self) -> bool:
        """Whether a span goes to the exporter alone, through no code of the program's."""
        return self.delegate is None and self.processors.started is None

    def start_span(  # noqa: C901, PLR0913, PLR0917 - OpenTelemetry's signature; a call costs
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
        """Start a span that is not current.

        Returns:
            A span that records; one that does not, if the parent is not sampled.
        """
        if self.delegate is not None:
            return self.delegate.start_span(
                name,
                context,
                kind,
                cast("Mapping[str, AnyValue] | None", attributes),
                links,
                start_time,
                record_exception,
                set_status_on_exception,
            )
        try:
            parent = (get_current() if context is None else context).get(_SPAN_KEY)
            span = _new(RecordedSpan)
            span.extra = None
            if type(parent) is RecordedSpan:
                span.trace_id = parent.trace_id
                span.parent_id = parent.span_id
                if parent.extra is not None:
                    span.extra = inherited(parent.extra)
            else:
                unsampled = self._adopt(span, parent)
                if unsampled is not None:
                    return unsampled
            span.span_id = _random_bits(64) or new_id(64)
            span.name = name
            span.tracer = self
            span.ended = 0
            span.forks = _forks
            span.kind_number = 0 if kind is SpanKind.INTERNAL else kind.value
            span.own = copied_attributes(attributes) if attributes else None
            span.span_context = span.parent_context = span.token = None
            span.attached = True
            span.record_error = record_exception
            span.mark_error = set_status_on_exception
            if links:
                for link in links:
                    span.add_link(link.context, link.attributes)
            span.started = monotonic_ns() if start_time is None else start_time - ANCHOR_NS
            if self.processors.started is not None:
                self.processors.started(span, context)
        except FAULTS as fault:
            edge_faults("starting a span", fault)
            return INVALID_SPAN
        return span

    def start_as_current_span(  # type: ignore[override] # noqa: PLR0913, PLR0917 - OpenTelemetry's signature; ours is its own context manager
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
        if context is None:
            context = get_current()
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
        if type(span) is not RecordedSpan:
            return use_span(
                span,
                end_on_exit=end_on_exit,
                record_exception=record_exception,
                set_status_on_exception=set_status_on_exception,
            )
        span.parent_context = context
        span.attached = end_on_exit
        return span

    @staticmethod
    def _adopt(span: RecordedSpan, current: object) -> Span | None:
        """Hang a span below a parent that is not ours, or make it a root."""
        parent = current.get_span_context() if isinstance(current, Span) else None
        if parent is None or not parent.is_valid:
            span.trace_id = _random_bits(128) or new_id(128)
            span.parent_id = 0
            return None
        if not parent.trace_flags.sampled:
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
            span.extra = Extra()
            span.extra.remote_parent = parent.is_remote
            span.extra.trace_state = parent.trace_state
            span.extra.random_id = random_id
        return None


class RecordingProvider(TracerProvider):
    """Our tracer provider; steps behind the program's own as soon as there is one."""

    def __init__(self) -> None:
        self._export: Callable[[RecordedSpan], None] = _forget
        self._processors = ProgramProcessors()
        self._tracers: dict[Scope, RecordingTracer] = {}
        self._limits = SpanLimits()
        self._sampling: Callable[[RecordingTracer], Tracer] | None = None
        self._program: TracerProvider | None = None

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> Tracer:
        """The tracer of one instrumentation scope."""
        made = contained("making a tracer")(self._tracer)(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )
        return made or NoOpTracer()

    def record_to(
        self,
        ended: Callable[[RecordedSpan], None],
        *,
        limits: SpanLimits | None = None,
        sampling: Callable[[RecordingTracer], Tracer] | None = None,
        resource: Mapping[str, object] | None = None,
    ) -> None:
        """Make the spans ourselves, and hand each that ends to `ended`.

        Args:
            ended: Takes it where it ended.
            limits: Of each span; None: OpenTelemetry's.
            sampling: A tracer that asks a sampler before one of ours makes a span; None: every
                span is recorded whose parent is.
            resource: What this process is, for the program's processors.
        """
        self._export = ended
        self._limits = limits or SpanLimits()
        self._sampling = sampling
        self._processors.resource = resource or {}
        self.yield_to(None)

    @contained("adding a span processor")
    def add_span_processor(self, span_processor: "SpanProcessor") -> None:
        """Show every span to one more processor, as the SDK's provider does."""
        self._processors.add(span_processor)
        self._configure_all()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the processors that the program added."""
        return bool(contained("flushing")(self._processors.force_flush)(timeout_millis))

    @contained("shutting down")
    def shutdown(self) -> None:
        """Shut down the processors that the program added; our own agent goes on."""
        self._processors.shutdown()
        self._configure_all()

    def reset_after_fork(self) -> None:
        """In a forked child: show the program's processors none of the parent's spans."""
        self._processors.reset_after_fork()

    def yield_to(self, program: TracerProvider | None) -> None:
        """Let another provider make every span from now on; None: ours again."""
        self._program = program
        self._configure_all()

    def _tracer(
        self,
        name: str,
        version: str | None,
        schema_url: str | None,
        attributes: Mapping[str, object] | None,
    ) -> Tracer:
        noted = tuple(copied_attributes(attributes).items()) if attributes else ()
        scope = Scope(name, version, schema_url, noted)
        tracer = self._tracers.get(scope)
        if tracer is None:
            tracer = self._tracers[scope] = RecordingTracer(scope, self._processors)
            self._configure(scope, tracer)
        return tracer

    def _configure_all(self) -> None:
        for scope, tracer in list(self._tracers.items()):
            self._configure(scope, tracer)

    def _configure(self, scope: "Scope", tracer: RecordingTracer) -> None:
        tracer.limits = self._limits
        tracer.ended = self._export if self._processors.started is None else self._end_for_all
        if self._program is not None:
            tracer.delegate = self._program.get_tracer(
                scope.name,
                scope.version,
                scope.schema_url,
                cast("Mapping[str, AnyValue]", dict(scope.attributes)),
            )
        else:
            tracer.delegate = self._sampling(tracer) if self._sampling else None

    def _end_for_all(self, span: RecordedSpan) -> None:
        self._export(span)
        self._processors.ended(span)
