"""Requests served by a WSGI application: Flask, or any under gunicorn or waitress."""

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from functools import partial, wraps
from typing import Any

from opentelemetry.propagators.textmap import Getter

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after, before
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.arrival import arrived_ns
from latencytrace.agent.toolkit.http.caller import caller_of
from latencytrace.agent.toolkit.http.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.http.server import (
    ServedRequest,
    is_served,
    queue_attributes,
    request_served,
)
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

Environ = MutableMapping[str, Any]

_QUEUE_HEADERS = frozenset(f"HTTP_{name.upper().replace('-', '_')}" for name in QUEUE_HEADERS)
_FLASKS = "werkzeug.request"  # in an environ: Flask has it
_RESPOND = Stage.RESPOND  # which takes longer to look up than to use
_TIMED = "latencytrace.timed"  # in an environ: the request has its span already
_SOCKET = "latencytrace.socket"  # likewise: of a server that does not show it
_WSGI_WORKERS = {
    "gunicorn.workers.sync",
    "gunicorn.workers.gthread",
    "gunicorn.workers.base_async",
}


class _EnvironHeaders(Getter[Environ]):
    """Reads propagation headers out of a WSGI environ."""

    def get(self, carrier: Environ, key: str) -> list[str] | None:
        """The value of one header; None: it is not there."""
        value = carrier.get(f"HTTP_{key.upper().replace('-', '_')}")
        return None if value is None else [value]

    def keys(self, carrier: Environ) -> list[str]:
        names = (key[5:] for key in carrier if key.startswith("HTTP_"))
        return [name.replace("_", "-").lower() for name in names]


_ENVIRON_HEADERS = _EnvironHeaders()


class RequestTiming(ServedRequest):
    """One request, from the application's call to the `close` of its answer's body.

    A server sends each part of the body before it asks for the next one, so the time
    between two parts is that blocked in sending: intervals of stage `respond`.
    """

    def __init__(self, recorder: Recorder, environ: Environ) -> None:
        parent = environ.get("HTTP_TRACEPARENT")
        caller = caller_of(
            None if parent is None else parent.encode("latin-1", "replace"),
            partial(propagation.extract, environ, getter=_ENVIRON_HEADERS),
            has_more="HTTP_TRACESTATE" in environ or "HTTP_BAGGAGE" in environ,
        )
        method = str(environ.get("REQUEST_METHOD", "HTTP"))
        attributes = _request_attributes(environ)
        self.connection = _connection(environ)
        came_ns = arrived_ns(recorder.open_requests, self.connection, is_handed_on=True)
        super().__init__(recorder, method, attributes, caller, on_loop=False, arrived_ns=came_ns)
        self._environ = environ
        self.answer: AnswerStream = AnswerStream()
        self.time_stages()
        self._handed_out_ns: int | None = None  # when the server got the last part
        self._known = 0  # tokens that the model had made by then
        self._part = b""
        self._sent_ns: int | None = None  # when that part had left
        environ[_TIMED] = True

    def started(self, start_response: Timed) -> Timed:
        """Note the status, and the route while the application still knows it."""

        def noting_start_response(status: str, *args: Any, **kwargs: Any) -> Any:
            try:
                self.note_status(int(status[:3]))
                self.note_route(self.route())
                if args:
                    self.answer.begun(
                        [
                            (name.encode("latin-1"), value.encode("latin-1"))
                            for name, value in args[0]
                        ]
                    )
            except FAULTS as fault:
                self.recorder.on_fault("noting an answer", fault)
            if self.stages is not None and args:
                with guarded("adding Server-Timing", self.recorder.on_fault):
                    timing = ("Server-Timing", self.stages.value(monotonic_ns()))
                    args = ([*args[0], timing], *args[1:])
            return start_response(status, *args, **kwargs)

        return noting_start_response

    def answered(self, body: Any) -> Any:
        """The body that the server gets in place of the application's."""
        try:
            wrapper = self._environ.get("wsgi.file_wrapper")
            if isinstance(wrapper, type) and isinstance(body, wrapper):
                # The server sends this one by `sendfile`, and only knows it by its type.
                file: Any = body
                file.close = self._closing(getattr(file, "close", None))
                return file
            return TimedBody(body, self)
        except FAULTS as fault:
            self.recorder.on_fault("timing an answer's body", fault)
        return body

    def route(self) -> str | None:
        """Return the template of Flask's, while it is known."""
        return _route(self, self._environ)

    def is_explained(self) -> bool:
        """Tell whether a framework that notes its routes has seen it."""
        return _FLASKS in self._environ

    def handed_out(self, part: bytes | None = None) -> None:
        """The server has a part, and sends it; None: it has the control, and closes soon."""
        if part is not None:
            self._part, self._known = part, self.answer.known
        self._handed_out_ns = monotonic_ns()

    def sent(self) -> None:
        """The server is back: for the next part, or to close."""
        handed_out_ns, self._handed_out_ns = self._handed_out_ns, None
        if handed_out_ns is None:
            return
        try:
            self._sent_ns = monotonic_ns()
            self.intervals.add(_RESPOND, handed_out_ns, self._sent_ns)
        except FAULTS as fault:
            self.recorder.on_fault("timing a send", fault)

    def goes_on(self) -> None:
        """There is one more part, so that the one before was a chunk of a stream."""
        sent_ns, self._sent_ns = self._sent_ns, None
        if sent_ns is None:
            return
        try:
            self.answer.chunk_sent(self._part, self._known, sent_ns)
        except FAULTS as fault:
            self.recorder.on_fault("noting a chunk", fault)

    def describe(self) -> None:
        """Note what is known of it and its answer only now."""
        if self.answer.streams:  # else its one part was the whole answer
            self.goes_on()
        super().describe()

    def _closing(self, close: Callable[[], None] | None) -> Callable[[], None]:
        self.handed_out()

        def close_and_end() -> None:
            self.sent()
            try:
                if close is not None:
                    close()
            finally:
                self.end()

        return close_and_end


