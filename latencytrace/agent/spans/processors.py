"""Span processors that the program adds to our provider, as it would to the SDK's."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from opentelemetry.context import Context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FaultCounter, guarded, logger
from latencytrace.agent.process.background import background_thread
from latencytrace.agent.process.forks import whole_imports
from latencytrace.agent.spans.sdk_view import readable
from latencytrace.agent.spans.span import RecordedSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Span as SdkSpan
    from opentelemetry.sdk.trace import SpanProcessor

QUEUE_SPANS = 65_536  # more are dropped and counted
_INTERVAL_S = 0.1


class ProgramProcessors:
    """Shows processors each span: its start where it starts, its end on a thread of ours.

    So an exporter that is slow, or raises, is not waited for by who ends a span. Without
    any processor a span costs one look at `on_start`.
    """

    def __init__(self) -> None:
        self.on_start: Callable[[RecordedSpan, Context | None], None] | None = None
        self._described: Mapping[str, object] = {}
        self._resource: Resource | None = None  # made when somebody asks
        self.dropped = 0
        self._processors: tuple[SpanProcessor, ...] = ()
        self._on_fault = FaultCounter()
        self._ended: deque[RecordedSpan] = deque()
        self._thread: threading.Thread | None = None
        self._showing = threading.Lock()
        self._wake = threading.Event()

    @property
    def resource(self) -> "Resource":
        """Return what this process is, as the SDK says it."""
        if self._resource is None:
            with whole_imports.lock:
                from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where it is used

            self._resource = Resource(dict(self._described))  # type: ignore[arg-type]  # as detected
        return self._resource

    def describe(self, process: Mapping[str, object]) -> None:
        """Say what this process is."""
        self._described, self._resource = process, None

    def add(self, processor: "SpanProcessor") -> None:
        """Call one more processor."""
        self._processors += (processor,)
        self.on_start = self._show_start
        with guarded("starting the thread of span processors", self._on_fault):
            self._start_thread()

    def on_end(self, span: RecordedSpan) -> None:
        """Take an ended span; called where it ended, never waits."""
        if len(self._ended) < QUEUE_SPANS:
            self._ended.append(span)
            return
        self.dropped += 1
        if self.dropped == 1:
            logger.warning(
                "the program's span processors are too slow: spans are not shown to them; "
                "latencytrace's own receiver gets them (logged once)"
            )

    def force_flush(self, timeout_millis: int) -> bool:
        """Show what has ended by now, and flush every processor."""
        until_ns = monotonic_ns() + timeout_millis * 1_000_000
        flushed = self.show(timeout_millis / 1000)
        for processor in self._processors:
            left_ms = max((until_ns - monotonic_ns()) // 1_000_000, 0)
            done: object = False
            with guarded("flushing a span processor", self._on_fault):
                done = processor.force_flush(left_ms)
            flushed = flushed and done is not False  # None says nothing against it, as in the SDK
        return flushed

    def shutdown(self) -> None:
        """Show what has ended by now, shut every processor down and forget them."""
        self.show(_INTERVAL_S)
        processors, self._processors, self.on_start = self._processors, (), None
        self._wake.set()
        for processor in processors:
            with guarded("shutting down a span processor", self._on_fault):
                processor.shutdown()

    def reset_after_fork(self) -> None:
        """In a forked child: none of the parent's spans, and a thread of its own."""
        self._ended.clear()
        self._showing = threading.Lock()
        self._wake = threading.Event()
        self._thread = None
        self.dropped = 0
        self._resource = None  # this process is another one
        if self._processors:
            self._start_thread()

    def _show_start(self, span: RecordedSpan, context: Context | None) -> None:
        for processor in self._processors:
            with guarded("showing a started span to a processor", self._on_fault):
                processor.on_start(cast("SdkSpan", span), parent_context=context)

    def _start_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._wake.clear()
        self._thread = background_thread(self._run, "latencytrace-processors")

    def _run(self) -> None:
        while self._processors:
            self._wake.wait(_INTERVAL_S)
            self.show(_INTERVAL_S)

    def show(self, timeout_s: float) -> bool:
        """Show what has ended by now; False: another thread is at it for too long."""
        if not self._showing.acquire(timeout=timeout_s):
            return False
        try:
            if self._ended:
                self._show_all()
        finally:
            self._showing.release()
        return True

    def _show_all(self) -> None:
        with whole_imports.lock:
            import opentelemetry.sdk.trace  # noqa: F401, PLC0415 - which `readable` needs

        for _ in range(len(self._ended)):
            with guarded("showing an ended span to a processor", self._on_fault):
                shown = readable(self._ended.popleft(), self.resource)
                for processor in self._processors:
                    with guarded("showing an ended span to a processor", self._on_fault):
                        processor.on_end(shown)
