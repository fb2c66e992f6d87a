"""Messages of a WebSocket of which each is a request, such as a question in a chat.

One lasts from when the application has a message of text until it asks for the next: what it
sends meanwhile is the answer. Frames of bytes are parts of a stream, such as sound. Only where
the task or thread of the connection itself takes them: what another takes may be for any. And
none where the client that opened the connection is traced: what is done for it belongs to that
trace.
"""

import sys
from asyncio import current_task
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Token
from dataclasses import dataclass
from functools import partial, wraps
from inspect import iscoroutinefunction
from threading import current_thread
from typing import Any, Final
from weakref import finalize, ref

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.server import joined_caller
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_ENDS: Final = "ending with a message"
_SENDS: Final = "noting what is sent to a WebSocket"
# What a program gets that sends to a client which has left, by name: not every library is there.
_HAS_LEFT: Final = {
    "ClientConnectionResetError",
    "ConnectionClosed",
    "WebSocketClosedError",
    "WebSocketDisconnect",
}


class MessageRequest(OwnRequest):
    """Work of a connection for one message.

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
            with guarded(_SENDS, self.recorder.on_fault):
                if isinstance(part, str | bytes | bytearray | memoryview | dict):  # no generator
                    sent_ns = monotonic_ns()
                    self.intervals.add(Stage.RESPOND, started_ns, sent_ns)
                    self.answer.chunk_sent(_as_bytes(part), known, sent_ns)

        return has_left

    def over(self, error: BaseException | None = None) -> None:
        """End it; a client that has left is no fault of the application's."""
        if error is not None and _HAS_LEFT.isdisjoint(one.__name__ for one in type(error).__mro__):
            self.fail(error)
        elif error is not None:
            self.timing.note({semconv.CANCELLED: True})
        self.end()


class Messages:
    """The messages of one connection, which the current task or thread takes.

    Args:
        recorder: Where their spans go.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._owner = ref(_taker())  # a task holds what its handler returned
        self._current: MessageRequest | None = None  # in the owner's context
        self._route: list[str | None] = []  # of the connection, once it is known
        self.request: MessageRequest | None = None  # under way

    def asked(self, error: BaseException | None = None) -> bool:
        """End the request under way, as the next message is asked for.

        Args:
            error: What the application raised instead.

        Returns:
            False: another task or thread asks, and what it gets is no request.
        """
        self.over(error)
        if _taker() is not self._owner():
            return False
        current, self._current = self._current, None
        if current is not None:
            current.deactivate()
        return True

    def came(self, is_request: Callable[[], bool], route: Callable[[], str | None]) -> None:
        """Begin a request with a message, if it is one.

        Args:
            route: Tells that of the connection; None: unknown.
        """
        with guarded("beginning with a message", self.recorder.on_fault):
            if is_request() and not self.recorder.suppressed():
                self._current = self.request = self.begun(route)
                self._current.activate()

    def begun(self, route: Callable[[], str | None]) -> MessageRequest:
        """Return a request that begins now, and is not current yet."""
        if not self._route:
            self._route.append(route())
        return MessageRequest(self.recorder, self._route[0])

    def over(self, error: BaseException | None = None) -> None:
        """End the request under way, if there is one."""
        request, self.request = self.request, None
        if request is not None:
            with guarded(_ENDS, self.recorder.on_fault):
                request.over(error)


_conversations: Final[dict[int, Messages]] = {}  # by the `id` of connections that are alive


def conversed(recorder: Recorder, connection: object) -> Messages | None:
    """Begin a connection in the current task or thread; None: its client is traced."""
    with guarded("taking up a connection", recorder.on_fault):
        if not get_current_span().get_span_context().is_valid:
            messages = _conversations[id(connection)] = Messages(recorder)
            finalize(connection, _conversations.pop, id(connection), None).atexit = False
            return messages
    return None


def conversation(connection: object) -> Messages | None:
    """Return a connection's messages; None: its client is traced, or nothing is known of it."""
    return _conversations.get(id(connection))


async def converse(
    recorder: Recorder, connection: object, headers: Any, run: Callable[[], Awaitable[Any]]
) -> Any:
    """Run the handler of a connection in its client's trace; where that has none, time messages.

    Args:
        headers: Of the handshake.
    """
    caller = joined_caller(recorder, headers)
    if caller is None:
        return await run()
    return await until_closed(caller, conversed(recorder, connection), run)


async def until_closed(
    caller: Token[Context], messages: Messages | None, run: Callable[[], Awaitable[Any]]
) -> Any:
    """Run a handler, then end the request under way, and leave the client's trace."""
    raised = None
    try:
        return await run()
    except BaseException as error:
        raised = error
        raise
    finally:
        if messages is not None:
            with guarded(_ENDS, messages.recorder.on_fault):
                messages.asked(raised)
        leave(caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversing:
    """How a library's methods on a connection are timed.

    Args:
        connection: Finds it, of the object whose method is called.
        is_request: Whether a message that it received is one.
        route: That of a connection; None: unknown.
    """

    connection: Callable[[Any], object]
    is_request: Callable[[Any, Any], bool]
    route: Callable[[Any], str | None]

    def receives(self, recorder: Recorder, original: Timed) -> Timed:
        """Time a method that returns the next message."""

        def begin(called: Any, *_: Any, **__: Any) -> Callable[[Any], None] | None:
            messages = conversation(self.connection(called))
            if messages is None or not messages.asked():
                return None
            route = partial(self.route, self.connection(called))
            return lambda message: messages.came(partial(self.is_request, called, message), route)

        return _around(recorder, original, _ENDS, begin)

    def ends(self, recorder: Recorder, original: Timed) -> Timed:
        """End the request under way before a method, such as one that closes a connection."""

        def begin(called: Any, *_: Any, **__: Any) -> None:
            messages = conversation(self.connection(called))
            if messages is not None:
                messages.asked(sys.exc_info()[1])

        return _around(recorder, original, _ENDS, begin)

    def sends(self, recorder: Recorder, original: Timed) -> Timed:
        """Time a method that is given a part of the answer."""

        def begin(called: Any, *args: Any, **kwargs: Any) -> Callable[[Any], None] | None:
            messages = conversation(self.connection(called))
            if messages is None or messages.request is None:
                return None
            has_left = messages.request.sending()
            return lambda _: has_left(*args, *kwargs.values())

        return _around(recorder, original, _SENDS, begin)


def _around(
    recorder: Recorder,
    original: Timed,
    doing: str,
    begin: Callable[..., Callable[[Any], None] | None],
) -> Timed:
    """Wrap a method, sync or async: what `begin` returns is given what it has returned."""

    @wraps(original)
    async def call(*args: Any, **kwargs: Any) -> Any:
        ended = None
        with guarded(doing, recorder.on_fault):
            ended = begin(*args, **kwargs)
        result = await original(*args, **kwargs)
        if ended is not None:
            ended(result)
        return result

    @wraps(original)
    def call_now(*args: Any, **kwargs: Any) -> Any:
        ended = None
        with guarded(doing, recorder.on_fault):
            ended = begin(*args, **kwargs)
        result = original(*args, **kwargs)
        if ended is not None:
            ended(result)
        return result

    return call if iscoroutinefunction(original) else call_now


def _as_bytes(part: str | bytes | bytearray | memoryview | Mapping[str, Any]) -> bytes:
    if isinstance(part, str):
        return part.encode()
    return b"" if isinstance(part, Mapping) else bytes(part)  # how long JSON is does not matter


def _taker() -> object:
    try:
        return current_task() or current_thread()
    except RuntimeError:  # no loop runs
        return current_thread()
