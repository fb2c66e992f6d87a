"""Our tracer provider: hands out tracers, and gives ended spans to exporter and processors."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from opentelemetry.trace import NoOpTracer, ProxyTracerProvider, Tracer, TracerProvider

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS, contained, edge_faults
from latencytrace.agent.spans.attributes import copied_attributes
from latencytrace.agent.spans.processors import ProgramProcessors
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.spans.tracer import RecordingTracer, Roots, Scope, discard
from latencytrace.model.span_limits import SpanLimits

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.util.types import AnyValue

SHUTDOWN_S: Final = 3.0  # the longest that a program's exit waits for its last spans
SHUTDOWN_AGAIN_S: Final = 0.1  # where it has waited before: it shuts down by itself, say


def _nothing_to_send(_timeout_s: float) -> bool:
    """Flush while no agent runs."""
    return True


class RecordingProvider(ProxyTracerProvider):
    """Our tracer provider; steps behind the program's own as soon as there is one.

    It is a `ProxyTracerProvider`, as where no provider is set: libraries ask for
    that before they set their own (LangSmith, Langfuse), which they do as without us.
    """

    def __init__(self) -> None:
        self._on_end: Callable[[RecordedSpan], None] = discard
        self._processors = ProgramProcessors()
        self._tracers: dict[tuple[str | None, ...], RecordingTracer] = {}
        self._limits = SpanLimits()
        self._shutdown_left_s = SHUTDOWN_S
        self._flush: Callable[[float], bool] = _nothing_to_send
        self._sampling: Callable[[RecordingTracer], Tracer] | None = None
        self._roots: Roots | None = None
        self._program: TracerProvider | None = None

    @property
    def resource(self) -> "Resource":
        """Return what this process is, or the program's own provider says."""
        theirs = getattr(self._program, "resource", None)
        return self._processors.resource if theirs is None else cast("Resource", theirs)

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> Tracer:
        try:  # programs ask for one each time that they make a span
            return self._tracer(
                instrumenting_module_name, instrumenting_library_version, schema_url, attributes
            )
        except FAULTS as fault:
            edge_faults("making a tracer", fault)
            return NoOpTracer()

    def configure(
        self,
        on_end: Callable[[RecordedSpan], None],
        *,
        limits: SpanLimits | None = None,
        sampling: Callable[[RecordingTracer], Tracer] | None = None,
        roots: Roots | None = None,
        resource: Mapping[str, object] | None = None,
        flush: Callable[[float], bool] = _nothing_to_send,
    ) -> None:
        """Make the spans ourselves, and hand each that ends to `on_end`.

        Args:
            limits: Limits of each span; None: OpenTelemetry's.
            sampling: A tracer that asks a sampler before one of ours makes a span; None: every
                span is recorded whose parent is.
            roots: Decides on spans without a parent; None: all are recorded.
            resource: What this process is, for the program's processors.
            flush: Sends what has ended within so many seconds, and says whether it could.
        """
        self._on_end = on_end
        self._flush = flush
        self._shutdown_left_s = SHUTDOWN_S
        self._limits = limits or SpanLimits()
        self._sampling = sampling
        self._roots = roots
        self._processors.describe(resource or {})
        self.yield_to(None)

    @contained("adding a span processor")
    def add_span_processor(self, span_processor: "SpanProcessor") -> None:
        """Show every span to one more processor, as the SDK's provider does."""
        self._processors.add(span_processor)
        self._configure_all()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what has ended by now, and flush the processors that the program added."""
        until_ns = monotonic_ns() + timeout_millis * 1_000_000
        sent = contained("flushing")(self._flush)(timeout_millis / 1000)
        left_ms = max((until_ns - monotonic_ns()) // 1_000_000, 0)
        return bool(contained("flushing")(self._processors.force_flush)(left_ms)) and bool(sent)

    @contained("shutting down")
    def shutdown(self) -> None:
        """Send what has ended, and shut down the program's processors; our own agent goes on."""
        began_ns = monotonic_ns()
        contained("flushing")(self._flush)(self._shutdown_left_s)
        took_s = (monotonic_ns() - began_ns) / 1e9
        self._shutdown_left_s = max(self._shutdown_left_s - took_s, SHUTDOWN_AGAIN_S)
        self._processors.shutdown()
        self._configure_all()

    def reset_after_fork(self) -> None:
        """In a forked child: tell the program's processors what this process is."""
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
        scope = Scope(name or "", version, schema_url, noted)
        key = (*scope[:3], repr(noted) if noted else "")  # for a mapping among them has no hash
        tracer = self._tracers.get(key)
        if tracer is None:
            made = RecordingTracer(scope, self._processors)
            self._configure(made)
            tracer = self._tracers.setdefault(key, made)  # another thread may ask at the same time
            self._configure(tracer)
        return tracer

    def _configure_all(self) -> None:
        for tracer in list(self._tracers.values()):
            self._configure(tracer)

    def _configure(self, tracer: RecordingTracer) -> None:
        tracer.limits = self._limits
        tracer.roots = self._roots
        shown = self._processors.on_start is not None
        tracer.on_end = self._end_for_all if shown else self._on_end
        if self._program is not None:
            tracer.delegate = self._program.get_tracer(
                tracer.name,
                tracer.version,
                tracer.schema_url,
                cast("Mapping[str, AnyValue]", tracer.attributes),
            )
        else:
            tracer.delegate = self._sampling(tracer) if self._sampling else None

    def _end_for_all(self, span: RecordedSpan) -> None:
        self._processors.on_end(span, self._on_end)
