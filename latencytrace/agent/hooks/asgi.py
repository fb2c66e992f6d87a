"""Requests served by an ASGI application: FastAPI, Starlette, or any under a server."""

import gc
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextvars import Token
from functools import partial, wraps
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # that the SDK sets around its exporters' posts
    Context,
)
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import NoOpTracer, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core, quicker
from latencytrace.agent.context import current, enter
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.program.provider import TIMED
from latencytrace.agent.spans.sdk_view import EMPTY_STATE
from latencytrace.agent.spans.span import Details, RecordedSpan
from latencytrace.agent.timing.costs import RequestCost
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.processor_waits import ProcessorWaits
from latencytrace.agent.timing.recorder import SUPPRESSED, Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS, REQUEST, OpenRequests, RuntimeGaps
from latencytrace.agent.timing.server_timing import ServerTiming, ServerTimings
from latencytrace.agent.toolkit.answer_events import events_of
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.arrival import ARRIVED
from latencytrace.agent.toolkit.http.asgi_routes import MOUNTED, ScopeRouted, note_mount, route_of
from latencytrace.agent.toolkit.http.caller import caller_of
from latencytrace.agent.toolkit.http.contribs_request import ContribsRequest
from latencytrace.agent.toolkit.http.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.http.server import (
    HeldTiming,
    ServedRequest,
    StreamedAttributes,
    is_served,
    queue_attributes,
    request_served,
)
from latencytrace.agent.toolkit.http.spared import DroppedRequest, decided_on, sending
from latencytrace.agent.toolkit.streaming import (
    ANSWER,
    HELD_BYTES,
    MOST_HELD,
    Answering,
    AnswerStream,
)
from latencytrace.agent.toolkit.websocket_messages import Messages, until_closed
from latencytrace.model import semconv
from latencytrace.model.detail import TraceDetail
from latencytrace.model.stage import Stage

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

_CONTRIB = "opentelemetry.instrumentation.asgi"
_CONTRIBS = "latencytrace.contribs_request"  # in a scope: what is noted of one that it times
_PASSES = "noting a mount"
_PROTOCOLS = (
    ("http.h11_impl", "H11Protocol"),
    ("http.httptools_impl", "HttpToolsProtocol"),
    ("http.zttp_impl", "ZttpProtocol"),
    ("http.zttp_h2_impl", "ZttpH2Protocol"),
    ("websockets.websockets_impl", "WebSocketProtocol"),
    ("websockets.websockets_sansio_impl", "WebSocketsSansIOProtocol"),
    ("websockets.wsproto_impl", "WSProtocol"),
)
_QUEUE_HEADERS = frozenset(name.encode() for name in QUEUE_HEADERS)
_PARENT = b"traceparent"
_RESPOND = Stage.RESPOND  # which takes longer to look up than to use
_READ = _QUEUE_HEADERS | {_PARENT, b"tracestate", b"baggage"}  # in lower case, as ASGI has them


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
        return [name.decode("latin-1") for name, _ in carrier.get("headers", ())]


_SCOPE_HEADERS = _ScopeHeaders()


