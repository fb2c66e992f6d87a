"""Events that `python-socketio` handles: each is a request, whatever connection it came over."""

from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from opentelemetry.trace import SpanKind

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.own_request import OwnRequest

_ANY: Final = "*"  # of an event that only a handler for all of them takes: callers name it


def _name(server: Any, event: str, namespace: str, args: Any) -> str | None:
    """Return what a request is called: an event by its name, where the program knows it.

    None: the program handles no such event.
    """
    handler, _ = server._get_event_handler(event, namespace, args)
    if handler is not None:
        is_named = event in server.handlers.get(namespace, {})
    else:
        within, _ = server._get_namespace_handler(namespace, args)
        is_named = hasattr(within, f"on_{event}")
        if not is_named:
            return None
    is_known = namespace in server.handlers or namespace in server.namespace_handlers
    place = namespace.rstrip("/") if is_known else f"/{_ANY}"
    return f"socket.io {place}/{event if is_named else _ANY}"


def _begun(
    recorder: Recorder, server: object, event: object, namespace: object, args: object
) -> OwnRequest | None:
    with guarded("starting a request", recorder.on_fault):
        if not recorder.suppressed():
            name = _name(server, str(event), str(namespace or "/"), args)
            return None if name is None else OwnRequest(recorder, name, {}, SpanKind.SERVER)
    return None


def time_events(recorder: Recorder, original: Timed) -> Timed:
    @wraps(original)
    def trigger(self: Any, event: Any, namespace: Any, *args: Any) -> Any:
        request = _begun(recorder, self, event, namespace, args)
        if request is None:
            return original(self, event, namespace, *args)
        request.activate()
        try:
            return original(self, event, namespace, *args)
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.end()

    @wraps(original)
    async def aio_trigger(self: Any, event: Any, namespace: Any, *args: Any) -> Any:
        request = _begun(recorder, self, event, namespace, args)
        if request is None:
            return await original(self, event, namespace, *args)
        request.activate()
        try:
            return await original(self, event, namespace, *args)
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.end()

    return aio_trigger if iscoroutinefunction(original) else trigger


class SocketioHook(Hook):
    """Times the handlers of a program's events, sync and async."""

    requires = ("python-socketio >= 5.8",)
    patches = (
        Replacement("socketio.server", "Server._trigger_event", time_events),
        Replacement("socketio.async_server", "AsyncServer._trigger_event", time_events),
    )
