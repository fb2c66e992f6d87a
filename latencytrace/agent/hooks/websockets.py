"""Connections of `websockets`: the handshake's time, and the context that it carries.

A connection may live for hours and serve many requests, so it is no request itself: what is
traced within its handler belongs to the trace of who connected.
"""

from functools import wraps
from typing import Any

from opentelemetry import propagate

from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http_client import Exchange, request_attributes, with_headers


def _begun(recorder: Recorder, connection: Any) -> Exchange | None:  # noqa: ANN401 - of websockets
    with guarded("starting a handshake", recorder.on_fault):
        if not recorder.suppressed():
            uri = connection.protocol.uri
            scheme = "wss" if uri.secure else "ws"
            address = f"{scheme}://{uri.host}:{uri.port}{uri.path}"
            return Exchange(recorder, "GET", request_attributes("GET", address))
    return None


def time_handshake(recorder: Recorder, original: Timed) -> Timed:
    """Time a client's handshake of asyncio, and send W3C headers with it."""

    @wraps(original)
    async def handshake(
        self: Any,  # noqa: ANN401
        additional_headers: Any = None,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        exchange = _begun(recorder, self)
        if exchange is None:
            await original(self, additional_headers, *args, **kwargs)
            return
        headers = with_headers(additional_headers, exchange.headers)
        token = enter(exchange.context)
        try:
            await original(self, headers, *args, **kwargs)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            leave(token)
        exchange.end()

    return handshake


def time_blocking_handshake(recorder: Recorder, original: Timed) -> Timed:
    """Time a client's handshake of threads, and send W3C headers with it."""

    @wraps(original)
    def handshake(
        self: Any,  # noqa: ANN401
        additional_headers: Any = None,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        exchange = _begun(recorder, self)
        if exchange is None:
            original(self, additional_headers, *args, **kwargs)
            return
        headers = with_headers(additional_headers, exchange.headers)
        token = enter(exchange.context)
        try:
            original(self, headers, *args, **kwargs)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            leave(token)
        exchange.end()

    return handshake


def _take_up(recorder: Recorder, connection: Any) -> None:  # noqa: ANN401
    """Make who connected current in the task or thread, which is the connection's alone."""
    with guarded("taking up a connection", recorder.on_fault):
        if connection.request is not None:
            enter(propagate.extract(dict(connection.request.headers.raw_items())))


def take_up(recorder: Recorder, original: Timed) -> Timed:
    """Let a server's handler of asyncio go on with the trace of who connected."""

    @wraps(original)
    async def handshake(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        await original(self, *args, **kwargs)
        _take_up(recorder, self)

    return handshake


def take_up_blocking(recorder: Recorder, original: Timed) -> Timed:
    """Let a server's handler of threads go on with the trace of who connected."""

    @wraps(original)
    def handshake(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(self, *args, **kwargs)
        _take_up(recorder, self)

    return handshake


class WebsocketsHook(Hook):
    """Patches the handshakes of both ends, of asyncio and of threads."""

    requires = ("websockets >= 13.0",)
    patches = (
        Replacement("websockets.asyncio.client", "ClientConnection.handshake", time_handshake),
        Replacement(
            "websockets.sync.client", "ClientConnection.handshake", time_blocking_handshake
        ),
        Replacement("websockets.asyncio.server", "ServerConnection.handshake", take_up),
        Replacement("websockets.sync.server", "ServerConnection.handshake", take_up_blocking),
    )