class RequestTiming(ScopeRouted, ServedRequest, Answering):
    """One request from the first byte of its headers to the last byte of its answer.

    There is no span for a chunk: the time blocked in sends travels as intervals of
    stage `respond`, that spent waiting for the request's body as `network`.

    Speed is the point here: it is about all that a request to a plain endpoint costs, and a
    chunk of a stream costs what `timed_send` does (`tests/benchmarks/bench_request.py`).
    """

    __slots__ = ("_answered", "_body_wanted", "_in_one_piece", "_left", "_scope", "made")

    def __init__(self, recorder: Recorder, scope: Scope, caller: Context | None = None) -> None:
        carried = _carried(scope)
        super().__init__(
            recorder,
            scope.get("method", "HTTP"),
            _request_attributes(scope, carried),
            _caller_of(scope, carried) if caller is None else caller,
            on_loop=True,
            arrived_ns=scope.pop(ARRIVED, None),
        )
        self._scope = scope
        self.made: AnswerStream | None = None  # None: nothing of it is known, or wanted
        self.time_stages()
        self._body_wanted = not self.is_spared
        self._answered = False
        self._left = False  # its caller has, before all of the answer had
        self._in_one_piece = False  # as the answer's headers say
        scope[TIMED] = True

    @property
    def answer(self) -> AnswerStream:  # type: ignore[override] # made where it is asked for
        if self.made is None:
            self.made = AnswerStream(self.intervals.times(_RESPOND))
            if self._in_one_piece:
                self.made.begun_as(None)
        return self.made

    @property
    def answering(self) -> AnswerStream | Answering | None:
        """Return what makes the answer once it is asked for."""
        return self

    @property
    def answer_made(self) -> AnswerStream | None:
        """Return the answer, as far as anything is known of it."""
        return self.made

    @quicker("activate_request")
    def activate(self) -> None:
        """Make the request's span current, and its answer known to the models that make it."""
        super().activate()

    @quicker("deactivate_request")
    def deactivate(self) -> None:
        """Make the span before it current again."""
        super().deactivate()

    @quicker("end_request")
    def end(self) -> None:
        """End the span; a second time changes nothing."""
        super().end()
        if type(self.timing) is HeldTiming:
            with guarded("ending a request", self.recorder.on_fault):
                self.timing.let_go()

    def answers_failure(self) -> None:
        """Hold the span until the application has returned or raised."""
        if type(self.timing) is not HeldTiming:
            self.timing = HeldTiming(self.timing)

    def goes_to_background(self) -> None:
        """End an answer that was broken off, and release the span."""
        self.is_over()
        if self.has_ended and type(self.timing) is HeldTiming:
            self.timing.let_go()

    def received(self, receive: Receive) -> Receive:
        """Time the wait for the request's body, and notice the caller's leaving."""
        if self.detail is None:
            return receive

        async def timed_receive() -> Message:
            started_ns = monotonic_ns()
            message = await receive()
            try:
                if message["type"] == "http.disconnect":
                    if not self._answered:
                        self._left = True
                        self.answer.left()
                        self.timing.note({semconv.CANCELLED: True})
                elif self._body_wanted:
                    self._body_wanted = bool(message.get("more_body", False))
                    self.intervals.add(Stage.NETWORK, started_ns)
            except FAULTS as fault:
                self.recorder.on_fault("timing a receive", fault)
            return message

        return timed_receive

    def sent(self, send: Send) -> Send:
        """Time the sends, and end the span with the last one."""
        try:
            return sending(self, send, self.has_left) if self.is_spared else self._timed(send)
        except FAULTS as fault:
            self.recorder.on_fault("timing sends", fault)
        return send

    @quicker("timed_sends")
    def _timed(self, send: Send) -> Send:
        if self.stages is not None:
            send = self._with_server_timing(send, self.stages)
        on_fault = self.recorder.on_fault

        async def timed_send(message: Message) -> None:
            answer = self.made
            known, started_ns = 0 if answer is None else answer.known, monotonic_ns()
            try:
                await send(message)
            except BaseException:
                self.has_failed(known, started_ns, monotonic_ns())
                raise
            sent_ns = monotonic_ns()
            try:
                self.has_sent(message, known, started_ns, sent_ns)
            except FAULTS as fault:
                on_fault("timing a send", fault)

        return timed_send

    def has_failed(self, known: int, started_ns: int, sent_ns: int) -> None:
        """Note a message that could not be sent."""
        with guarded("timing a send that failed", self.recorder.on_fault):
            self._sent(None, known, started_ns, sent_ns)

    def has_sent(self, message: Message, known: int, started_ns: int, sent_ns: int) -> None:
        """Note a message that has left, between two monotonic times.

        Args:
            known: How many tokens had been made when it was handed over.
        """
        body = message.get("body", b"")
        if not message.get("more_body") or type(body) is not bytes:
            self._sent(message, known, started_ns, sent_ns)
            return
        answer = self.answer
        answer.held += (started_ns, sent_ns, known, body)
        if answer.eager or len(answer.held) >= MOST_HELD or len(body) > HELD_BYTES:
            answer.catch_up()

    def has_left(self) -> None:
        """End with the last message."""
        self._answered = True
        if type(self.timing) is HeldTiming:
            super().end()
        else:
            self.end()

    def is_over(self) -> None:
        """End an answer that has no caller any more, and that nothing makes."""
        if self._left and not self._answered:
            self.has_left()

    def _with_server_timing(self, send: Send, stages: ServerTiming) -> Send:
        """Tell the stages so far in the answer's headers."""

        async def sending_stages(message: Message) -> None:
            if message["type"] == "http.response.start":
                with guarded("adding Server-Timing", self.recorder.on_fault):
                    timing = (b"server-timing", stages.value(monotonic_ns()).encode())
                    message = {**message, "headers": [*message.get("headers", ()), timing]}
            await send(message)

        return sending_stages

    def _sent(self, message: Message | None, known: int, started_ns: int, sent_ns: int) -> None:
        """Note what is no chunk that can be held; None: it could not be sent."""
        if self.made is not None and self.made.held:
            self.made.catch_up()
        self.intervals.add(_RESPOND, started_ns, sent_ns)
        if message is None:
            return
        if message["type"] == "http.response.start":
            self._body_wanted = False
            self.note_status(message["status"])
            events = events_of(message.get("headers", ()))
            self._in_one_piece = events is None
            if self.made is not None or events is not None:
                self.answer.begun_as(events)
        elif message["type"] == "http.response.body":
            more = message.get("more_body", False)
            if more or (self.made is not None and self.made.streams):  # else it is all of it
                self.answer.chunk_sent(message.get("body", b""), known, sent_ns)
            if not more:
                self.has_left()


