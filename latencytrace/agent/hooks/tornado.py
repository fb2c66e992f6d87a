"""Requests that Tornado's own server answers."""

import importlib
import sys
from collections.abc import Sequence
from functools import partial, wraps
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.arrival import arrived_ns, reads_requests
from latencytrace.agent.toolkit.http.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.http.server import (
    ServedRequest,
    is_served,
    queue_attributes,
)
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.agent.toolkit.websocket_messages import (
    MessageRequest,
    Messages,
    conversation,
    converse,
    sends,
)
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_NS_PER_S = 1_000_000_000
_CONTRIBS = "_otel_patched_key"  # on the classes of handlers whose requests contrib traces


class _Request(ServedRequest):
    """One request, from its headers until its handler is done."""

    def __init__(self, recorder: Recorder, handler: Any) -> None:
        request = handler.request
        now_ns = monotonic_ns()
        began_ns = now_ns - max(0, round(request.request_time() * _NS_PER_S))
        self.connection = _connection(handler)
        came_ns = arrived_ns(recorder.open_requests, self.connection)
        if came_ns < began_ns:  # all of it, so that it waited for nothing but the loop
            began_ns = now_ns
        super().__init__(
            recorder,
            str(request.method),
            _attributes(request),
            propagation.extract(request.headers),
            on_loop=True,
            started_ns=began_ns,
            arrived_ns=min(came_ns, began_ns),
        )
        self.intervals.add(Stage.NETWORK, began_ns, now_ns)  # its body came
        self.answer: AnswerStream = AnswerStream(self.intervals.times(Stage.RESPOND))
        self._handler = handler
        self.has_raised = False

    def flushed(self, pieces: Sequence[bytes], known: int, *, is_last: bool) -> None:
        """Note that a part of the answer, in pieces, was handed to the connection."""
        with guarded("noting a chunk", self.recorder.on_fault):
            if not self.answer.streams:
                headers = self._handler._headers.get_all()
                self.answer.begun((name.encode(), value.encode()) for name, value in headers)
            if self.answer.streams or not is_last:  # else this is all of the answer
                self.answer.chunk_sent(b"".join(pieces), known, monotonic_ns())

    def describe(self) -> None:
        """Note the status too, which is known by now."""
        if self.has_raised:  # which says more than the status of the page for it
            self._noted[semconv.HTTP_RESPONSE_STATUS_CODE] = self._handler.get_status()
        else:
            self.note_status(self._handler.get_status())
        super().describe()

    def route(self) -> str | None:
        """Return the pattern of the route to its handler."""
        return _route(self._handler)


def _attributes(request: Any) -> HookAttributes:
    return {
        semconv.HTTP_REQUEST_METHOD: str(request.method),
        semconv.URL_SCHEME: request.protocol,
        semconv.URL_PATH: request.path,
        semconv.NETWORK_PROTOCOL_VERSION: request.version.removeprefix("HTTP/"),
        **queue_attributes(
            request.headers[name] for name in QUEUE_HEADERS if name in request.headers
        ),
    }


def _connection(handler: Any) -> object:
    stream = getattr(handler.request.connection, "stream", None)
    return getattr(stream, "socket", None)


def _route(handler: Any) -> str | None:
    """Return the pattern of the route that leads to a handler; None: none does."""
    rules = [*getattr(handler.application.default_router, "rules", ())]
    while rules:
        rule = rules.pop(0)
        regex = getattr(rule.matcher, "regex", None)
        is_kind = rule.target is type(handler)  # of which there may be several routes
        if is_kind and regex is not None and regex.match(handler.request.path):
            return str(regex.pattern).removesuffix("$")
        rules += getattr(rule.target, "rules", ())
    return None


_requests: dict[Any, _Request] = {}  # by handler, until they end


def _begun(recorder: Recorder, handler: Any) -> _Request | None:
    with guarded("starting a request", recorder.on_fault):
        if not (is_served() or hasattr(handler, _CONTRIBS) or recorder.suppressed()):
            request = _requests[handler] = _Request(recorder, handler)
            return request
    return None


