"""Spans of the program's own tracer provider, sent to our receiver as well."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from opentelemetry.trace import TracerProvider

from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.spans.span import RecordedSpan

if TYPE_CHECKING:  # only where it is used
    from latencytrace.agent.program.processor import ProgramProcessor


class ProgramSpans:
    """The processor that a provider of the program's gets from us, once there is one.

    Args:
        on_end: Takes each of its spans that ends.
        flush: Sends what has ended, in a bounded time.
    """

    def __init__(
        self,
        on_end: Callable[[RecordedSpan], None],
        flush: Callable[[float], object],
        on_fault: OnFault,
    ) -> None:
        self._on_end = on_end
        self._flush = flush
        self._on_fault = on_fault
        self._processor: ProgramProcessor | None = None

    def join(self, program: TracerProvider) -> None:
        from latencytrace.agent.program.processor import ProgramProcessor, add_to

        with guarded("joining the program's tracer provider", self._on_fault):
            self._processor = ProgramProcessor(self._on_end, self._flush, self._on_fault)
            add_to(program, self._processor)

    def leave(self) -> None:
        """Take no more."""
        if self._processor is not None:
            self._processor.leave()
