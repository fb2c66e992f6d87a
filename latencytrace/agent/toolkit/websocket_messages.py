"""Messages of a WebSocket of which each is a request, such as a question in a chat.

One lasts from when the application has a message of text until it asks for the next: what it
sends meanwhile is the answer. Frames of bytes are parts of a stream, such as sound. Only where
the task of the connection itself takes them: what another takes may be for any. And none where
engine.io takes them, whose events are requests already, or where the client that opened the
connection is traced: what is done for it belongs to that trace.
"""

import sys
from asyncio import current_task
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from opentelemetry.trace import SpanKind

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.asgi_routes import route_of
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.model.stage import Stage

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

_OTHERS: Final = "engineio."
_SENDS: Final = "noting what is sent to a WebSocket"


class Messages:
    """The messages of one connection.

    Args:
        recorder: Where their spans go.
        scope: Of the connection, as ASGI has it.
    """

    def __init__(self, recorder: Recorder, scope: _Message) -> None:
        self._recorder = recorder
        self._scope = scope
        self._task = current_task()
        self._request: OwnRequest | None = None

    def received(self, receive: _Receive) -> _Receive:
        """Begin a request with each message of text, and end the one before."""

        async def timed_receive() -> _Message:
            if current_task() is not self._task:
                return await receive()
            self.over()
            message = await receive()
            with guarded("beginning with a message", self._recorder.on_fault):
                module = sys._getframe(1).f_globals.get("__name__", "")
                if message.get("text") is not None and not module.startswith(_OTHERS):
                    self._begin()
            return message

        return timed_receive

    def sent(self, send: _Send) -> _Send:
        """Time what is sent as parts of the answer."""

        async def timed_send(message: _Message) -> None:
            request = self._request
            answer = None if request is None else request.answer
            known, started_ns = 0 if answer is None else answer.known, monotonic_ns()
            await send(message)
            if request is not None and answer is not None:
                with guarded(_SENDS, self._recorder.on_fault):
                    sent_ns = monotonic_ns()
                    request.intervals.add(Stage.RESPOND, started_ns, sent_ns)
                    body = message.get("bytes") or str(message.get("text", "")).encode()
                    answer.chunk_sent(body, known, sent_ns)

        return timed_send

    def over(self, error: BaseException | None = None) -> None:
        """End the request under way, if there is one; the application raised, or asks for more."""
        request, self._request = self._request, None
        if request is not None:
            if error is not None:
                request.fail(error)
            request.deactivate()
            request.end()

    def _begin(self) -> None:
        route = route_of(self._scope)
        name = "WEBSOCKET" if route is None else f"WEBSOCKET {route}"
        request = OwnRequest(self._recorder, name, {}, SpanKind.SERVER)
        request.answer = AnswerStream(request.intervals.times(Stage.RESPOND))
        request.activate()
        self._request = request
