"""OpenTelemetry's global tracer provider: ours until the program sets its own, then its."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from latencytrace.agent.spans.provider import RecordingProvider


@runtime_checkable
class TakesProcessors(Protocol):
    """A provider like the SDK's, to which a span processor can be added."""

    def add_span_processor(self, span_processor: Any) -> None:
        """Hand every span of the provider to one more processor."""


class GlobalProvider:
    """Holds the global place for our provider without taking it away from the program.

    OpenTelemetry lets a provider be set once. Ours is put there past that rule, so that
    the program's own call still succeeds; when it does, ours delegates to it.

    Args:
        on_program: Called once with the program's provider, whenever it comes.
    """

    def __init__(
        self, ours: RecordingProvider, on_program: Callable[[TracerProvider], None]
    ) -> None:
        self._ours = ours
        self._on_program = on_program
        self._set_provider = trace._set_tracer_provider  # noqa: SLF001 - the one door to the global place
        self._door: object = None  # what stands in its place
        self.program: TracerProvider | None = None

    def install(self) -> None:
        """Take the place, or stand aside if the program has taken it already."""
        present = trace._TRACER_PROVIDER  # noqa: SLF001 - get_tracer_provider() hides "none yet"
        if present is not None and present is not self._ours:
            self._yield_to(present)
            return
        trace._TRACER_PROVIDER = self._ours  # noqa: SLF001
        set_provider = self._set_provider

        def set_and_yield(tracer_provider: TracerProvider, log: bool) -> None:  # noqa: FBT001 - its signature
            set_provider(tracer_provider, log)
            if trace._TRACER_PROVIDER is tracer_provider and tracer_provider is not self._ours:  # noqa: SLF001
                self._yield_to(tracer_provider)

        trace._set_tracer_provider = self._door = set_and_yield  # noqa: SLF001

    def uninstall(self) -> None:
        """Leave the place as if we had never been there."""
        if trace._set_tracer_provider is self._door:  # noqa: SLF001
            trace._set_tracer_provider = self._set_provider  # noqa: SLF001
        if trace._TRACER_PROVIDER is self._ours:  # noqa: SLF001
            trace._TRACER_PROVIDER = None  # noqa: SLF001

    def _yield_to(self, program: TracerProvider) -> None:
        self.program = program
        self._ours.yield_to(program)
        self._on_program(program)
