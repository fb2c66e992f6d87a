"""What a row of the table traces with: the SDK with contrib, or latencytrace."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span

WORK = "work"


class TakesProcessors(Protocol):
    """The SDK's provider, or ours."""

    def add_span_processor(self, span_processor: Any) -> None:
        """Show spans to one more processor."""

    def force_flush(self) -> bool:
        """Show what has ended."""


@dataclass
class Tracing:
    """A tracer, what it recorded, and how a queue's items are marked.

    Args:
        provider: Whose spans are looked at.
        ticket: Marks what joins a queue; None where there is no such thing.
        batch: Serves what was marked.
        stage: Times a stream; None: a span around its `yield`s.
    """

    provider: TakesProcessors
    ticket: Callable[[], Any] | None = None
    batch: Callable[[Sequence[Any]], AbstractContextManager[object]] | None = None
    stage: Callable[[str], Callable[[Any], Any]] | None = None
    memory: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def __post_init__(self) -> None:
        self.tracer = trace.get_tracer("program")
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))

    @contextmanager
    def request(self) -> Iterator[Span]:
        """A request that is served."""
        with self.tracer.start_as_current_span("request") as span:
            yield span

    def work(self) -> None:
        """What is done for it, wherever that is."""
        with self.tracer.start_as_current_span(WORK):
            pass

    @contextmanager
    def serving(self, marked: Any) -> Iterator[None]:
        """What is done for an item of a queue."""
        if self.batch is None or marked is None:
            self.work()
            yield
            return
        with self.batch([marked]):
            yield

    def spans(self) -> tuple[ReadableSpan, ...]:
        """All that have ended."""
        self.provider.force_flush()
        return self.memory.get_finished_spans()

    def kept(self, request: Span) -> bool:
        """Whether the work is in the request's trace."""
        wanted = request.get_span_context().trace_id
        work = [span for span in self.spans() if span.name == WORK]
        return bool(work) and any(
            span.context is not None and span.context.trace_id == wanted for span in work
        )


def carries(header: str | None, request: Span) -> bool:
    """Whether a `traceparent` names the request's trace."""
    trace_id = trace.format_trace_id(request.get_span_context().trace_id)
    return header is not None and header.split("-")[1:2] == [trace_id]
