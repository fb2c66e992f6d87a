"""Requests served by an ASGI application: FastAPI, Starlette, or any under uvicorn."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import Token
from functools import partial
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context, get_current
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span, set_span_in_context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.program.fastapi_telemetry import TIMED
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.intervals import HELD, IntervalRecorder, fold
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.runtime_gaps import with_gaps
from latencytrace.agent.timing.server_timing import ServerTiming
from latencytrace.agent.toolkit.http.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.http.proxy_queue import queued_ns
from latencytrace.agent.toolkit.streaming import AnswerStream, with_answer
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_CONTRIB = "opentelemetry.instrumentation.asgi"
_STARTS = "noting that a server starts"
_FIRST_SERVER_ERROR = 500
_QUEUE_HEADERS = frozenset(name.encode() for name in QUEUE_HEADERS)


class _ScopeHeaders(Getter[Scope]):
    """Reads propagation headers out of an ASGI scope."""

    def get(self, carrier: Scope, key: str) -> list[str] | None:
        """The values of one header; None: it is not there."""
        wanted = key.lower().encode("latin-1")
        values = [
            value.decode("latin-1")
            for name, value in carrier.get("headers", ())
            if name.lower() == wanted
        ]
        return values or None

    def keys(self, carrier: Scope) -> list[str]:
        """The names of all headers."""
        return [name.decode("latin-1") for name, _ in carrier.get("headers", ())]


_SCOPE_HEADERS = _ScopeHeaders()


class RequestTiming:
    """One request from the first byte of its headers to the last byte of its answer.

    There is no span for a chunk: the time blocked in sends travels as intervals of
    stage `respond`, that spent waiting for the request's body as `network`.
    """

    def __init__(self, recorder: Recorder, scope: Scope) -> None:
        self._recorder = recorder
        self._scope = scope
        self._timing: Timing = recorder.start(
            scope.get("method", "HTTP"),
            kind=SpanKind.SERVER,
            attributes=_request_attributes(scope),
            context=propagate.extract(scope, getter=_SCOPE_HEADERS),
        )
        self._intervals: IntervalRecorder = self._timing.collect_intervals()
        self._answer = AnswerStream()
        self._stages = recorder.server_timings.begin(self._timing.span, self._timing.started_ns)
        self._gaps = recorder.open_requests.begin(on_loop=True)
        self._body_wanted = True
        self._answered = False
        self._token: Token[Context] | None = None
        scope[TIMED] = True

    def activate(self) -> None:
        """Make the request's span current; its intervals are its own, not a stream's below."""
        with guarded("making a request current", self._recorder.on_fault):
            context = set_span_in_context(self._timing.span, get_current())
            context = with_answer(self._answer, context)
            self._token = enter(with_gaps(self._gaps, context))

    def deactivate(self) -> None:
        """Make the span before it current again."""
        with guarded("leaving a request", self._recorder.on_fault):
            token, self._token = self._token, None
            if token is not None:
                leave(token)

    def received(self, receive: Receive) -> Receive:
        """Time the wait for the request's body, and see the caller leave."""

        async def timed_receive() -> Message:
            started_ns = monotonic_ns()
            message = await receive()
            with guarded("timing a receive", self._recorder.on_fault):
                if message["type"] == "http.disconnect":
                    if not self._answered:
                        self._answer.left()
                        self._timing.note({semconv.CANCELLED: True})
                elif self._body_wanted:
                    self._body_wanted = bool(message.get("more_body", False))
                    self._intervals.add(Stage.NETWORK, started_ns)
            return message

        return timed_receive

    def sent(self, send: Send) -> Send:
        """Time the sends, and end the span with the last one."""
        with guarded("timing sends", self._recorder.on_fault):
            return self._timed(send)
        return send

    def _timed(self, send: Send) -> Send:
        if self._stages is not None:
            send = self._with_server_timing(send, self._stages)
        answer, on_fault = self._answer, self._recorder.on_fault
        times, chunk_sent = self._intervals.times(Stage.RESPOND), self._answer.chunk_sent
        note = times.append

        async def timed_send(message: Message) -> None:
            known, started_ns = answer.known, monotonic_ns()
            try:
                await send(message)
            except BaseException:
                with guarded("timing a send that failed", on_fault):
                    self._intervals.add(Stage.RESPOND, started_ns)
                raise
            try:
                sent_ns = monotonic_ns()
                note(started_ns)
                note(sent_ns)
                if message["type"] == "http.response.body" and message.get("more_body"):
                    if len(times) >= HELD:
                        fold(times)
                    chunk_sent(message.get("body", b""), known, sent_ns)
                else:
                    self._sent(message, known, sent_ns)
            except FAULTS as fault:
                on_fault("timing a send", fault)

        return timed_send

    def _with_server_timing(self, send: Send, stages: ServerTiming) -> Send:
        """Tell the stages so far in the answer's headers."""

        async def sending_stages(message: Message) -> None:
            if message["type"] == "http.response.start":
                with guarded("adding Server-Timing", self._recorder.on_fault):
                    timing = (b"server-timing", stages.value(monotonic_ns()).encode())
                    message = {**message, "headers": [*message.get("headers", ()), timing]}
            await send(message)

        return sending_stages

    def _sent(self, message: Message, known: int, sent_ns: int) -> None:
        if message["type"] == "http.response.start":
            self._body_wanted = False
            self._answer.begun(message.get("headers", ()))
            self._timing.note({semconv.HTTP_RESPONSE_STATUS_CODE: message["status"]})
            if message["status"] >= _FIRST_SERVER_ERROR:
                self._timing.note({semconv.ERROR_TYPE: str(message["status"])})
                self._timing.span.set_status(StatusCode.ERROR)
        elif message["type"] == "http.response.body":
            if self._answer.streams:  # else this is all of the answer
                self._answer.chunk_sent(message.get("body", b""), known, sent_ns)
            self._answered = True
            self.end()

    def fail(self, error: BaseException) -> None:
        """Note what the application raised."""
        with guarded("noting an exception", self._recorder.on_fault):
            self._timing.fail(error)

    def end(self) -> None:
        """End the span, once; the route is known by now."""
        with guarded("ending a request", self._recorder.on_fault):
            span = self._timing.span
            self._recorder.open_requests.end(self._gaps)
            self._recorder.server_timings.end(self._stages)
            if not span.is_recording():
                return
            route = _route(self._scope)
            if route is not None:
                span.set_attribute(semconv.HTTP_ROUTE, route)
                span.update_name(f"{self._scope.get('method', 'HTTP')} {route}")
            self._timing.defer(semconv.TOKEN_TIMES, self._answer.deferred(self._timing.started_ns))
            self._timing.note(self._gaps.described(self._timing.started_ns, self._intervals))
            self._timing.end()