def _carried(scope: Scope) -> list[Header]:
    return [header for header in scope.get("headers", ()) if header[0] in _READ]


def _caller_of(scope: Scope, carried: Sequence[Header]) -> Context:
    parent, has_more = None, False
    for name, value in carried:
        if name == _PARENT and parent is None:
            parent = value
        elif name not in _QUEUE_HEADERS:
            has_more = True
    return caller_of(
        parent, partial(propagation.extract, scope, getter=_SCOPE_HEADERS), has_more=has_more
    )


def _request_attributes(scope: Scope, carried: Sequence[Header]) -> HookAttributes:
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
    if carried:
        queued = (value.decode("latin-1") for name, value in carried if name in _QUEUE_HEADERS)
        attributes |= queue_attributes(queued)
    return attributes


def _layers(application: object) -> Iterable[object]:
    """An application and the middlewares within it, from the outside in."""
    seen: set[int] = set()
    while application is not None and id(application) not in seen:
        seen.add(id(application))
        yield application
        stack = getattr(application, "middleware_stack", None)
        application = stack if stack is not None else getattr(application, "app", None)


def _is_contribs(layer: Any) -> bool:
    """Tell whether a layer is contrib's middleware, with a tracer that makes spans."""
    return (
        type(layer).__module__ == _CONTRIB
        and type(getattr(layer, "tracer", None)) is not NoOpTracer
    )


def _already_timed(application: Any, layers_of: "_Layers") -> bool:
    """Return whether the request has a server span, or will get one from contrib's middleware."""
    if is_served():
        return True
    build = getattr(application, "build_middleware_stack", None)
    if build is not None and application.middleware_stack is None:
        application.middleware_stack = build()  # as its own first request would
    return layers_of.have_contribs(application)


