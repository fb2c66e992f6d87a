"""Requests made with `requests`, to the last byte of the body."""

import sys
import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import propagate
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # what contrib's HTTP clients tell each other by
    attach,
    detach,
    get_value,
    set_value,
)
from opentelemetry.trace import SpanKind

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


class _Exchange:
    """One request with its redirects, until the last body is read, closed or dropped."""

    def __init__(self, recorder: Recorder, request: Any) -> None:  # noqa: ANN401 - requests'
        self._recorder = recorder
        self._timing: Timing = recorder.start(
            request.method, Stage.NETWORK, _request_attributes(request), kind=SpanKind.CLIENT
        )
        # One exchange, one span: `urllib3` below and `send` of each redirect add none.
        self.context = set_value(
            _SUPPRESS_HTTP_INSTRUMENTATION_KEY, value=True, context=self._timing.context()
        )
        propagate.inject(request.headers, self.context)

    def answered(self, response: Any) -> None:  # noqa: ANN401
        """The headers are there; the body may be still to come."""
        with guarded("timing an answer", self._recorder.on_fault):
            self._timing.note({semconv.HTTP_RESPONSE_STATUS_CODE: response.status_code})
            if response.status_code >= 400:  # noqa: PLR2004 - HTTP's errors
                self._timing.note({semconv.ERROR_TYPE: str(response.status_code)})
            body = response.raw
            if not response._content_consumed and hasattr(body, "release_conn"):  # noqa: SLF001 - whether `send` read it
                body.release_conn = _releasing(body, self)
                weakref.finalize(body, self.end).atexit = False
                return
        self.end()

    def released(self) -> None:
        """The body's connection is free again: the body was read, closed or broke off."""
        error = sys.exception()
        if error is not None and type(error).__module__.startswith("urllib3."):
            self.fail(error)
        else:
            self.end()

    def fail(self, error: BaseException) -> None:
        """Note what the request or the reading of its body raised."""
        with guarded("noting an exception", self._recorder.on_fault):
            self._timing.fail(error)
        self.end()

    def end(self) -> None:
        """End the span; a second time changes nothing."""
        with guarded("ending a request", self._recorder.on_fault):
            self._timing.end()


def _releasing(body: Any, exchange: _Exchange) -> Callable[[], None]:  # noqa: ANN401
    """`release_conn` of one body, which `urllib3` calls at its last byte, and `close` calls."""
    reference, release = weakref.ref(body), type(body).release_conn

    def release_conn() -> None:
        body = reference()
        if body is not None:
            release(body)
        exchange.released()

    return release_conn


def _request_attributes(request: Any) -> HookAttributes:  # noqa: ANN401
    url = urlsplit(request.url)
    return {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.SERVER_ADDRESS: url.hostname or "",
        semconv.SERVER_PORT: url.port or (443 if url.scheme == "https" else 80),
        semconv.URL_SCHEME: url.scheme,
        semconv.URL_PATH: url.path,  # never the query: it may hold a secret or a prompt
    }


def _begun(recorder: Recorder, request: Any) -> _Exchange | None:  # noqa: ANN401
    """A request that begins to be timed; None: not ours, or a redirect of one that is."""
    with guarded("starting a request", recorder.on_fault):
        if not (recorder.suppressed() or _is_within_exchange(request)):
            return _Exchange(recorder, request)
    return None


def _is_within_exchange(request: Any) -> bool:  # noqa: ANN401
    """Whether a request is a redirect: it has the headers of the first; one of a hook has not."""
    if not get_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY):
        return False
    sent: dict[str, str] = {}
    propagate.inject(sent)
    return all(request.headers.get(name) == value for name, value in sent.items())


def time_send(recorder: Recorder, original: Timed) -> Timed:
    """Time one exchange of a `Session`."""

    def send(self: Any, request: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        exchange = _begun(recorder, request)
        if exchange is None:
            return original(self, request, **kwargs)
        token = attach(exchange.context)
        try:
            response = original(self, request, **kwargs)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            detach(token)
        exchange.answered(response)
        return response

    return send


class RequestsHook(Hook):
    """Times the one method that every request of a session goes through."""

    requires = ("requests >= 2.20",)
    patches = (Replacement("requests.sessions", "Session.send", time_send),)
