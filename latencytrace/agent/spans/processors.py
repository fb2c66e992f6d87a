"""Span processors that the program adds to our provider, as it would to the SDK's."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # which the SDK's processors set while they export
    Context,
    set_value,
)

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import FaultCounter, guarded
from latencytrace.agent.spans.sdk_view import readable
from latencytrace.agent.spans.span import RecordedSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Span as SdkSpan
    from opentelemetry.sdk.trace import SpanProcessor


class ProgramProcessors:
    """Shows processors each span where it starts and where it ends, as the SDK does.

    So a processor that the program flushes or shuts down by itself has all that ended before.
    Without any processor a span costs one look at `on_start`.
    """

    def __init__(self) -> None:
        self.on_start: Callable[[RecordedSpan, Context | None], None] | None = None
        self._described: Mapping[str, object] = {}
        self._resource: Resource | None = None  # made when asked for
        self._processors: tuple[SpanProcessor, ...] = ()
        self._on_fault = FaultCounter()

    @property
    def resource(self) -> "Resource":
        """Return what this process is, as the SDK says it."""
        if self._resource is None:
            from opentelemetry.sdk.resources import Resource

            self._resource = Resource(dict(self._described))  # type: ignore[arg-type]  # as detected
        return self._resource

    def describe(self, process: Mapping[str, object]) -> None:
        self._described, self._resource = process, None

    def add(self, processor: "SpanProcessor") -> None:
        """Call one more processor."""
        self._processors += (processor,)
        self.on_start = self._show_start

    def on_end(self, span: RecordedSpan, then: Callable[[RecordedSpan], None]) -> None:
        """Show an ended span, and hand it on as processors leave it.

        What a processor calls meanwhile is not recorded: one that posts a span would make
        another by that.

        Args:
            span: A span that a processor's `_on_ending` may still change.
            then: Takes it between that and the processors' `on_end`.
        """
        token = enter(set_value(_SUPPRESS_INSTRUMENTATION_KEY, value=True))
        try:
            for processor in self._processors:
                ending = getattr(processor, "_on_ending", None)
                if ending is not None:
                    with guarded("showing an ending span to a processor", self._on_fault):
                        ending(span)
            then(span)
            with guarded("showing an ended span to a processor", self._on_fault):
                shown = readable(span, self.resource)
                for processor in self._processors:
                    with guarded("showing an ended span to a processor", self._on_fault):
                        processor.on_end(shown)
        finally:
            leave(token)

    def force_flush(self, timeout_millis: int) -> bool:
        until_ns = monotonic_ns() + timeout_millis * 1_000_000
        flushed = True
        for processor in self._processors:
            left_ms = max((until_ns - monotonic_ns()) // 1_000_000, 0)
            done: object = False
            with guarded("flushing a span processor", self._on_fault):
                done = processor.force_flush(left_ms)
            flushed = flushed and done is not False  # None says nothing against it, as in the SDK
        return flushed

    def shutdown(self) -> None:
        """Shut every processor down and forget them."""
        processors, self._processors, self.on_start = self._processors, (), None
        for processor in processors:
            with guarded("shutting down a span processor", self._on_fault):
                processor.shutdown()

    def reset_after_fork(self) -> None:
        """In a forked child: this process is another one."""
        self._resource = None

    def _show_start(self, span: RecordedSpan, context: Context | None) -> None:
        for processor in self._processors:
            with guarded("showing a started span to a processor", self._on_fault):
                processor.on_start(cast("SdkSpan", span), parent_context=context)