class _Layers:
    """The layers of the application that was called last, as far as they matter here."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: tuple[object, bool] = (None, False)

    def have_contribs(self, application: object) -> bool:
        """Tell whether contrib's middleware is among an application's layers."""
        stack = getattr(application, "middleware_stack", None)
        if stack is None:
            stack = application
        seen, has_contribs = self._seen
        if stack is not seen:
            layers = _layers(application)
            has_contribs = any(_is_contribs(layer) for layer in layers)
            self._seen = (stack, has_contribs)  # at once: applications may be served on threads
        return has_contribs


@quicker("begin_request")
def _begun(
    recorder: Recorder, application: object, scope: Scope, layers: _Layers
) -> RequestTiming | DroppedRequest | None:
    """A request that begins to be timed; None: not ours to time."""
    if scope["type"] != "http":
        return None
    try:
        if not recorder.suppressed() and not _already_timed(application, layers):
            if not recorder.decides:
                return RequestTiming(recorder, scope)
            dropped, caller = decided_on(recorder, _caller_of(scope, _carried(scope)))
            scope[TIMED] = True
            return dropped or RequestTiming(recorder, scope, caller)
    except FAULTS as fault:
        recorder.on_fault("starting a request", fault)
    return None


def _sampled(
    cost: RequestCost, recorder: Recorder, application: object, scope: Scope, layers: _Layers
) -> RequestTiming | DroppedRequest | None:
    """The same, of a request whose cost is measured."""
    with guarded("measuring a request's cost", recorder.on_fault):
        request: RequestTiming | DroppedRequest | None = cost.sampled(
            _begun, recorder, application, scope, layers
        )
        return request
    return None


def _taken_up(recorder: Recorder, scope: Scope) -> tuple[Token[Context], Messages | None] | None:
    """Make a WebSocket's caller current: a connection may live for hours, and is no request.

    Without a caller that is traced, each of its messages is one. None: it is no WebSocket, or is
    within a request.
    """
    with guarded("taking up a connection", recorder.on_fault):
        within = get_current_span().get_span_context().is_valid
        if scope["type"] == "websocket" and not (within or recorder.suppressed()):
            token = enter(propagation.extract(scope, getter=_SCOPE_HEADERS))
            scope[TIMED] = True
            is_called = get_current_span().get_span_context().is_valid
            return token, None if is_called else Messages(recorder)
    return None


async def _converse(
    recorder: Recorder,
    taken_up: tuple[Token[Context], Messages | None],
    original: Callable[[Receive, Send], Awaitable[Any]],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> Any:
    """Run an application for a WebSocket."""
    token, messages = taken_up
    if messages is not None:
        receive = _received(recorder, messages, scope, receive)
        send = _sent(recorder, messages, send)
    return await until_closed(token, messages, partial(original, receive, send))


def _received(recorder: Recorder, messages: Messages, scope: Scope, receive: Receive) -> Receive:
    """Begin a request with each message of text, but engine.io's: its events are requests."""

    async def timed_receive() -> Message:
        is_own, module = False, ""
        with guarded("ending with a message", recorder.on_fault):
            module = str(sys._getframe(1).f_globals.get("__name__"))
            is_own = messages.asked()
        message = await receive()
        if is_own:
            messages.came(
                lambda: message.get("text") is not None and not module.startswith("engineio."),
                partial(route_of, scope),
            )
        return message

    return timed_receive


def _sent(recorder: Recorder, messages: Messages, send: Send) -> Send:
    """Time what is sent as parts of the answer."""

    async def timed_send(message: Message) -> None:
        sending = None
        with guarded("noting what is sent to a WebSocket", recorder.on_fault):
            if messages.request is not None and message["type"] == "websocket.send":
                sending = messages.request.sending()
        await send(message)
        if sending is not None:
            sending(message.get("bytes") or message.get("text") or "")

    return timed_send


