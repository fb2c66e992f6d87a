"""Connections of `websockets`: the handshake's time, and the context that it carries.

A connection may live for hours, and is no request itself. What its handler traces belongs to
the client's trace; where the client has none, each message of text is a request.
"""

from typing import Any, Self

from latencytrace.agent.context import enter
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.client import (
    ClientCall,
    request_attributes,
    timed_calls,
    with_headers,
)
from latencytrace.agent.toolkit.websocket_messages import closes, conversed, receives, sends


class _Handshake(ClientCall):
    """A client's handshake, which sends W3C headers."""

    headers_argument = "additional_headers"

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self:
        connection: Any = arguments["self"]
        uri = connection.protocol.uri
        address = f"{'wss' if uri.secure else 'ws'}://{uri.host}:{uri.port}{uri.path}"
        call = cls(recorder, "GET", request_attributes("GET", address))
        own = arguments["additional_headers"]
        call.headers = with_headers(own, call.added_to(own))
        return call


def _join_caller(recorder: Recorder, arguments: Arguments, _: object) -> None:
    """Make the client current in the task or thread, which is the connection's alone."""
    request = getattr(arguments["self"], "request", None)
    if request is not None:
        recorder.open_requests.serves = True
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        enter(propagation.extract(headers))
        conversed(recorder, lambda: None)


def _is_text(message: object) -> bool:
    return isinstance(message, str)


_time = timed_calls(_Handshake)
_join = after("joining the caller's trace", _join_caller)


class WebsocketsHook(Hook):
    """Patches the handshakes of both ends, of asyncio and of threads."""

    requires = ("websockets >= 13.0",)
    patches = (
        Replacement("websockets.asyncio.client", "ClientConnection.handshake", _time),
        Replacement("websockets.sync.client", "ClientConnection.handshake", _time),
        *(
            Replacement(f"websockets.{kind}.server", f"ServerConnection.{name}", build)
            for kind in ("asyncio", "sync")
            for name, build in (
                ("handshake", _join),
                ("recv", receives(_is_text)),
                ("send", sends),
                ("close", closes),
            )
        ),
    )
