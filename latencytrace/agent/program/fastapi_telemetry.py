"""Keeps FastAPI's own telemetry from making spans that nobody asked for.

FastAPI traces by itself wherever it finds a tracer provider configured, and takes ours for
one that the program chose. So it makes none through ours, nor any of a request that a hook
has a span of; its metrics and logs go on, and so does a provider that the program names.
"""

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry import trace

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder

TIMED: Final = "latencytrace.timed"  # in an ASGI scope: the request has its span already


def _is_ours() -> bool:
    """Tell whether FastAPI would trace through our provider."""
    return isinstance(trace.get_tracer_provider(), RecordingProvider)


def _quiet(recorder: Recorder) -> Callable[[Any, bool], Any]:
    """Return what gives the same telemetry, without spans where they are not wanted."""
    silenced: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def quiet(telemetry: Any, is_timed: bool) -> Any:  # noqa: ANN401, FBT001 - FastAPI's NativeTelemetry
        try:
            if telemetry.config["tracer_provider"] is not None or not (is_timed or _is_ours()):
                return telemetry
            found = silenced.get(telemetry)
            if found is None:
                found = type(telemetry)({**telemetry.config, "tracing": False})
                silenced[telemetry] = found
        except FAULTS as fault:
            recorder.on_fault("silencing FastAPI's own tracing", fault)
            return telemetry
        return found

    return quiet


def quiet_enabled(recorder: Recorder, original: Timed) -> Timed:
    """Ask for nothing to be done about a request where only spans would be made."""
    quiet = _quiet(recorder)

    def enabled(self: Any) -> Any:  # noqa: ANN401 - FastAPI's NativeTelemetry
        return original(quiet(self, False))  # noqa: FBT003 - it does not know of which request

    return enabled


def quiet_request(recorder: Recorder, original: Timed) -> Timed:
    """Make no span of a request that has one."""
    quiet = _quiet(recorder)

    async def __call__(self: Any, **request: Any) -> None:  # noqa: ANN401, N807 - stands in its place
        await original(quiet(self, TIMED in request["scope"]), **request)

    return __call__


class FastApiTelemetry(Hook):
    """Patches FastAPI's telemetry, whichever hooks are asked for."""

    patches = (
        Replacement(
            "fastapi.telemetry._asgi", "NativeTelemetry.enabled", quiet_enabled, optional=True
        ),
        Replacement(
            "fastapi.telemetry._asgi", "NativeTelemetry.__call__", quiet_request, optional=True
        ),
    )