def _is_handshake(handler: Any) -> bool:
    """Tell whether a WebSocket begins; a header that asks for one makes no other page one."""
    kind = getattr(sys.modules.get("tornado.websocket"), "WebSocketHandler", ())
    return (
        isinstance(handler, kind)
        and handler.request.headers.get("Upgrade", "").lower() == "websocket"
    )


def time_handlers(recorder: Recorder, original: Timed) -> Timed:
    @wraps(original)
    async def _execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_handshake(self):
            run = partial(original, self, *args, **kwargs)
            if hasattr(self, _CONTRIBS):
                return await run()
            return await converse(recorder, self.request.headers, partial(_route, self), run)
        request = _begun(recorder, self)
        if request is None:
            await original(self, *args, **kwargs)
            return None
        request.activate()
        try:
            return await original(self, *args, **kwargs)
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.deactivate()
            request.end()
            _requests.pop(self, None)

    return _execute


def time_errors(recorder: Recorder, original: Timed) -> Timed:
    """Note what a handler raised, which Tornado answers with a page."""

    @wraps(original)
    def _handle_request_exception(self: Any, error: BaseException) -> Any:
        with guarded("noting an exception", recorder.on_fault):
            request = _requests.get(self)
            finish = importlib.import_module("tornado.web").Finish  # no error: it has answered
            if request is not None and not (
                hasattr(error, "status_code") or isinstance(error, finish)
            ):
                request.has_raised = True
                request.fail(error)
        return original(self, error)

    return _handle_request_exception


def time_chunks(recorder: Recorder, original: Timed) -> Timed:
    """Note when parts of an answer leave."""

    @wraps(original)
    def flush(self: Any, include_footers: bool = False) -> Any:  # noqa: FBT001, FBT002 - Tornado's
        request, known = None, 0
        pieces: tuple[bytes, ...] = ()
        with guarded("noting a chunk", recorder.on_fault):
            request = _requests.get(self)
            if request is not None:
                pieces, known = tuple(self._write_buffer), request.answer.known
        sent = original(self, include_footers)
        if request is not None:
            request.flushed(pieces, known, is_last=include_footers)
        return sent

    return flush


def time_messages(_: Recorder, original: Timed) -> Timed:
    """Time what a WebSocket's handler does for each message, until all of it is done."""

    @wraps(original)
    def _run_callback(self: Any, callback: Timed, *args: Any) -> Any:
        messages = conversation()
        if messages is not None and getattr(callback, "__name__", "") == "on_message":
            callback = partial(_handled, messages, callback)
        return original(self, callback, *args)

    return _run_callback


def _handled(messages: Messages, on_message: Timed, message: object) -> Any:
    messages.came(lambda: isinstance(message, str))
    try:
        result = on_message(message)
    except BaseException as error:
        messages.over(error)
        raise
    if result is None or messages.request is None:
        messages.over()
        return result
    messages.request.deactivate()
    return _awaited(messages, messages.request, result)


async def _awaited(messages: Messages, request: MessageRequest, result: Any) -> None:
    """Wait for what a handler goes on with, which runs within the request."""
    request.activate()
    raised = None
    try:
        await importlib.import_module("tornado.gen").convert_yielded(result)
    except BaseException as error:
        raised = error
        raise
    finally:
        messages.over(raised)


class TornadoHook(Hook):
    """Times requests where each goes through, whatever its handler."""

    requires = ("tornado >= 6.1",)
    patches = (
        Replacement("tornado.httpserver", "HTTPServer.handle_stream", reads_requests),
        Replacement("tornado.web", "RequestHandler._execute", time_handlers),
        Replacement("tornado.websocket", "WebSocketProtocol._run_callback", time_messages),
        Replacement("tornado.websocket", "WebSocketHandler.write_message", sends),
        Replacement("tornado.web", "RequestHandler._handle_request_exception", time_errors),
        Replacement("tornado.web", "RequestHandler.flush", time_chunks),
    )
