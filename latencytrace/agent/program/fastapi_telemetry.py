"""Keeps FastAPI's own telemetry from making spans that the program did not ask for.

FastAPI traces by itself wherever it finds a tracer provider configured, and takes ours for
one that the program chose. So ours is none to it: it makes no spans, or sets a provider of its
own where it is to export (`auto_configure`), and a request that a hook has a span of gets
no second one through ours. Its metrics and logs go on, and so do providers of the program's.
"""

from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry.trace import get_tracer_provider

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder

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
            named = telemetry.config["tracer_provider"] or get_tracer_provider()
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

    async def __call__(self: Any, **request: Any) -> None:  # noqa: N807 - stands in its place
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
