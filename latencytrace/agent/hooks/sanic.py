"""Requests that Sanic's own server reads; under another one its application speaks ASGI."""

from collections.abc import Mapping
from functools import partial, wraps
from typing import Any, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after, before
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.arrival import arrived_ns
from latencytrace.agent.toolkit.http.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.http.server import (
    ServedRequest,
    is_served,
    queue_attributes,
    request_served,
)
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.agent.toolkit.websocket_messages import converse
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_SERVER_ERROR: Final = 500


class _Request(ServedRequest):
    """One request, from when its headers were read until its answer is sent."""

    def __init__(self, recorder: Recorder, request: Any) -> None:
        self.connection = request.transport
        came_ns = arrived_ns(recorder.open_requests, self.connection)
        super().__init__(
            recorder,
            request.method,
            _attributes(request),
            propagation.extract(request.headers),
            on_loop=True,
            arrived_ns=came_ns,
        )
        self._request = request
        self.answer: AnswerStream = AnswerStream(self.intervals.times(Stage.RESPOND))
        self._streams = False

    def has_sent(
        self, response: Any, given: Mapping[str, Any], known: int, started_ns: int
    ) -> None:
        """Note a part of the answer, which has left now.

        Args:
            given: What was to be sent: its `data`, and whether that is its end.
            known: How many tokens had been made when it was handed over.
            started_ns: When that was.
        """
        sent_ns, part = monotonic_ns(), given.get("data")
        self.note_status(response.status)
        self.intervals.add(Stage.RESPOND, started_ns, sent_ns)
        if not self._streams and (part is None or given.get("end_stream")):
            return  # it is the whole answer
        if not self._streams:
            self._streams = True
            self.answer.begun(
                (name.encode(), str(value).encode()) for name, value in response.headers.items()
            )
        if part:
            body = part.encode() if isinstance(part, str) else bytes(part)
            self.answer.chunk_sent(body, known, sent_ns)

    def route(self) -> str | None:
        """Return the template of its path."""
        return getattr(self._request, "uri_template", None)


def _attributes(request: Any) -> HookAttributes:
    return {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.URL_SCHEME: request.scheme,
        semconv.URL_PATH: request.path,
        semconv.NETWORK_PROTOCOL_VERSION: str(request.version),
        **queue_attributes(request.headers.get(name, "") for name in QUEUE_HEADERS),
    }


def _begun(recorder: Recorder, request: Any) -> _Request | None:
    """A request that begins to be timed; None: it is not to be."""
    with guarded("starting a request", recorder.on_fault):
        if not (is_served() or recorder.suppressed()):
            return _Request(recorder, request)
    return None


def _timed(recorder: Recorder, handle: Timed) -> Timed:
    @wraps(handle)
    async def handle_request(request: Any) -> Any:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await converse(
                recorder, request.headers, lambda: None, partial(handle, request)
            )
        served = _begun(recorder, request)
        if served is None:
            return await handle(request)
        served.activate()
        try:
            return await handle(request)
        except BaseException as error:
            served.fail(error)
            raise
        finally:
            served.deactivate()
            served.end()

    return handle_request


def _time_requests(recorder: Recorder, arguments: Arguments, _: object) -> None:
    """Time what a connection calls for each request: Sanic compiles its own methods anew."""
    recorder.open_requests.serves = True
    protocol: Any = arguments["self"]
    protocol.request_handler = _timed(recorder, protocol.request_handler)


def _note_error(_: Recorder, arguments: Arguments) -> None:
    """Note what a handler raised, unless it says that the caller is wrong."""
    served = request_served()
    error: Any = arguments["exception"]
    if isinstance(served, _Request) and (
        getattr(error, "status_code", _SERVER_ERROR) >= _SERVER_ERROR
    ):
        served.fail(error)


def time_send(recorder: Recorder, original: Timed) -> Timed:
    """Time each part of an answer."""

    @wraps(original)
    async def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        served = request_served()
        if not isinstance(served, _Request):
            return await original(self, *args, **kwargs)
        known, started_ns = served.answer.known, monotonic_ns()
        sent = await original(self, *args, **kwargs)
        with guarded("timing a part of an answer", recorder.on_fault):
            given = {**dict(zip(("data", "end_stream"), args, strict=False)), **kwargs}
            served.has_sent(self, given, known, started_ns)
        return sent

    return send


class SanicHook(Hook):
    """Times each request of Sanic's own server."""

    requires = ("sanic >= 22.12",)
    patches = (
        Replacement(
            "sanic.server.protocols.http_protocol",
            "HttpProtocolMixin._setup",
            after("timing a connection's requests", _time_requests),
        ),
        Replacement(
            "sanic.handlers.error", "ErrorHandler.response", before("noting an error", _note_error)
        ),
        Replacement("sanic.response.types", "BaseHTTPResponse.send", time_send),
    )