async def _start_up(recorder: Recorder, run: Callable[[Send], Awaitable[Any]], send: Send) -> Any:
    """Run an application's lifespan; it starts until it says that it has started."""
    with recorder.starting.noted(recorder.on_fault, starts_up=True) as started:

        async def hearing_send(message: Message) -> None:
            started()  # whatever it says first: that it has started, or failed
            await send(message)

        return await run(hearing_send)


def time_application(recorder: Recorder, original: Timed) -> Timed:  # noqa: C901 - each request goes through it
    """Time each request of an application's `__call__`."""
    layers, cost = _Layers(), RequestCost()

    async def __call__(self: object, scope: Scope, receive: Receive, send: Send) -> Any:
        if TIMED in scope:  # by an application around this one, or by a class above its own
            if MOUNTED in scope:
                with guarded(_PASSES, recorder.on_fault):
                    _passes(scope)
            return await original(self, scope, receive, send)
        left = cost.left = cost.left - 1
        if left > 0:
            request = _begun(recorder, self, scope, layers)
        else:
            request = _sampled(cost, recorder, self, scope, layers)
        if request is None:
            if scope["type"] == "lifespan":
                return await _start_up(recorder, partial(original, self, scope, receive), send)
            taken_up = _taken_up(recorder, scope)
            if taken_up is not None:
                run = partial(original, self, scope)
                return await _converse(recorder, taken_up, run, scope, receive, send)
            return await original(self, scope, receive, send)
        request.activate()
        try:
            return await original(self, scope, request.received(receive), request.sent(send))
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.end()

    return __call__


if core is not None:
    core.bind_requests(
        {
            "request_type": RequestTiming,
            "gaps_type": RuntimeGaps,
            "open_type": OpenRequests,
            "processor_type": ProcessorWaits,
            "layers_type": _Layers,
            "timings_type": ServerTimings,
            "details_type": Details,
            "full": TraceDetail.FULL,
            "empty_state": EMPTY_STATE,
            "reads_w3c_alone": propagation.is_w3c_alone,
            "callbacks": gc.callbacks,
            "respond": _RESPOND,
            "gaps": GAPS,
            "request": REQUEST,
            "answer": ANSWER,
            "timed": TIMED,
            "suppressed": SUPPRESSED,
            "suppress": _SUPPRESS_INSTRUMENTATION_KEY,
            "method": semconv.HTTP_REQUEST_METHOD,
            "scheme": semconv.URL_SCHEME,
            "path": semconv.URL_PATH,
            "version": semconv.NETWORK_PROTOCOL_VERSION,
            "address": semconv.SERVER_ADDRESS,
            "port": semconv.SERVER_PORT,
            "status": semconv.HTTP_RESPONSE_STATUS_CODE,
            "route": semconv.HTTP_ROUTE,
            "concurrency": semconv.CONCURRENCY,
            "depth": semconv.QUEUE_DEPTH,
            "streamed_type": StreamedAttributes,
            "times": semconv.TOKEN_TIMES,
            "arrived": ARRIVED,
        }
    )


def end_before(recorder: Recorder, original: Timed) -> Timed:
    """Time what runs in the background; end a request that its caller has left before it.

    With the last message of an answer a request ends by itself. An answer that is broken off
    has none: the work for it is over when its framework turns to the background.
    """

    @wraps(original)
    async def run(task: Any) -> None:
        timing = None
        with guarded("beginning work in the background", recorder.on_fault):
            request = current().get(REQUEST)
            if isinstance(request, RequestTiming):
                request.goes_to_background()
                if not hasattr(task, "tasks"):  # each of several comes here by itself
                    name = getattr(task.func, "__qualname__", type(task.func).__qualname__)
                    timing = recorder.start(f"background {name}")
                    timing.activate()
        try:
            await original(task)
        except BaseException as error:
            if timing is not None:
                timing.fail(error)
            raise
        finally:
            if timing is not None:
                timing.deactivate()
                timing.end()

    return run


