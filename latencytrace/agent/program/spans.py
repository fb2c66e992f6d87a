"""Spans of the program's own tracer provider, handed to our receiver as well."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from opentelemetry.trace import TracerProvider

from latencytrace.agent.export.transport import Sender
from latencytrace.agent.guard import OnFault, guarded, logger
from latencytrace.agent.program.provider import TakesProcessors

if TYPE_CHECKING:  # only where it is used
    from opentelemetry.sdk.trace.export import BatchSpanProcessor


class ProgramSpans:
    """The processor that a provider of the program's gets from us, once there is one.

    Args:
        url: Where traces are posted.
        headers: Of each post.
        grpc_sender: Makes a sender of ours; None: the SDK's exporter posts them over HTTP.
        interval_s: How often.
        on_fault: Takes what our own code raises.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        grpc_sender: Callable[[], Sender] | None,
        *,
        interval_s: float,
        on_fault: OnFault,
    ) -> None:
        self._url = url
        self._headers = headers
        self._grpc_sender = grpc_sender
        self._interval_s = interval_s
        self._on_fault = on_fault
        self._processor: BatchSpanProcessor | None = None

    def join(self, program: TracerProvider) -> None:
        """Take the spans of this provider."""
        if not isinstance(program, TakesProcessors):
            logger.warning("the program's tracer provider takes no processors: see its back end")
            return
        from latencytrace.agent.program.exporter import program_processor  # noqa: PLC0415 - only where it is used

        with guarded("joining the program's tracer provider", self._on_fault):
            self._processor = program_processor(
                self._url, self._headers, self._grpc_sender, self._interval_s
            )
            program.add_span_processor(self._processor)

    def flush(self, timeout_s: float) -> bool:
        """Send what it holds; True, if there is nothing."""
        return self._processor is None or self._processor.force_flush(int(timeout_s * 1000))

    def stop(self) -> None:
        """Send what it holds, and take no more."""
        if self._processor is not None:
            self._processor.shutdown()  # type: ignore[no-untyped-call] # the SDK says no type
