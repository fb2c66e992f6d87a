"""Calls served with `grpc`, sync and asyncio, to the last message of the answer."""

import importlib
from asyncio import _get_running_loop  # which asks without raising
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import Token
from copy import copy
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import StatusCode

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import Call, timed
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.server import ServedRequest
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_CONTRIB = "opentelemetry.instrumentation.grpc"
_BEHAVIORS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_OUR_FAULT = {  # the server's, that is: other statuses are the caller's own doing
    "DATA_LOSS", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN",
}  # fmt: skip

# A caller hangs up by itself at its deadline, a moment before we see it pass.
_DEADLINE_SLACK_S = 0.05


class _Arrival:
    """A call that has arrived and waits for its handler to begin.

    There is no span for a message. Intervals say how long the call waited for a worker
    (`queue`), what reading the request took (`preprocess`), and how long it waited for
    more of the caller's messages (`network`).
    """

    def __init__(self, recorder: Recorder, details: Any) -> None:
        self.recorder = recorder
        self.method = str(details.method).lstrip("/")
        metadata = details.invocation_metadata or ()
        self.headers = {key: value for key, value in metadata if isinstance(value, str)}
        self.at_ns = monotonic_ns()
        self.taken_ns: int | None = None  # when a worker took it up; None: as its handler began
        self.intervals = IntervalRecorder()

    def enter(self) -> Token[Context] | None:
        """Make the caller current, for the program's interceptors."""
        with guarded("making a caller current", self.recorder.on_fault):
            return enter(propagation.extract(self.headers, Context()))
        return None

    def leave(self, token: Token[Context] | None) -> None:
        """Make what was current before it current again."""
        with guarded("leaving a caller", self.recorder.on_fault):
            if token is not None:
                leave(token)

    def taking_up(self, deserialize: Timed | None) -> Timed:
        """Return the reader of the one request: the first thing that a worker does."""

        def noting_deserialize(serialized: bytes) -> Any:
            self.taken_ns = monotonic_ns()
            return serialized if deserialize is None else deserialize(serialized)

        return noting_deserialize

    def reading(self, behavior: Timed) -> Timed:
        """The handler's function, reading a stream of requests and noting its waits."""

        @wraps(behavior)
        def reading_behavior(requests: Any, context: Any) -> Any:
            return behavior(_Requests(requests, self.intervals), context)

        return reading_behavior

    def begin(self, args: tuple[Any, ...], _: dict[str, Any]) -> "ServedCall | None":
        """The call that a handler begins with; None: it is not to be timed."""
        with guarded("starting a call", self.recorder.on_fault):
            began_ns = monotonic_ns()
            self.intervals.add(Stage.QUEUE, self.at_ns, self.taken_ns or began_ns)
            if self.taken_ns is not None:
                self.intervals.add(Stage.PREPROCESS, self.taken_ns, began_ns)
            return ServedCall(self, context=args[1])
        return None


class ServedCall(Call):
    """One call, from its arrival to the last message of its answer."""

    __slots__ = ("_arrival", "_context", "_handed_out_ns", "_served")

    def __init__(self, arrival: _Arrival, context: Any) -> None:
        self._arrival = arrival
        self._context = context
        self._handed_out_ns: int | None = None  # when a message was handed to grpc
        self._served = ServedRequest(
            arrival.recorder,
            arrival.method,
            {semconv.RPC_SYSTEM_NAME: "grpc", semconv.RPC_METHOD: arrival.method},
            propagation.extract(arrival.headers, Context()),
            on_loop=_get_running_loop() is not None,
            started_ns=arrival.at_ns,
        )
        self._served.intervals = arrival.intervals
        super().__init__(Stage.UNATTRIBUTED, self._served.timing, arrival.recorder.on_fault)

    def activate(self) -> None:
        """Go on; a server asks for the next message when it has sent the last one."""
        if self._handed_out_ns is not None:
            self._arrival.intervals.add(Stage.RESPOND, self._handed_out_ns)
        self._served.activate()

    def deactivate(self) -> None:
        """Hand a message to grpc, or the control."""
        self._served.deactivate()
        self._handed_out_ns = monotonic_ns()

    def finish(self, result: object) -> None:
        """End a call after its handler returned."""
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """End a call after its handler raised, was cancelled or dropped."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with guarded("ending a call", self._arrival.recorder.on_fault):
            code = _code_of(self._context, error)
            noted: HookAttributes = {semconv.RPC_RESPONSE_STATUS_CODE: code}
            if code == "CANCELLED":
                noted[semconv.CANCELLED] = True
            elif code == "UNKNOWN" and error is not None:
                self._served.fail(error)
            elif code != "OK":
                noted[semconv.ERROR_TYPE] = code
                if code in _OUR_FAULT:
                    self._served.timing.span.set_status(StatusCode.ERROR)
            self._served.timing.note(noted)
        self._served.end()


def _code_of(context: Any, error: BaseException | None) -> str:
    """The status by its name: what the handler has set, or what became of the call."""
    code = context.code() if hasattr(context, "code") else None  # a plain function's, in asyncio
    if isinstance(code, int):  # asyncio's
        codes = importlib.import_module("grpc").StatusCode
        code = next((known for known in codes if known.value[0] == code), None)
    if code is not None and code.name != "OK":
        return str(code.name)
    active = getattr(context, "is_active", None)
    left = active is not None and not active()
    if left or not (error is None or isinstance(error, Exception)):
        remaining_s = context.time_remaining()
        late = remaining_s is not None and remaining_s <= _DEADLINE_SLACK_S
        return "DEADLINE_EXCEEDED" if late else "CANCELLED"
    return "OK" if error is None else "UNKNOWN"


class _Requests:
    """The caller's messages; waiting for the next one is time of the network."""

    def __init__(self, requests: Any, intervals: IntervalRecorder) -> None:
        self._requests = requests
        self._intervals = intervals

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        started_ns = monotonic_ns()
        try:
            return next(self._requests)
        finally:
            self._intervals.add(Stage.NETWORK, started_ns)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        started_ns = monotonic_ns()
        try:
            return await anext(self._requests)
        finally:
            self._intervals.add(Stage.NETWORK, started_ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._requests, name)


