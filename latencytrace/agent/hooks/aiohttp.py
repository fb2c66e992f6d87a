"""Requests made with `aiohttp`, to the last byte of the body, and requests that it serves."""

import weakref
from contextvars import Token
from functools import wraps
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context, get_current
from opentelemetry.trace import SpanKind, StatusCode, get_current_span, set_span_in_context

from latencytrace.agent.context import enter, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.runtime_gaps import with_gaps
from latencytrace.agent.toolkit.http_client import Exchange, request_attributes, with_headers
from latencytrace.agent.toolkit.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.proxy_queue import queued_ns
from latencytrace.model import semconv

_FIRST_SERVER_ERROR = 500


def _asked(recorder: Recorder, session: Any, method: str, url: Any) -> Exchange | None:  # noqa: ANN401 - aiohttp's
    with guarded("starting a request", recorder.on_fault):
        if not recorder.suppressed():
            address = str(session._build_url(url))  # noqa: SLF001 - the session's base and the rest
            return Exchange(recorder, method, request_attributes(method, address))
    return None


def _end_with_body(response: Any, exchange: Exchange) -> None:  # noqa: ANN401
    weakref.finalize(response, exchange.end).atexit = False  # closed early, or dropped
    response.content.on_eof(exchange.end)


def time_request(recorder: Recorder, original: Timed) -> Timed:
    """Time one request of a `ClientSession` with its redirects."""

    @wraps(original)
    async def _request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        exchange = _asked(recorder, self, method, str_or_url)
        if exchange is None:
            return await original(self, method, str_or_url, **kwargs)
        kwargs["headers"] = with_headers(kwargs.get("headers"), exchange.headers)
        token = enter(exchange.context)
        try:
            response = await original(self, method, str_or_url, **kwargs)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            leave(token)
        exchange.answered(response.status)
        with guarded("timing an answer's body", recorder.on_fault):
            _end_with_body(response, exchange)
        return response

    return _request


class _Served:
    """One request that an application serves, until its answer is sent."""

    def __init__(self, recorder: Recorder, request: Any) -> None:  # noqa: ANN401
        self._recorder = recorder
        self._request = request
        self._timing: Timing = recorder.start(
            request.method,
            kind=SpanKind.SERVER,
            attributes=_served_attributes(request),
            context=propagate.extract(request.headers),
        )
        self._intervals = self._timing.collect_intervals()
        self._gaps = recorder.open_requests.begin(on_loop=True)
        self._token: Token[Context] | None = None

    def activate(self) -> None:
        """Make the request's span current; its intervals are its own, not a stream's below."""
        with guarded("making a request current", self._recorder.on_fault):
            context = set_span_in_context(self._timing.span, get_current())
            self._token = enter(with_gaps(self._gaps, context))

    def deactivate(self) -> None:
        """Make the span before it current again."""
        with guarded("leaving a request", self._recorder.on_fault):
            token, self._token = self._token, None
            if token is not None:
                leave(token)

    def answered(self, status: int) -> None:
        """The handler has answered."""
        with guarded("noting an answer", self._recorder.on_fault):
            self._timing.note({semconv.HTTP_RESPONSE_STATUS_CODE: status})
            if status >= _FIRST_SERVER_ERROR:
                self._timing.note({semconv.ERROR_TYPE: str(status)})
                self._timing.span.set_status(StatusCode.ERROR)

    def fail(self, error: BaseException) -> None:
        """The handler has raised: an error of its own, or an answer that is thrown."""
        status = getattr(error, "status", None)
        if isinstance(status, int):
            self.answered(status)
            return
        with guarded("noting an exception", self._recorder.on_fault):
            transport = self._request.transport
            if isinstance(error, OSError) and (transport is None or transport.is_closing()):
                self._timing.note({semconv.CANCELLED: True})  # the caller is gone
            else:
                self._timing.fail(error)

    def end(self) -> None:
        """End the span; the route is known by now."""
        with guarded("ending a request", self._recorder.on_fault):
            self._recorder.open_requests.end(self._gaps)
            resource = getattr(self._request.match_info.route, "resource", None)
            route = getattr(resource, "canonical", None)
            if route is not None:
                self._timing.note({semconv.HTTP_ROUTE: route})
                self._timing.span.update_name(f"{self._request.method} {route}")
            self._timing.note(self._gaps.described(self._timing.started_ns, self._intervals))
            self._timing.end()


def _served_attributes(request: Any) -> HookAttributes:  # noqa: ANN401
    attributes: HookAttributes = {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.URL_SCHEME: request.scheme,
        semconv.URL_PATH: request.path,
        semconv.NETWORK_PROTOCOL_VERSION: f"{request.version.major}.{request.version.minor}",
    }
    for name in QUEUE_HEADERS:
        waited_ns = queued_ns(request.headers.get(name, ""))
        if waited_ns is not None:
            attributes[semconv.QUEUED_NS] = waited_ns
    return attributes


def _begun(recorder: Recorder, request: Any) -> _Served | None:  # noqa: ANN401
    with guarded("starting a request", recorder.on_fault):
        current = get_current_span()
        served = current.is_recording() and getattr(current, "kind", None) is SpanKind.SERVER
        if not served and not recorder.suppressed():
            return _Served(recorder, request)
    return None


def _taken_up(recorder: Recorder, request: Any) -> Token[Context] | None:  # noqa: ANN401
    """Make who opened a WebSocket current: a connection may live for hours, and is no request."""
    with guarded("taking up a connection", recorder.on_fault):
        if not (get_current_span().get_span_context().is_valid or recorder.suppressed()):
            return enter(propagate.extract(request.headers))
    return None


def time_handler(recorder: Recorder, original: Timed) -> Timed:
    """Time each request of an `Application`; of one within another, the outer one's."""

    @wraps(original)
    async def _handle(self: Any, request: Any) -> Any:  # noqa: ANN401
        if request.headers.get("Upgrade", "").lower() == "websocket":
            connection = _taken_up(recorder, request)
            try:
                return await original(self, request)
            finally:
                if connection is not None:
                    leave(connection)
        served = _begun(recorder, request)
        if served is None:
            return await original(self, request)
        served.activate()
        try:
            response = await original(self, request)
        except BaseException as error:
            served.fail(error)
            raise
        else:
            served.answered(response.status)
            return response
        finally:
            served.deactivate()
            served.end()

    return _handle


class AiohttpHook(Hook):
    """Times both ends of aiohttp where every request goes through."""

    requires = ("aiohttp >= 3.9",)
    patches = (
        Replacement("aiohttp.client", "ClientSession._request", time_request),
        Replacement("aiohttp.web_app", "Application._handle", time_handler),
    )