def _request_attributes(scope: Scope) -> HookAttributes:
    attributes: HookAttributes = {
        semconv.HTTP_REQUEST_METHOD: scope.get("method", "_OTHER"),
        semconv.URL_SCHEME: scope.get("scheme", "http"),
        semconv.URL_PATH: scope.get("path", ""),
        semconv.NETWORK_PROTOCOL_VERSION: scope.get("http_version", ""),
    }
    server = scope.get("server")
    if server:
        attributes[semconv.SERVER_ADDRESS] = server[0]
        if server[1] is not None:
            attributes[semconv.SERVER_PORT] = server[1]
    for name, value in scope.get("headers", ()):
        if name in _QUEUE_HEADERS:
            waited_ns = queued_ns(value.decode("latin-1"))
            if waited_ns is not None:
                attributes[semconv.QUEUED_NS] = waited_ns
    return attributes


def _route(scope: Scope) -> str | None:
    """The route's template with the prefix of its mounts; None: no route matched."""
    route = scope.get("route")
    # Of a route that an included router brought, only FastAPI's own note has the prefix.
    included = scope.get("fastapi", {}).get("effective_route_context")
    if included is not None and included.original_route is route:
        route = included
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    if path is None:
        return None
    outer = str(scope.get("app_root_path", scope.get("root_path", "")))
    return str(scope.get("root_path", "")).removeprefix(outer) + str(path)


