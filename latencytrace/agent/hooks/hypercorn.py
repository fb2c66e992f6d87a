"""When the requests came that hypercorn reads, which may have waited for its event loop."""

from collections.abc import MutableMapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.arrival import ARRIVED, answered, arrived_ns
from latencytrace.agent.toolkit.http.server import request_served

Scope = MutableMapping[str, object]

_NOTES = "noting when a request came"
_ALONE = {"1.0", "1.1"}  # versions that have one request at a time on a connection
_transport: ContextVar[Any] = ContextVar("latencytrace.hypercorn_transport", default=None)


def note_connection(recorder: Recorder, original: Timed) -> Timed:
    """Note over which connection requests come in a task."""

    @wraps(original)
    async def run(self: Any) -> None:
        with guarded(_NOTES, recorder.on_fault):
            recorder.open_requests.serves = True
            _transport.set(self.writer.transport)
        await original(self)

    return run


def note_arrival(recorder: Recorder, original: Timed) -> Timed:
    """Note when a request came, as its bytes are read and its task is made."""

    @wraps(original)
    async def spawn_app(
        self: object, app: object, config: object, scope: Scope, send: object
    ) -> object:
        with guarded(_NOTES, recorder.on_fault):
            if scope["type"] == "http" and scope["http_version"] in _ALONE:
                scope[ARRIVED] = arrived_ns(recorder.open_requests, _transport.get())
        return await original(self, app, config, scope, send)

    return spawn_app


def note_answer(recorder: Recorder, original: Timed) -> Timed:
    """End a request with its answer's last byte: what follows may be the connection's close."""

    @wraps(original)
    async def _maybe_recycle(self: object) -> None:
        with guarded(_NOTES, recorder.on_fault):
            answered(_transport.get())
            request = request_served()
            if request is not None:
                request.has_left()
        await original(self)

    return _maybe_recycle


class HypercornHook(Hook):
    """Patches where a connection begins, and a request on it begins and ends."""

    requires = ("hypercorn >= 0.16",)
    patches = (
        Replacement("hypercorn.asyncio.tcp_server", "TCPServer.run", note_connection),
        Replacement("hypercorn.asyncio.task_group", "TaskGroup.spawn_app", note_arrival),
        Replacement("hypercorn.protocol.h11", "H11Protocol._maybe_recycle", note_answer),
    )
