"""Messages of a WebSocket of which each is a request, such as a question in a chat.

One lasts from when the application has a message of text until it asks for the next: what it
sends meanwhile is the answer. Frames of bytes are parts of a stream, such as sound. Only where
the task or thread of the connection itself takes them: what another takes may be for any. And
none where the client that opened the connection is traced: what is done for it belongs to that
trace.
"""

import sys
from asyncio import current_task
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial, wraps
from inspect import iscoroutinefunction
from threading import current_thread
from typing import Any, Final

from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.http.server import joined_caller
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.model.stage import Stage

_NEXT: Final = "ending with a message"
_conversation: ContextVar["Messages | None"] = ContextVar("latencytrace_messages", default=None)


class MessageRequest(OwnRequest):
    """What a connection does for one message.

    Args:
        route: Of the connection; None: unknown.
    """

    def __init__(self, recorder: Recorder, route: str | None) -> None:
        name = "WEBSOCKET" if route is None else f"WEBSOCKET {route}"
        super().__init__(recorder, name, {}, SpanKind.SERVER)
        self.answer: AnswerStream = AnswerStream(self.intervals.times(Stage.RESPOND))

    def sending(self) -> Callable[..., None]:
        """Begin with a part of the answer; what is returned is to be given it once it has left."""
        known, started_ns = self.answer.known, monotonic_ns()

        def has_left(part: object, *_: object) -> None:
            with guarded("noting what is sent to a WebSocket", self.recorder.on_fault):
                if isinstance(part, str | bytes | bytearray | memoryview | dict):  # no generator
                    sent_ns = monotonic_ns()
                    self.intervals.add(Stage.RESPOND, started_ns, sent_ns)
                    body = str(part).encode() if isinstance(part, str | dict) else bytes(part)
                    self.answer.chunk_sent(body, known, sent_ns)

        return has_left

    def over(self, error: BaseException | None = None) -> None:
        """End it, in the task or thread that it was made current in."""
        if error is not None:
            self.fail(error)
        self.deactivate()
        self.end()


class Messages:
    """The messages of one connection, which the current task or thread takes.

    Args:
        recorder: Where their spans go.
        route: Tells that of the connection; None: unknown.
    """

    def __init__(self, recorder: Recorder, route: Callable[[], str | None]) -> None:
        self._recorder = recorder
        self._route = route
        self._owner = _taker()
        self.request: MessageRequest | None = None  # under way

    def asked(self, error: BaseException | None = None) -> bool:
        """End the request under way, as the next message is asked for.

        Args:
            error: What the application raised instead.

        Returns:
            False: another task or thread asks, and nothing is ended.
        """
        if _taker() is not self._owner:
            return False
        self.over(error)
        return True

    def came(self, is_text: Callable[[], bool]) -> None:
        """Begin a request with a message, if it is one of text."""
        with guarded("beginning with a message", self._recorder.on_fault):
            if is_text() and not self._recorder.suppressed():
                self.request = MessageRequest(self._recorder, self._route())
                self.request.activate()

    def over(self, error: BaseException | None = None) -> None:
        """End the request under way, if there is one; the application raised, or asks for more."""
        request, self.request = self.request, None
        if request is not None:
            with guarded(_NEXT, self._recorder.on_fault):
                request.over(error)


def conversed(recorder: Recorder, route: Callable[[], str | None]) -> Messages | None:
    """Begin a connection in the current task or thread; None: its client is traced."""
    if get_current_span().get_span_context().is_valid:
        return None
    messages = Messages(recorder, route)
    _conversation.set(messages)
    return messages


async def converse(
    recorder: Recorder,
    headers: Any,
    route: Callable[[], str | None],
    run: Callable[[], Awaitable[Any]],
) -> Any:
    """Run the handler of a connection in its client's trace; where that has none, time messages.

    Args:
        headers: Of the handshake.
        route: Tells the connection's; None: unknown.
    """
    caller = joined_caller(recorder, headers)
    messages = raised = None
    with guarded("taking up a connection", recorder.on_fault):
        messages = None if caller is None else conversed(recorder, route)
    try:
        return await run()
    except BaseException as error:
        raised = error
        raise
    finally:
        if messages is not None:
            messages.over(raised)
        if caller is not None:
            leave(caller)


def conversation() -> Messages | None:
    """Return the connection that the current code serves; None: none, or its client is traced."""
    return _conversation.get()


def closes(recorder: Recorder, original: Timed) -> Timed:
    """Build what ends the request under way before its connection is closed."""

    @wraps(original)
    def close(*args: Any, **kwargs: Any) -> Any:
        with guarded(_NEXT, recorder.on_fault):
            _asked(sys.exc_info()[1])
        return original(*args, **kwargs)

    return close


def receives(is_text: Callable[[Any], bool]) -> Build:
    """Build what times a method that returns the next message, sync or async."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        @wraps(original)
        async def receive(*args: Any, **kwargs: Any) -> Any:
            messages = None
            with guarded(_NEXT, recorder.on_fault):
                messages = _asked()
            message = await original(*args, **kwargs)
            if messages is not None:
                messages.came(partial(is_text, message))
            return message

        @wraps(original)
        def receive_now(*args: Any, **kwargs: Any) -> Any:
            messages = None
            with guarded(_NEXT, recorder.on_fault):
                messages = _asked()
            message = original(*args, **kwargs)
            if messages is not None:
                messages.came(partial(is_text, message))
            return message

        return receive if iscoroutinefunction(original) else receive_now

    return build


def sends(recorder: Recorder, original: Timed) -> Timed:
    """Time a method, sync or async, that is given a part of the answer."""

    @wraps(original)
    async def send(*args: Any, **kwargs: Any) -> Any:
        sending = _sending(recorder)
        result = await original(*args, **kwargs)
        if sending is not None:
            sending(*args[1:], *kwargs.values())
        return result

    @wraps(original)
    def send_now(*args: Any, **kwargs: Any) -> Any:
        sending = _sending(recorder)
        result = original(*args, **kwargs)
        if sending is not None:
            sending(*args[1:], *kwargs.values())
        return result

    return send if iscoroutinefunction(original) else send_now


def _asked(error: BaseException | None = None) -> Messages | None:
    messages = _conversation.get()
    return messages if messages is not None and messages.asked(error) else None


def _sending(recorder: Recorder) -> Callable[..., None] | None:
    with guarded("noting what is sent to a WebSocket", recorder.on_fault):
        messages = _conversation.get()
        if messages is not None and messages.request is not None:
            return messages.request.sending()
    return None


def _taker() -> object:
    try:
        return current_task() or current_thread()
    except RuntimeError:  # no loop runs
        return current_thread()