class _Interceptor:
    """Times every call of one server; the outermost of its interceptors."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Grpc asks which handler a call has."""
        arrival = self._arrived(details)
        if arrival is None:
            return continuation(details)
        token = arrival.enter()
        try:
            handler = continuation(details)
        finally:
            arrival.leave(token)
        return self._timed(handler, arrival)

    def _arrived(self, details: Any) -> _Arrival | None:
        with guarded("noting an arrival", self._recorder.on_fault):
            return None if self._recorder.suppressed() else _Arrival(self._recorder, details)
        return None

    def _timed(self, handler: Any, arrival: _Arrival) -> Any:
        """The same handler, timed; an unknown method has none."""
        with guarded("timing a handler", self._recorder.on_fault):
            kind = next((kind for kind in _BEHAVIORS if getattr(handler, kind, None)), None)
            if kind is None or hasattr(getattr(handler, kind), "experimental_non_blocking"):
                return handler
            parts: dict[str, Any] = {kind: _timed_behavior(handler, kind, arrival)}
            if not handler.request_streaming:
                parts["request_deserializer"] = arrival.taking_up(handler.request_deserializer)
            if hasattr(handler, "_replace"):  # a named tuple, as grpc makes them
                return handler._replace(**parts)
            replaced = copy(handler)
            for name, part in parts.items():
                setattr(replaced, name, part)
            return replaced
        return handler


class _AsyncInterceptor(_Interceptor):
    """The same for a server of asyncio's."""

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        details: Any,
    ) -> Any:
        """Grpc asks which handler a call has."""
        arrival = self._arrived(details)
        if arrival is None:
            return await continuation(details)
        token = arrival.enter()
        try:
            handler = await continuation(details)
        finally:
            arrival.leave(token)
        return self._timed(handler, arrival)


def _timed_behavior(handler: Any, kind: str, arrival: _Arrival) -> Timed:
    """The handler's own function, timed, and of its own kind: grpc looks at that."""
    behavior: Timed = getattr(handler, kind)
    function = arrival.reading(behavior) if handler.request_streaming else behavior
    is_of = (isgeneratorfunction, isasyncgenfunction, iscoroutinefunction)
    if not handler.response_streaming or any(is_it(behavior) for is_it in is_of):
        return timed(function, arrival.begin, kind_of=behavior)

    @wraps(behavior)
    def stream(request: Any, context: Any) -> Iterator[Any]:
        yield from function(request, context)

    return timed(stream, arrival.begin)


def _with_ours(interceptors: Iterable[object] | None, ours: object) -> tuple[object, ...]:
    """Ours first, unless contrib's is there to time the calls."""
    all_of_them = tuple(interceptors or ())
    if any(type(other).__module__.startswith(_CONTRIB) for other in all_of_them):
        return all_of_them
    return (ours, *all_of_them)


def add_interceptor(recorder: Recorder, original: Timed) -> Timed:
    """Make a server with an interceptor of ours."""

    @wraps(original)
    def create_server(
        thread_pool: object,
        generic_rpc_handlers: object,
        interceptors: Iterable[object] | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        interceptors = _with_ours(interceptors, _Interceptor(recorder))
        return original(thread_pool, generic_rpc_handlers, interceptors, *args, **kwargs)

    return create_server


def add_async_interceptor(recorder: Recorder, original: Timed) -> Timed:
    """The same for a server of asyncio's, which looks at its interceptors' type."""
    required = importlib.import_module("grpc.aio._interceptor").ServerInterceptor
    ours = type("Interceptor", (_AsyncInterceptor, required), {})(recorder)

    @wraps(original)
    def __init__(
        self: object,
        thread_pool: object,
        generic_handlers: object,
        interceptors: Iterable[object] | None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        recorder.open_requests.serves = True
        interceptors = _with_ours(interceptors, ours)
        original(self, thread_pool, generic_handlers, interceptors, *args, **kwargs)

    return __init__


class GrpcServerHook(Hook):
    """Adds an interceptor to each server that is made; one that is there already keeps its own."""

    requires = ("grpcio >= 1.50",)
    patches = (
        Replacement("grpc._server", "create_server", add_interceptor),
        Replacement("grpc.aio._server", "Server.__init__", add_async_interceptor),
    )
