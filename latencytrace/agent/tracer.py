"""Our tracer provider: ids, the parent, the sampled flag, and who takes the ended spans."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast

from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
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

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.recorded_span import Extra, RecordedSpan, copied_attributes

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span as SdkSpan
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.util.types import AnyValue

_new = object.__new__
_UNSAMPLED = TraceFlags(TraceFlags.DEFAULT)

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


def _new_id(bits: int) -> int:
    identifier = _random_bits(bits)
    return identifier or _new_id(bits)  # zero means "no id"


def _forget(_span: RecordedSpan) -> None:
    """Take a span that ended while no agent runs."""


class RecordingTracer(Tracer):
    """Makes `RecordedSpan`s for one instrumentation scope."""

    __slots__ = ("delegate", "ended", "name", "processors", "version")

    def __init__(
        self,
        name: str,
        version: str | None,
        ended: Callable[[RecordedSpan], None],
        processors: "ProgramProcessors",
    ) -> None:
        self.name = name
        self.version = version
        self.ended = ended  # takes each span that ends
        self.processors = processors
        self.delegate: Tracer | None = None  # the program's own, once it has set a provider

    @property
    def is_direct(self) -> bool:
        """Whether a span goes to the exporter alone, through no code of the program's."""
        return self.delegate is None and self.processors.started is None

    def start_span(  # noqa: PLR0913, PLR0917 - OpenTelemetry's signature
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
        parent = (get_current() if context is None else context).get(_SPAN_KEY)
        span = _new(RecordedSpan)
        span.extra = None
        if type(parent) is RecordedSpan:
            span.trace_id = parent.trace_id
            span.parent_id = parent.span_id
            if parent.extra is not None and parent.extra.trace_state:
                span.extra = Extra()
                span.extra.trace_state = parent.extra.trace_state
        else:
            unsampled = self._adopt(span, parent)
            if unsampled is not None:
                return unsampled
        span.span_id = _random_bits(64) or _new_id(64)
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
            span.trace_id = _random_bits(128) or _new_id(128)
            span.parent_id = 0
            return None
        if not parent.trace_flags.sampled:
            return NonRecordingSpan(
                SpanContext(
                    parent.trace_id,
                    _new_id(64),
                    is_remote=False,
                    trace_flags=_UNSAMPLED,
                    trace_state=parent.trace_state,
                )
            )
        span.trace_id = parent.trace_id
        span.parent_id = parent.span_id
        if parent.is_remote or parent.trace_state:
            span.extra = Extra()
            span.extra.remote_parent = parent.is_remote
            span.extra.trace_state = parent.trace_state
        return None


class ProgramProcessors:
    """The span processors that the program adds to our provider, as it would to the SDK's.

    They are called where the span starts and ends, as the SDK calls them, and cost what
    they cost; without any, a span costs one look at `started`.
    """

    __slots__ = ("_processors", "started")

    def __init__(self) -> None:
        self._processors: tuple[SpanProcessor, ...] = ()
        self.started: Callable[[RecordedSpan, Context | None], None] | None = None

    def add(self, processor: "SpanProcessor") -> None:
        """Call one more processor."""
        self._processors += (processor,)
        self.started = self._started

    def ended(self, span: RecordedSpan) -> None:
        """Show the processors an ended span, as the SDK's own type."""
        if not self._processors:
            return
        from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: PLC0415 - only where a program uses it
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

        readable = ReadableSpan(
            name=span.name,
            context=span.get_span_context(),
            parent=span.parent,
            attributes=cast("Mapping[str, AnyValue]", span.attributes),
            events=[
                Event(name, cast("Mapping[str, AnyValue]", attributes), at)
                for name, at, attributes in (span.extra.events if span.extra else ())
            ],
            links=span.links,
            kind=span.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=InstrumentationScope(span.tracer.name, span.tracer.version),
        )
        for processor in self._processors:
            processor.on_end(readable)

    def force_flush(self, timeout_millis: int) -> bool:
        """Flush every processor."""
        flushed = [processor.force_flush(timeout_millis) for processor in self._processors]
        return all(flushed)

    def shutdown(self) -> None:
        """Shut every processor down and forget them."""
        processors, self._processors, self.started = self._processors, (), None
        for processor in processors:
            processor.shutdown()

    def _started(self, span: RecordedSpan, context: Context | None) -> None:
        for processor in self._processors:
            processor.on_start(cast("SdkSpan", span), context)


class RecordingProvider(TracerProvider):
    """Our tracer provider; steps behind the program's own as soon as there is one."""

    def __init__(self) -> None:
        self._export: Callable[[RecordedSpan], None] = _forget
        self._ended: Callable[[RecordedSpan], None] = _forget
        self._processors = ProgramProcessors()
        self._tracers: dict[tuple[str, str | None], RecordingTracer] = {}
        self._program: TracerProvider | None = None

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,  # noqa: ARG002 - OpenTelemetry's signature
        attributes: Mapping[str, object] | None = None,  # noqa: ARG002
    ) -> Tracer:
        """The tracer of one instrumentation scope."""
        key = (instrumenting_module_name, instrumenting_library_version)
        tracer = self._tracers.get(key)
        if tracer is None:
            tracer = self._tracers[key] = RecordingTracer(*key, self._ended, self._processors)
            if self._program is not None:
                tracer.delegate = self._program.get_tracer(*key)
        return tracer

    def record_to(self, ended: Callable[[RecordedSpan], None]) -> None:
        """Make the spans ourselves, and hand each that ends to `ended`."""
        self._export = ended
        self._choose_end()
        self.yield_to(None)

    def add_span_processor(self, span_processor: "SpanProcessor") -> None:
        """Show every span to one more processor, as the SDK's provider does."""
        self._processors.add(span_processor)
        self._choose_end()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the processors that the program added."""
        return self._processors.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Shut down the processors that the program added; our own agent goes on."""
        self._processors.shutdown()
        self._choose_end()

    def _choose_end(self) -> None:
        self._ended = self._export if self._processors.started is None else self._end_for_all
        for tracer in list(self._tracers.values()):
            tracer.ended = self._ended

    def _end_for_all(self, span: RecordedSpan) -> None:
        self._export(span)
        self._processors.ended(span)

    def yield_to(self, program: TracerProvider | None) -> None:
        """Let another provider make every span from now on; None: ours again."""
        self._program = program
        for (name, version), tracer in list(self._tracers.items()):
            tracer.delegate = program.get_tracer(name, version) if program else None