class TimedBody:
    """The same body; the request's span is current while a part is made, and ends at `close`."""

    def __init__(self, body: Iterable[bytes], request: RequestTiming) -> None:
        self._body = body
        self._parts: Iterator[bytes] | None = None
        self._request = request
        self._exhausted = False

    def given_out(self) -> Any:
        """Return the application's own body if that is a list, and end the request."""
        if type(self._body) is not list:
            return self
        self.close()
        return self._body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)  # Django's is its response

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self._request.sent()
        self._request.activate()
        part = None
        try:
            if self._parts is None:
                self._parts = iter(self._body)
            part = next(self._parts)
            self._request.goes_on()
        except StopIteration:
            self._exhausted = True
            raise
        except BaseException as error:
            self._exhausted = True
            self._request.fail(error)
            raise
        finally:
            self._request.deactivate()
            self._request.handed_out(part)
        return part

    def close(self) -> None:
        """Close the application's body; what it does at its end is part of the request."""
        self._request.sent()
        if self._parts is not None and not self._exhausted:
            self._request.fail(GeneratorExit())  # the caller is gone
        self._request.activate()
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._request.deactivate()
            self._request.end()

    def __del__(self) -> None:
        self._request.end()


def _request_attributes(environ: Environ) -> HookAttributes:
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    attributes: HookAttributes = {
        semconv.HTTP_REQUEST_METHOD: environ.get("REQUEST_METHOD", "_OTHER"),
        semconv.URL_SCHEME: environ.get("wsgi.url_scheme", "http"),
        semconv.URL_PATH: path.encode("latin-1", "replace").decode("utf-8", "replace"),
        semconv.NETWORK_PROTOCOL_VERSION: environ.get("SERVER_PROTOCOL", "").removeprefix("HTTP/"),
        semconv.SERVER_ADDRESS: environ.get("SERVER_NAME", ""),
    }
    port = str(environ.get("SERVER_PORT", ""))
    if port.isdecimal():
        attributes[semconv.SERVER_PORT] = int(port)
    queued = [environ[name] for name in _QUEUE_HEADERS if name in environ]
    return attributes | queue_attributes(queued) if queued else attributes


def _connection(environ: Environ) -> object:
    """Return the socket that a request came over; None: the server does not say."""
    channel = getattr(environ.get("waitress.client_disconnected"), "__self__", None)
    return (
        environ.get("gunicorn.socket")
        or environ.get(_SOCKET)
        or environ.get("werkzeug.socket")
        or getattr(channel, "socket", None)
    )


def _route(request: ServedRequest, environ: Environ) -> str | None:
    """The template of Flask's route with the prefix of its mount; None: no route matched."""
    rule = getattr(environ.get(_FLASKS), "url_rule", None)
    if rule is None:
        return None
    mount = str(environ.get("SCRIPT_NAME", "")).encode("latin-1", "replace")
    return f"{request.prefix(mount.decode('utf-8', 'replace'))}{rule.rule}"


def _noting_route(recorder: Recorder, environ: Environ, start_response: Timed) -> Timed:
    """Note the route that an application within another one finds."""
    request = request_served()
    if request is None:
        return start_response

    def noting_start_response(*args: Any, **kwargs: Any) -> Any:
        with guarded("noting a route", recorder.on_fault):
            request.note_route(_route(request, environ))
        return start_response(*args, **kwargs)

    return noting_start_response


def _begun(recorder: Recorder, application: object, environ: Environ) -> RequestTiming | None:
    """A request that begins to be timed; None: it has a server span, or contrib's will be it."""
    try:
        contribs = getattr(application, "_is_instrumented_by_opentelemetry", False)
        if not (is_served() or contribs or _TIMED in environ or recorder.suppressed()):
            return RequestTiming(recorder, environ)
    except FAULTS as fault:
        recorder.on_fault("starting a request", fault)
    return None


