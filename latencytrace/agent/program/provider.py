"""OpenTelemetry's global tracer provider: ours until the program sets its own, then its."""

import sys
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from latencytrace.agent.guard import FAULTS, logger
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder


def is_sdks(provider: TracerProvider) -> bool:
    """Tell whether a provider is of OpenTelemetry's SDK, or holds one, as Logfire's does.

    Another one may have `add_span_processor` as well: Instana's takes a processor of its own
    kind, in the place of the one that it has.
    """
    sdk: Any = sys.modules.get("opentelemetry.sdk.trace")
    held = getattr(provider, "__dict__", {}).values()
    return (
        sdk is not None
        and hasattr(provider, "add_span_processor")
        and any(isinstance(one, sdk.TracerProvider) for one in (provider, *held))
    )


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
        self._set_provider = trace._set_tracer_provider
        self._door: object = None  # what stands in its place
        self.program: TracerProvider | None = None

    def install(self) -> None:
        """Take the place, or stand aside if the program has taken it already."""
        present = trace._TRACER_PROVIDER  # get_tracer_provider() hides "none yet"
        if present is not None and present is not self._ours:
            self._yield_to(present)
            return
        trace._TRACER_PROVIDER = self._ours
        set_provider = self._set_provider

        def set_and_yield(tracer_provider: TracerProvider, log: bool) -> None:  # noqa: FBT001 - its signature
            set_provider(tracer_provider, log)
            if trace._TRACER_PROVIDER is tracer_provider and tracer_provider is not self._ours:
                self._yield_to(tracer_provider)

        trace._set_tracer_provider = self._door = set_and_yield

    def uninstall(self) -> None:
        """Leave the place as if we had never been there."""
        if trace._set_tracer_provider is self._door:
            trace._set_tracer_provider = self._set_provider
        if trace._TRACER_PROVIDER is self._ours:
            trace._TRACER_PROVIDER = None

    def _yield_to(self, program: TracerProvider) -> None:
        if not is_sdks(program):
            logger.warning(
                "%s is not of OpenTelemetry's SDK: its spans go to its own back end only",
                type(program).__qualname__,
            )
            return
        self.program = program
        self._ours.yield_to(program)
        self._on_program(program)


# Keeps FastAPI's own telemetry from making spans that the program did not ask for.
#
# FastAPI traces by itself wherever it finds a tracer provider configured, and takes ours for
# one that the program chose. So ours is none to it: it makes no spans, or sets a provider of its
# own where it is to export (`auto_configure`), and a request that a hook has a span of gets
# no second one through ours. Its metrics and logs go on, and so do providers of the program's.

TIMED: Final = "latencytrace.timed"  # in an ASGI scope: the request has its span already


def without_ours(_recorder: Recorder, original: Timed) -> Timed:
    """Call our provider unconfigured, as the one is that OpenTelemetry begins with."""

    def _unconfigured(provider: object) -> Any:
        return type(provider) is RecordingProvider or original(provider)

    return _unconfigured


def quiet_request(recorder: Recorder, original: Timed) -> Timed:
    """Make no span of a request that has one."""
    silenced: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def quiet(telemetry: Any) -> Any:
        try:
            named = telemetry.config["tracer_provider"] or trace.get_tracer_provider()
            if type(named) is not RecordingProvider:
                return telemetry
            found = silenced.get(telemetry)
            if found is None:
                found = type(telemetry)({**telemetry.config, "tracing": False})
                silenced[telemetry] = found
        except FAULTS as fault:
            recorder.on_fault("silencing FastAPI's own tracing", fault)
            return telemetry
        return found

    async def __call__(self: Any, **request: Any) -> None:
        await original(quiet(self) if TIMED in request["scope"] else self, **request)

    return __call__


class FastApiTelemetry(Hook):
    """Patches FastAPI's telemetry, whichever hooks are asked for."""

    patches = (
        Replacement(
            "fastapi.telemetry._asgi", "_unconfigured", without_ours, optional=True, bare=True
        ),
        Replacement(
            "fastapi.telemetry._runtime", "_unconfigured", without_ours, optional=True, bare=True
        ),
        Replacement(
            "fastapi.telemetry._asgi", "NativeTelemetry.__call__", quiet_request, optional=True
        ),
    )
