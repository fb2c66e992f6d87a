"""Requests made with Python's own `http.client`, and so with `urllib.request`."""

from functools import wraps
from typing import Any, Final, Self
from weakref import WeakKeyDictionary, ref

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.costs import HookCost, SampledCall
from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.http.client import (
    ClientCall,
    is_within_call,
    request_attributes,
    with_headers,
)
from latencytrace.agent.toolkit.other_tracers import is_theirs
from latencytrace.model import semconv

_HTTPS: Final = 443


class _Call(ClientCall):
    """One request of a connection, until the body of its answer is read, closed or dropped."""

    follows = 90
    arguments: dict[str, Any]  # to be sent with

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin, unless a library that is built on this one has."""
        if is_within_call():
            return None
        method = str(arguments["method"])
        attributes = _attributes(arguments["self"], method, str(arguments["url"]))
        call = cls(recorder, method, attributes, arguments["body"])
        own: Any = arguments["headers"]
        headers = dict(with_headers(own, call.added_to(own)))
        given = {name: value for name, value in arguments.items() if name != "self"}
        call.arguments = {**given, "headers": headers}
        return call

    def returned(self, answer: Any) -> None:
        """End with the body, unless there is none."""
        self.note_status(answer.status, answer.headers)
        if answer.isclosed():
            self.end()
            return
        reference, close = ref(answer), type(answer)._close_conn  # at its end, however it is read

        def _close_conn() -> None:
            answer = reference()
            if answer is not None:
                close(answer)
            self.end()

        answer._close_conn = _close_conn
        self.end_with(answer)
        if self.model is not None:
            self.model.reads(answer)


# Calls that wait for an answer, or what times them.
_sent: Final[WeakKeyDictionary[Any, _Call | SampledCall]] = WeakKeyDictionary()


def _attributes(connection: Any, method: str, url: str) -> HookAttributes:
    """Describe a request; through a proxy its address is a part of the URL, or of the tunnel."""
    if url[:1] == "/":
        tunnel = getattr(connection, "_tunnel_host", None)
        host = tunnel or connection.host
        port = connection._tunnel_port if tunnel else connection.port
        scheme = "https" if connection.default_port == _HTTPS else "http"
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{port or connection.default_port}{url}"
    attributes = request_attributes(method, url)
    if not attributes[semconv.SERVER_ADDRESS]:
        attributes[semconv.SERVER_ADDRESS] = str(connection.host)
    return attributes


def time_request(recorder: Recorder, original: Timed) -> Timed:
    """Begin a call with its request."""
    if is_theirs(original):
        return original
    arguments_of, cost = named_arguments(original), HookCost(_Call.follows)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
        if recorder.suppressed():
            return None
        return _Call.begin(recorder, arguments_of(args, kwargs))

    @wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call: Any = None
        with guarded("starting a call", recorder.on_fault):
            given = (self, *args), kwargs
            left = cost.left = cost.left - 1
            call = begin(*given) if left > 0 else cost.sample(begin, *given)
        if call is None:
            return original(self, *args, **kwargs)
        call.activate()
        try:
            result = original(self, **call.arguments)
        except BaseException as error:
            call.deactivate()
            call.fail(error)
            raise
        call.deactivate()
        _sent[self] = call
        return result

    return request


def time_answer(_: Recorder, original: Timed) -> Timed:
    """End a call with its answer; connections of other libraries' calls come here too."""
    cost = HookCost()

    @wraps(original)
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        left = cost.left = cost.left - 1
        call = _sent.pop(self, None) if left > 0 else cost.sampled(_sent.pop, self, None)
        if call is None:
            return original(self, *args, **kwargs)
        call.activate()
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            call.deactivate()
            call.fail(error)
            raise
        call.deactivate()
        call.finish(answer)
        return answer

    return getresponse


class HttpClientHook(Hook):
    """Times requests that no library above this one has timed."""

    patches = (
        Replacement("http.client", "HTTPConnection.request", time_request),
        Replacement("http.client", "HTTPConnection.getresponse", time_answer),
    )