def time_application(recorder: Recorder, original: Timed) -> Timed:
    """Time each request of an application's `__call__`."""

    def __call__(self: object, environ: Environ, start_response: Timed) -> Any:
        request = _begun(recorder, self, environ)
        if request is None:
            with guarded("noting a route", recorder.on_fault):
                start_response = _noting_route(recorder, environ, start_response)
            return original(self, environ, start_response)
        request.activate()
        try:
            body = original(self, environ, request.started(start_response))
        except BaseException as error:
            request.fail(error)
            request.end()
            raise
        finally:
            request.deactivate()
        return request.answered(body)

    return __call__


def time_loaded_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what a worker of gunicorn loads, unless the worker speaks ASGI."""

    def load_wsgi(self: Any) -> None:
        with recorder.starting.noted(recorder.on_fault):
            original(self)
        with guarded("wrapping gunicorn's application", recorder.on_fault):
            worker = {base.__module__ for base in type(self).__mro__}
            if not worker.isdisjoint(_WSGI_WORKERS) and not hasattr(self.wsgi, "wsgi_app"):
                self.wsgi = _TimedApplication(self.wsgi, recorder)

    return load_wsgi


def time_given_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what waitress serves."""

    def __init__(self: object, application: Any, *args: Any, **kwargs: Any) -> None:
        with guarded("wrapping waitress's application", recorder.on_fault):
            if not hasattr(application, "wsgi_app"):
                application = _TimedApplication(application, recorder)
        original(self, application, *args, **kwargs)

    return __init__


def time_set_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what the standard library's server serves, as Bottle's does by default."""

    @wraps(original)
    def set_app(self: Any, application: Any) -> None:
        with guarded("wrapping an application", recorder.on_fault):
            if application is not None and not hasattr(application, "wsgi_app"):
                application = _TimedApplication(application, recorder)
        original(self, application)

    return set_app


def time_called_application(recorder: Recorder, original: Timed) -> Timed:
    """Wrap what Granian calls, which sends a list at once and asks others for their parts."""

    @wraps(original)
    def _callback_wrapper(callback: Any, *args: Any, **kwargs: Any) -> Any:
        called = callback
        with guarded("wrapping Granian's application", recorder.on_fault):
            called = callback if hasattr(callback, "wsgi_app") else _Listed(callback, recorder)
        return original(called, *args, **kwargs)

    return _callback_wrapper


class _TimedApplication:
    """An application of no framework that we know, as a server calls it."""

    def __init__(self, application: Timed, recorder: Recorder) -> None:
        self._application = application
        self._call = time_application(recorder, _TimedApplication._original)

    def _original(self, environ: Environ, start_response: Timed) -> Any:
        return self._application(environ, start_response)

    def __call__(self, environ: Environ, start_response: Timed) -> Any:
        return self._call(self, environ, start_response)


class _Listed(_TimedApplication):
    """The same, whose list stays one: its request ends as it is handed out."""

    def __call__(self, environ: Environ, start_response: Timed) -> Any:
        body = super().__call__(environ, start_response)
        return body.given_out() if isinstance(body, TimedBody) else body


def _fail_with(_: Recorder, arguments: Arguments) -> None:
    """Note what a handler raised, which Flask answers with a page."""
    request, error = request_served(), arguments["e"]
    if request is not None and isinstance(error, Exception):
        request.fail(error)


_note_error = before("noting an exception", _fail_with)


class WsgiHook(Hook):
    """Times requests at the outermost place that knows the application."""

    requires = (
        "flask >= 2.0", "django >= 4.2", "bottle >= 0.12", "pyramid >= 2.0",
        "gunicorn >= 20.0", "waitress >= 2.1", "granian >= 2.0",
    )  # fmt: skip
    patches = (
        Replacement("flask.app", "Flask.__call__", time_application),
        *(  # any server serves them: mod_wsgi, cheroot, gevent's, Werkzeug's
            Replacement(module, f"{name}.__call__", time_application)
            for module, name in (
                ("django.core.handlers.wsgi", "WSGIHandler"),
                ("bottle", "Bottle"),
                ("pyramid.router", "Router"),
            )
        ),
        Replacement("flask.app", "Flask.handle_exception", _note_error),
        Replacement("gunicorn.workers.base", "Worker.load_wsgi", time_loaded_application),
        Replacement("waitress.server", "BaseWSGIServer.__init__", time_given_application),
        Replacement("granian.wsgi", "_callback_wrapper", time_called_application),
    )


def _note_connection(_: Recorder, arguments: Arguments, environ: Any) -> None:
    handler: Any = arguments["self"]
    environ[_SOCKET] = handler.connection


class WsgirefHook(Hook):
    """Times requests that the standard library's server reads."""

    patches = (
        Replacement("wsgiref.simple_server", "WSGIServer.set_app", time_set_application),
        Replacement(
            "wsgiref.simple_server",
            "WSGIRequestHandler.get_environ",
            after("noting a connection", _note_connection),
        ),
    )
