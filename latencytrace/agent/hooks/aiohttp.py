"""Requests made with `aiohttp`, to the last byte of the body, and requests that it serves."""

from functools import cache, partial, wraps
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.http.arrival import arrived_ns, reads_requests
from latencytrace.agent.toolkit.http.client import (
    ClientCall,
    timed_calls,
    with_headers,
)
from latencytrace.agent.toolkit.http.proxy_queue import HEADERS as QUEUE_HEADERS
from latencytrace.agent.toolkit.http.server import (
    ServedRequest,
    is_served,
    queue_attributes,
    request_served,
)
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.agent.toolkit.websocket_messages import Conversing, converse
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_followed: Final[WeakValueDictionary[int, "_Call"]] = WeakValueDictionary()  # by their bodies
_TEXT: Final = 1  # `aiohttp.WSMsgType.TEXT`
_CONTRIBS: Final = "_is_instrumented_by_opentelemetry"  # on what contrib has a session call


class _Call(ClientCall):
    """One request of a `ClientSession` with its redirects."""

    headers_argument = "headers"
    follows = 75

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin a request, unless contrib listens to what its session does."""
        session: Any = arguments["self"]
        configs = session.trace_configs
        if configs and any(getattr(config, _CONTRIBS, False) for config in configs):
            return None
        method = str(arguments["method"])
        url = session._build_url(arguments["str_or_url"])
        attributes: HookAttributes = {
            semconv.HTTP_REQUEST_METHOD: method,
            semconv.SERVER_ADDRESS: url.raw_host or "",
            semconv.SERVER_PORT: url.port or 80,
            semconv.URL_SCHEME: url.scheme,
            semconv.URL_PATH: url.raw_path,
        }
        call = cls(recorder, method, attributes, arguments["json"] or arguments["data"])
        own = arguments["headers"]
        added = call.added_to(own) and call.added_to(session.headers, ignores_case=True)
        call.headers = with_headers(own, added)
        return call

    def returned(self, answer: Any) -> None:
        """End with the body: read, closed early, or dropped."""
        self.note_status(answer.status, answer.headers)
        self.end_with(answer)
        _follow(answer.content, self)
        answer.content.on_eof(self.end)


def _follow(content: Any, call: _Call) -> None:
    """Have the call of a model know what comes of its body, and has come already."""
    if call.model is None or type(content).__name__ != "StreamReader":  # else it is empty
        return
    for part in content._buffer:
        call.model.part(part)
    _followed[id(content)] = call  # which the body holds until its end
    content.__class__ = _following(content.__class__)


@cache
def _following(kind: type) -> type:
    """Return a kind of body that tells its call what comes."""
    feed: Timed = vars(kind)["feed_data"]

    def feed_data(self: object, data: bytes, *args: Any) -> Any:
        call = _followed.get(id(self))
        if call is not None and call.model is not None:
            call.model.part(data)
        return feed(self, data, *args)

    return type(kind.__name__, (kind,), {"__slots__": (), "feed_data": feed_data})


class _Request(ServedRequest):
    """One request that an application serves, until its answer is sent."""

    def __init__(self, recorder: Recorder, request: Any) -> None:
        caller = propagation.extract(request.headers)
        attributes = _served_attributes(request)
        self.connection = request.transport  # which the request forgets once it is closed
        came_ns = arrived_ns(recorder.open_requests, self.connection)
        super().__init__(
            recorder, request.method, attributes, caller, on_loop=True, arrived_ns=came_ns
        )
        self._request = request
        self.answer: AnswerStream = AnswerStream(self.intervals.times(Stage.RESPOND))
        self._streams = False

    def has_written(self, response: Any, part: Any, known: int, started_ns: int) -> None:
        """Note a part of an answer that is streamed, which has left now.

        Args:
            response: The answer.
            part: Bytes, or what is like them.
            known: How many tokens had been made when it was handed over.
            started_ns: When that was.
        """
        if not self._streams:
            self._streams = True
            fields = response.headers.items()
            self.answer.begun((name.encode(), value.encode()) for name, value in fields)
        sent_ns = monotonic_ns()
        self.intervals.add(Stage.RESPOND, started_ns, sent_ns)
        self.answer.chunk_sent(bytes(part), known, sent_ns)

    def answered(self, status: int) -> None:
        with guarded("noting an answer", self.recorder.on_fault):
            self.note_status(status)

    def fail(self, error: BaseException) -> None:
        """The handler has raised: an error of its own, or an answer that is thrown."""
        status = getattr(error, "status", None)
        if isinstance(status, int):
            self.answered(status)
            return
        with guarded("noting an exception", self.recorder.on_fault):
            transport = self._request.transport
            if isinstance(error, OSError) and (transport is None or transport.is_closing()):
                self.timing.note({semconv.CANCELLED: True})  # the caller is gone
            else:
                self.timing.fail(error)

    def route(self) -> str | None:
        """Return the path of its resource."""
        return _route(self._request)


def _route(request: Any) -> str | None:
    matched: Any = getattr(request, "match_info", None)
    resource = None if matched is None else getattr(matched.route, "resource", None)
    return getattr(resource, "canonical", None)


def _served_attributes(request: Any) -> HookAttributes:
    return {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.URL_SCHEME: request.scheme,
        semconv.URL_PATH: request.path,
        semconv.NETWORK_PROTOCOL_VERSION: f"{request.version.major}.{request.version.minor}",
        **queue_attributes(request.headers.get(name, "") for name in QUEUE_HEADERS),
    }


def _begun(recorder: Recorder, request: Any) -> _Request | None:
    with guarded("starting a request", recorder.on_fault):
        if not (is_served() or recorder.suppressed()):
            return _Request(recorder, request)
    return None


def time_handler(recorder: Recorder, original: Timed) -> Timed:
    """Time each request of an `Application`; of one within another, the outer one's."""

    @wraps(original)
    async def _handle(self: Any, request: Any) -> Any:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            run = partial(original, self, request)
            return await converse(recorder, request, request.headers, run)
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


def _is_request(connection: Any, message: Any) -> bool:
    """Tell whether a message is one: engine.io's events are requests already."""
    module = str(getattr(connection._req.match_info.handler, "__module__", ""))
    return message.type == _TEXT and not module.startswith("engineio.")


_conversing = Conversing(
    connection=lambda response: response._req, is_request=_is_request, route=_route
)


def time_write(recorder: Recorder, original: Timed) -> Timed:
    """Time each part of an answer that is streamed."""

    @wraps(original)
    async def write(self: Any, data: Any) -> None:
        request = request_served()
        if not isinstance(request, _Request):
            await original(self, data)
            return
        known, started_ns = request.answer.known, monotonic_ns()
        await original(self, data)
        with guarded("timing a part of an answer", recorder.on_fault):
            request.has_written(self, data, known, started_ns)

    return write


class AiohttpHook(Hook):
    """Times both ends of aiohttp where every request goes through."""

    requires = ("aiohttp >= 3.9",)
    patches = (
        Replacement("aiohttp.client", "ClientSession._request", timed_calls(_Call)),
        Replacement("aiohttp.web_server", "Server.connection_made", reads_requests),
        Replacement("aiohttp.web_app", "Application._handle", time_handler),
        Replacement("aiohttp.web_response", "StreamResponse.write", time_write),
        Replacement("aiohttp.web_ws", "WebSocketResponse.receive", _conversing.receives),
        Replacement("aiohttp.web_ws", "WebSocketResponse.send_str", _conversing.sends),
        Replacement("aiohttp.web_ws", "WebSocketResponse.send_bytes", _conversing.sends),
    )
