"""Events that `python-socketio` handles: each is a request, whatever connection it came over.

Where the caller asks for an acknowledgement, that is the answer. Where it does not, the answer is
what is emitted for the event, by its handler or by the tasks that this leaves behind: Chainlit
answers a message in such a task. The request then ends with the last of what they emit.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context as VariableContext
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from opentelemetry.context import Context, create_key
from opentelemetry.trace import SpanKind

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current, enter
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.model.stage import Stage

_ANY: Final = "*"  # of an event that only a handler for all of them takes: callers name it
_CONNECTING: Final = frozenset({"connect", "disconnect"})
_EVENT: Final = create_key("latencytrace.socketio_event")  # that what is emitted answers
# What is emitted after such a silence, or so long after the event, is no answer to it: its handler
# may have begun what goes on for good.
SILENT_NS: Final = 60_000_000_000
LONGEST_NS: Final = 600_000_000_000
_NO_VARIABLES: Final = VariableContext()
_MOST: Final = 1000  # events whose handlers have left tasks behind
_EMITS, _BEGINS = "noting what is emitted", "noting a task of an event"


class _AnsweredTiming(Timing):
    """A span that ends with its answer."""

    __slots__ = ("answered_ns",)

    def __init__(self, timing: Timing) -> None:
        super().__init__(timing.span, timing.started_ns, timing.pending)
        self.answered_ns = timing.started_ns  # as far as it is known

    def end(self, ended_ns: int | None = None) -> None:
        super().end(self.answered_ns if ended_ns is None else ended_ns)


class _Unacknowledged(OwnRequest):
    """An event that is answered by what is emitted, if by anything.

    Args:
        name: What breakdowns call its route.
        connection: The server, and the id that it knows the connection by.
    """

    timing: _AnsweredTiming

    def __init__(self, recorder: Recorder, name: str, connection: tuple[object, object]) -> None:
        super().__init__(recorder, name, {}, SpanKind.SERVER)
        self.timing = _AnsweredTiming(self.timing)
        self.came_over = connection
        self._under_way = {id(self)}  # its handler, and what that has begun

    def activate(self) -> None:
        super().activate()
        enter(Context({**current(), _EVENT: self}))  # left with what is around it

    def finish(self, _: Any) -> None:
        """End with its handler, or with the last that this has begun."""
        self.timing.answered_ns = monotonic_ns()
        self.over(self)
        if not self.has_ended:
            _LEFT_BEHIND.add(self)

    def is_over(self, now_ns: int) -> bool:
        """Tell whether what is emitted from now on is no answer to it."""
        timing = self.timing
        return now_ns - timing.answered_ns > SILENT_NS or now_ns - timing.started_ns > LONGEST_NS

    def emitted(self, started_ns: int) -> None:
        """Note what was emitted: the last of that ends it."""
        if self.is_over(started_ns):
            self.end()
        if not self.has_ended:
            self.timing.answered_ns = monotonic_ns()
            self.intervals.add(Stage.RESPOND, started_ns, self.timing.answered_ns)

    def begun(self, work: object) -> None:
        self._under_way.add(id(work))

    def over(self, work: object) -> None:
        self._under_way.discard(id(work))
        if not self._under_way:
            self.end()

    def raised(self, error: BaseException) -> None:
        """Note what some of its work raised; the rest may go on."""
        if not self.has_ended:
            self.timing.fail(error)

    def task_over(self, task: Any) -> None:
        """Note that a task is over, and what it raised."""
        with guarded(_BEGINS, self.recorder.on_fault):
            error = getattr(task, "_exception", None)  # to ask for it says that it was seen
            if isinstance(error, BaseException):
                self.raised(error)
            self.over(task)


class _LeftBehind:
    """The events of a process whose handlers have left tasks behind, in order of time."""

    def __init__(self) -> None:
        self._events: deque[_Unacknowledged] = deque()

    def add(self, event: _Unacknowledged) -> None:
        """Keep one, and end those that are over, or too many."""
        now_ns, events = monotonic_ns(), self._events
        for one in tuple(events):
            if one.is_over(now_ns):
                one.end()
        while events and (events[0].has_ended or len(events) >= _MOST):
            events.popleft().end()
        events.append(event)

    def end(self, connection: tuple[object, object]) -> None:
        """End those of a connection that is lost."""
        for event in tuple(self._events):
            if event.came_over == connection:
                event.end()


_LEFT_BEHIND: Final = _LeftBehind()


def _event() -> _Unacknowledged | None:
    """The event that the current code answers; None: none."""
    found = current().get(_EVENT)
    return found if isinstance(found, _Unacknowledged) else None


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
    recorder: Recorder, server: object, event: Any, namespace: Any, args: Any, *, answers: bool
) -> OwnRequest | None:
    with guarded("starting a request", recorder.on_fault):
        if not recorder.suppressed():
            name = _name(server, str(event), str(namespace or "/"), args)
            if name is None:
                return None
            if answers:
                return OwnRequest(recorder, name, {}, SpanKind.SERVER)
            return _Unacknowledged(recorder, name, (server, args[0]))
    return None


def _timed(original: Timed, begun: Callable[..., OwnRequest | None]) -> Timed:
    """Time what handles an event, as the request that is begun with it; None: it is none."""

    @wraps(original)
    def handle(self: object, *args: Any) -> Any:
        request = begun(self, *args)
        if request is None:
            return original(self, *args)
        request.activate()
        try:
            return original(self, *args)
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.finish(None)

    @wraps(original)
    async def aio_handle(self: object, *args: Any) -> Any:
        request = begun(self, *args)
        if request is None:
            return await original(self, *args)
        request.activate()
        try:
            return await original(self, *args)
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.finish(None)

    return aio_handle if iscoroutinefunction(original) else handle


def time_connections(recorder: Recorder, original: Timed) -> Timed:
    """Time the handlers of a connection's begin and end."""

    def begun(server: object, event: Any, namespace: Any, *args: Any) -> OwnRequest | None:
        if event not in _CONNECTING:
            return None
        if event == "disconnect":
            with guarded("ending the events of a connection", recorder.on_fault):
                _LEFT_BEHIND.end((server, args[0]))
        return _begun(recorder, server, event, namespace, args, answers=True)

    return _timed(original, begun)


