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
    get_current_span,
    use_span,
)

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.recorded_span import Extra, RecordedSpan, copied_attributes

if TYPE_CHECKING:
    from opentelemetry.util.types import AnyValue

_new = object.__new__
_UNSAMPLED = TraceFlags(TraceFlags.DEFAULT)

# Our own generator: programs call `random.seed(0)`, and their ids would repeat.
_random = random.Random()  # noqa: S311 - ids are unique, not secret
_random_bits = _random.getrandbits
os.register_at_fork(after_in_child=_random.seed)


def _new_id(bits: int) -> int:
    identifier = _random_bits(bits)
    return identifier or _new_id(bits)  # zero means "no id"


def _forget(_span: RecordedSpan) -> None:
    """Take a span that ended while no agent runs."""


class RecordingTracer(Tracer):
    """Makes `RecordedSpan`s for one instrumentation scope."""

    __slots__ = ("delegate", "ended", "name", "version")

    def __init__(
        self, name: str, version: str | None, ended: Callable[[RecordedSpan], None]
    ) -> None:
        self.name = name
        self.version = version
        self.ended = ended  # takes each span that ends
        self.delegate: Tracer | None = None  # the program's own, once it has set a provider

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
        parent = get_current_span(context)
        span = _new(RecordedSpan)
        if type(parent) is RecordedSpan:
            span.trace_id = parent.trace_id
            span.parent_id = parent.span_id
            span.extra = None
            if parent.extra is not None and parent.extra.trace_state:
                span.extra = Extra()
                span.extra.trace_state = parent.extra.trace_state
        else:
            unsampled = self._adopt(span, parent.get_span_context())
            if unsampled is not None:
                return unsampled
        span.span_id = _random_bits(64) or _new_id(64)
        span.name = name
        span.tracer = self
        span.ended = 0
        span.kind_number = kind.value
        span.own = copied_attributes(attributes) if attributes else None
        span.span_context = span.parent_context = span.token = None
        span.attached = True
        span.record_error = record_exception and set_status_on_exception
        for link in links or ():
            span.add_link(link.context, link.attributes)
        span.started = monotonic_ns() if start_time is None else start_time - ANCHOR_NS
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
        span.parent_context = get_current() if context is None else context
        span.attached = end_on_exit
        return span

    @staticmethod
    def _adopt(span: RecordedSpan, parent: SpanContext) -> Span | None:
        """Hang a span below a parent that is not ours, or make it a root."""
        span.extra = None
        if not parent.is_valid:
            span.trace_id = _new_id(128)
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


class RecordingProvider(TracerProvider):
    """Our tracer provider; steps behind the program's own as soon as there is one."""

    def __init__(self) -> None:
        self._ended: Callable[[RecordedSpan], None] = _forget
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
            tracer = self._tracers[key] = RecordingTracer(*key, self._ended)
            if self._program is not None:
                tracer.delegate = self._program.get_tracer(*key)
        return tracer

    def record_to(self, ended: Callable[[RecordedSpan], None]) -> None:
        """Make the spans ourselves, and hand each that ends to `ended`."""
        self._ended = ended
        for tracer in list(self._tracers.values()):
            tracer.ended = ended
        self.yield_to(None)

    def yield_to(self, program: TracerProvider | None) -> None:
        """Let another provider make every span from now on; None: ours again."""
        self._program = program
        for (name, version), tracer in list(self._tracers.items()):
            tracer.delegate = program.get_tracer(name, version) if program else None