def hold_until_returned(recorder: Recorder, original: Timed) -> Timed:
    """Let a request fail with what is raised behind its answer.

    This middleware sends an end of its own for a body that broke off, and raises after it what
    the application raised.
    """

    @wraps(original)
    async def __call__(self: object, scope: Scope, receive: Receive, send: Send) -> Any:
        with guarded("holding a request", recorder.on_fault):
            request = request_served()
            if isinstance(request, RequestTiming):
                request.answers_failure()
        return await original(self, scope, receive, send)

    return __call__


def _passes(scope: Scope) -> None:
    """Have a request know the scope that it goes on with."""
    request = request_served()
    if isinstance(request, RequestTiming):
        request.goes_on_with(scope)


def note_passing(recorder: Recorder, original: Timed) -> Timed:
    """Note each mount, and each host, that a request passes."""

    async def handle(self: object, scope: Scope, receive: Receive, send: Send) -> Any:
        with guarded(_PASSES, recorder.on_fault):
            note_mount(scope, self)
            _passes(scope)
        return await original(self, scope, receive, send)

    return handle


def note_contribs_request(recorder: Recorder, original: Timed) -> Timed:
    """Note route and waits on the span that contrib's middleware made of a request through us."""

    def _get_otel_send(  # stands in its place
        self: object, span: object, name: str, scope: Scope, send: Send, *more: object
    ) -> object:
        if type(span) is not RecordedSpan or scope["type"] != "http":
            return original(self, span, name, scope, send, *more)
        noted: RecordedSpan = span
        with guarded("beginning with a request of contrib's", recorder.on_fault):
            scope[_CONTRIBS] = ContribsRequest(recorder, noted)
            scope[_CONTRIBS].activate()

        async def noting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                with guarded("noting a route", recorder.on_fault):
                    route = None if semconv.HTTP_ROUTE in noted.attributes else route_of(scope)
                    if route is not None:
                        noted.set_attribute(semconv.HTTP_ROUTE, route)
                        noted.update_name(f"{scope['method']} {route}")
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                with guarded("ending a request of contrib's", recorder.on_fault):
                    scope[_CONTRIBS].answered()

        return original(self, span, name, scope, noting_send, *more)

    return _get_otel_send


def end_contribs_request(recorder: Recorder, original: Timed) -> Timed:
    """Forget a request that contrib's middleware timed, answered or not."""

    @wraps(original)
    async def __call__(self: object, scope: Scope, receive: Receive, send: Send) -> Any:
        try:
            return await original(self, scope, receive, send)
        finally:
            with guarded("ending a request of contrib's", recorder.on_fault):
                request = scope.pop(_CONTRIBS, None)
                if request is not None:
                    request.over()

    return __call__