def time_events(recorder: Recorder, original: Timed) -> Timed:
    """Time the handlers of the program's own events."""

    def begun(_: object, server: object, sid: object, *args: Any) -> OwnRequest | None:
        _, data, namespace, number = args
        given = (sid, *data[1:])
        return _begun(recorder, server, data[0], namespace, given, answers=number is not None)

    return _timed(original, begun)


def note_emitted(recorder: Recorder, original: Timed) -> Timed:
    """Note what is emitted for an event, to whomever: its caller may be one of a room."""

    @wraps(original)
    def emit(self: object, *args: Any, **kwargs: Any) -> Any:
        event, started_ns = _event(), monotonic_ns()
        emitted = original(self, *args, **kwargs)
        if event is not None:
            with guarded(_EMITS, recorder.on_fault):
                event.emitted(started_ns)
        return emitted

    @wraps(original)
    async def aio_emit(self: object, *args: Any, **kwargs: Any) -> Any:
        event, started_ns = _event(), monotonic_ns()
        emitted = await original(self, *args, **kwargs)
        if event is not None:
            with guarded(_EMITS, recorder.on_fault):
                event.emitted(started_ns)
        return emitted

    return aio_emit if iscoroutinefunction(original) else emit


def follow_task(recorder: Recorder, original: Timed) -> Timed:
    """Note the tasks that an event's handler, or a task of it, begins."""

    @wraps(original)
    def create_task(self: object, *args: Any, **kwargs: Any) -> Any:
        task = original(self, *args, **kwargs)
        event = _event()
        if event is not None:
            with guarded(_BEGINS, recorder.on_fault):
                event.begun(task)
                task.add_done_callback(event.task_over, context=_NO_VARIABLES)
        return task

    return create_task


def follow_background_task(recorder: Recorder, original: Timed) -> Timed:
    """Note the threads, or green ones, that an event's handler begins."""

    @wraps(original)
    def start_background_task(self: object, target: Timed, *args: Any, **kwargs: Any) -> Any:
        event = _event()
        if event is None:
            return original(self, target, *args, **kwargs)

        @wraps(target)
        def followed(*args: Any, **kwargs: Any) -> Any:
            try:
                return target(*args, **kwargs)
            except Exception as error:
                event.raised(error)
                raise
            finally:
                with guarded(_BEGINS, recorder.on_fault):
                    event.over(followed)

        event.begun(followed)
        return original(self, followed, *args, **kwargs)

    return start_background_task


class SocketioHook(Hook):
    """Times the handlers of a program's events, sync and async, and what these leave behind."""

    requires = ("python-socketio >= 5.8",)
    patches = (
        Replacement("socketio.server", "Server._trigger_event", time_connections),
        Replacement("socketio.async_server", "AsyncServer._trigger_event", time_connections),
        Replacement("socketio.server", "Server._handle_event_internal", time_events),
        Replacement("socketio.async_server", "AsyncServer._handle_event_internal", time_events),
        Replacement("socketio.server", "Server.emit", note_emitted),
        Replacement("socketio.async_server", "AsyncServer.emit", note_emitted),
        Replacement("socketio.server", "Server.start_background_task", follow_background_task),
        # By way of the module of what needs it: most programs import asyncio without that.
        Replacement(
            "socketio.async_server", "asyncio.base_events.BaseEventLoop.create_task", follow_task
        ),
        Replacement("uvloop", "Loop.create_task", follow_task),
    )