def _layers(application: object) -> Iterable[object]:
    """An application and the middlewares within it, from the outside in."""
    seen: set[int] = set()
    while application is not None and id(application) not in seen:
        seen.add(id(application))
        yield application
        stack = getattr(application, "middleware_stack", None)
        application = stack if stack is not None else getattr(application, "app", None)


def _already_timed(application: Any, scope: Scope) -> bool:  # noqa: ANN401 - somebody else's
    """Return whether the request has a server span, or will get one from contrib's middleware."""
    if TIMED in scope:
        return True
    current = get_current_span()
    if current.is_recording() and getattr(current, "kind", None) is SpanKind.SERVER:
        return True
    build = getattr(application, "build_middleware_stack", None)
    if build is not None and application.middleware_stack is None:
        application.middleware_stack = build()  # as its own first request would
    return any(type(layer).__module__ == _CONTRIB for layer in _layers(application))


def _begun(recorder: Recorder, application: object, scope: Scope) -> RequestTiming | None:
    """A request that begins to be timed; None: not ours to time."""
    if scope["type"] != "http":
        return None
    with guarded("starting a request", recorder.on_fault):
        if not recorder.suppressed() and not _already_timed(application, scope):
            return RequestTiming(recorder, scope)
    return None


def _taken_up(recorder: Recorder, scope: Scope) -> Token[Context] | None:
    """Make who opened a WebSocket current: a connection may live for hours, and is no request."""
    with guarded("taking up a connection", recorder.on_fault):
        within = get_current_span().get_span_context().is_valid
        if scope["type"] == "websocket" and not (within or recorder.suppressed()):
            return enter(propagate.extract(scope, getter=_SCOPE_HEADERS))
    return None


async def _start_up(
    recorder: Recorder, run: Callable[[Send], Awaitable[None]], send: Send
) -> None:
    """Run an application's lifespan; it starts until it says that it has started."""
    started: Callable[[], None] | None = None
    with guarded(_STARTS, recorder.on_fault):
        started = recorder.starting.begin()

    async def hearing_send(message: Message) -> None:
        with guarded(_STARTS, recorder.on_fault):
            if started is not None:  # whatever it says first: that it has started, or failed
                started()
        await send(message)

    try:
        await run(hearing_send)
    finally:
        with guarded(_STARTS, recorder.on_fault):
            if started is not None:
                started()


def time_application(recorder: Recorder, original: Timed) -> Timed:
    """Time each request of an application's `__call__`."""

    async def __call__(  # noqa: N807 - stands in its place
        self: object, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = _begun(recorder, self, scope)
        if request is None:
            if scope["type"] == "lifespan":
                await _start_up(recorder, partial(original, self, scope, receive), send)
                return
            connection = _taken_up(recorder, scope)
            try:
                await original(self, scope, receive, send)
            finally:
                if connection is not None:
                    leave(connection)
            return
        request.activate()
        try:
            await original(self, scope, request.received(receive), request.sent(send))
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.end()

    return __call__


class _TimedApplication:
    """An application of no framework that we know, as uvicorn calls it."""

    def __init__(self, application: Timed, recorder: Recorder) -> None:
        self.app = application
        self._call = time_application(recorder, _TimedApplication._original)

    async def _original(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._call(self, scope, receive, send)


def time_loaded_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what uvicorn loads, unless a framework that times itself is in it."""

    def load(self: Any) -> None:  # noqa: ANN401 - uvicorn's Config
        started: Callable[[], None] | None = None
        with guarded(_STARTS, recorder.on_fault):
            started = recorder.starting.begin()
        try:
            original(self)
        finally:
            with guarded(_STARTS, recorder.on_fault):
                if started is not None:
                    started()
        with guarded("wrapping uvicorn's application", recorder.on_fault):
            if not any(hasattr(layer, "middleware_stack") for layer in _layers(self.loaded_app)):
                self.loaded_app = _TimedApplication(self.loaded_app, recorder)

    return load


class AsgiHook(Hook):
    """Times requests at the outermost place that knows the application."""

    requires = ("starlette >= 0.27", "uvicorn >= 0.20")
    patches = (
        Replacement("starlette.applications", "Starlette.__call__", time_application),
        Replacement("fastapi.applications", "FastAPI.__call__", time_application),
        Replacement("uvicorn.config", "Config.load", time_loaded_application),
    )