class _TimedApplication:
    """An application of no framework that we know, as uvicorn calls it."""

    def __init__(self, application: Timed, recorder: Recorder) -> None:
        self.app = application
        self._call = time_application(recorder, _TimedApplication._original)

    async def _original(self, scope: Scope, receive: Receive, send: Send) -> Any:
        return await self.app(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        return await self._call(self, scope, receive, send)


def note_loading(recorder: Recorder, original: Timed) -> Timed:
    """Note that uvicorn loads an application."""

    def load(self: object) -> None:
        with recorder.starting.noted(recorder.on_fault):
            original(self)

    return load


def note_start_up(recorder: Recorder, original: Timed) -> Timed:
    """Note that uvicorn has an application start up, also one of no framework."""

    @wraps(original)
    async def startup(self: object) -> None:
        with recorder.starting.noted(recorder.on_fault, starts_up=True):
            await original(self)

    return startup


def time_protocols_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what a connection of uvicorn's calls; `Config.loaded_app` stays the program's."""
    timed: WeakKeyDictionary[object, tuple[object, object]] = WeakKeyDictionary()

    @wraps(original)
    def __init__(self: Any, config: object, *args: Any, **kwargs: Any) -> None:
        original(self, config, *args, **kwargs)
        with guarded("wrapping uvicorn's application", recorder.on_fault):
            found = timed.get(config)
            if found is None or found[0] is not self.app:
                found = timed[config] = (self.app, _with_timing(self.app, recorder))
            self.app = found[1]

    return __init__


def _with_timing(application: Any, recorder: Recorder) -> Any:
    """Return what a server calls, unless a framework that times itself is in it."""
    with guarded("wrapping a server's application", recorder.on_fault):
        if not any(hasattr(layer, "middleware_stack") for layer in _layers(application)):
            return _TimedApplication(application, recorder)
    return application


def time_given_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what hypercorn serves."""

    def __init__(self: object, app: object) -> None:
        original(self, _with_timing(app, recorder))

    return __init__


def time_daphnes_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what Daphne serves, by its command or by Django's `runserver`."""

    @wraps(original)
    def __init__(self: object, application: object, *args: Any, **kwargs: Any) -> None:
        recorder.open_requests.serves = True
        original(self, _with_timing(application, recorder), *args, **kwargs)

    return __init__


def time_called_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what Granian calls."""

    @wraps(original)
    def _callback_wrapper(callback: object, *args: Any, **kwargs: Any) -> Any:
        recorder.open_requests.serves = True
        return original(_with_timing(callback, recorder), *args, **kwargs)

    return _callback_wrapper


def note_scheduled(_: Recorder, original: Timed) -> Timed:
    """Note when Granian, which has read a request by itself, hands it to its event loop."""

    @wraps(original)
    def make_schedule(*args: Any, **kwargs: Any) -> Any:
        schedule = original(*args, **kwargs)

        def noting(watcher: Any) -> Any:
            if isinstance(scope := getattr(watcher, "scope", None), dict):
                scope[ARRIVED] = monotonic_ns()
            return schedule(watcher)

        return noting

    return make_schedule


class AsgiHook(Hook):
    """Times requests at the outermost place that knows the application."""

    requires = (
        "starlette >= 0.27",
        "uvicorn >= 0.20",
        "hypercorn >= 0.16",
        "granian >= 2.0",
        "daphne >= 3.0",
    )
    patches = (
        Replacement("starlette.applications", "Starlette.__call__", time_application),
        Replacement("fastapi.applications", "FastAPI.__call__", time_application),
        Replacement("starlette.routing", "Mount.handle", note_passing),
        Replacement("starlette.routing", "Host.handle", note_passing),
        Replacement(
            _CONTRIB,
            "OpenTelemetryMiddleware._get_otel_send",
            note_contribs_request,
            optional=True,
        ),
        Replacement(
            _CONTRIB, "OpenTelemetryMiddleware.__call__", end_contribs_request, optional=True
        ),
        Replacement("uvicorn.config", "Config.load", note_loading),
        Replacement("uvicorn.lifespan.on", "LifespanOn.startup", note_start_up),
        *(
            Replacement(
                f"uvicorn.protocols.{module}",
                f"{name}.__init__",
                time_protocols_application,
                optional=True,
            )
            for module, name in _PROTOCOLS
        ),
        Replacement("hypercorn.app_wrappers", "ASGIWrapper.__init__", time_given_application),
        Replacement("daphne.server", "Server.__init__", time_daphnes_application),
        Replacement("granian.asgi", "_callback_wrapper", time_called_application),
        *(
            Replacement(
                "granian._futures", f"_cbsched_{kind}schedule", note_scheduled, optional=True
            )
            for kind in ("", "aio")
        ),
        Replacement(
            "starlette.middleware.base", "BaseHTTPMiddleware.__call__", hold_until_returned
        ),
        Replacement("starlette.background", "BackgroundTask.__call__", end_before),
        Replacement("starlette.background", "BackgroundTasks.__call__", end_before),
        Replacement("litestar.background_tasks", "BackgroundTask.__call__", end_before),
        Replacement("litestar.background_tasks", "BackgroundTasks.__call__", end_before),
    )
