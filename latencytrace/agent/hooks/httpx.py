"""Requests made with `httpx`, and `httpx2` that carries it on, to the last byte of the body."""

import importlib
import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any, ClassVar, Final, Self

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.client import ClientCall, timed_calls
from latencytrace.agent.toolkit.http.network_phases import (
    AsyncNetworkPhases,
    NetworkPhases,
    begin_async_step,
    begin_step,
    end_async_step,
    end_step,
)
from latencytrace.agent.toolkit.other_tracers import is_theirs
from latencytrace.model import semconv

_CONTRIB: Final = "opentelemetry.instrumentation.httpx"
_LIBRARIES: Final = ("httpx", "httpx2")
_TRANSPORTS: Final = ("httpcore._trace", "httpcore2._trace")
_HANDLERS: Final = ("handle_request", "handle_async_request")


class _Call(ClientCall):
    """One request and its answer, retries and redirects each by itself."""

    covers = False  # in the place of a server an application may be called
    follows = 500  # and for the body, which passes through one iterator more
    _listener: ClassVar[type[NetworkPhases]] = NetworkPhases

    def __init__(self, recorder: Recorder, request: Any) -> None:
        body = getattr(request, "_content", None)  # of one that is not streamed
        super().__init__(recorder, request.method, _request_attributes(request), body)
        self._request = request
        self._extensions: dict[str, Any] = request.extensions
        self._phases = self._listener(self._extensions.get("trace"))

    @classmethod
    def begin(cls, recorder: Recorder, arguments: Arguments) -> Self | None:
        """Begin, and listen to what the transport does when."""
        request: Any = arguments["request"]
        if _CONTRIB in sys.modules and _is_traced(arguments["self"], request):
            return None
        call = cls(recorder, request)
        headers = request.headers
        for key, value in call.added_to(headers, ignores_case=True).items():
            headers[key] = value
        request.extensions = {**call._extensions, "trace": call._phases}
        return call

    def returned(self, answer: Any) -> None:
        """End with the body, unless it is there already: of a cache, say."""
        self.note_status(answer.status_code, answer.headers)
        if answer.is_closed:
            self.end()
        else:
            answer.stream = _timed_kind(answer.stream.__class__)(answer.stream, self)

    def ended(self) -> None:
        """Note what was done when, and end the span."""
        self._request.extensions = self._extensions
        noted = self._phases.taken(self.timing.started_ns, monotonic_ns())
        self.timing.defer(semconv.NETWORK_PHASES, noted)
        super().ended()


class _AsyncCall(_Call):
    """The same of an `AsyncClient`."""

    _listener = AsyncNetworkPhases


def _is_traced(client: Any, request: Any) -> bool:
    """Tell whether contrib times what the transport of a request does."""
    transport = client._transport_for_url(request.url)
    return any(is_theirs(getattr(transport, name, None)) for name in _HANDLERS)


def _request_attributes(request: Any) -> HookAttributes:
    url = request.url
    return {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.SERVER_ADDRESS: url.host,
        semconv.SERVER_PORT: url.port or (443 if url.scheme == "https" else 80),
        semconv.URL_SCHEME: url.scheme,
        semconv.URL_PATH: url.path,  # never the query: it may hold a secret or a prompt
    }


class _TimedStream:
    """The same body; the call ends when it is exhausted, closed or dropped."""

    def __init__(self, stream: Any, call: ClientCall) -> None:
        self._stream = stream
        self._call = call

    def __iter__(self) -> Iterator[bytes]:
        model = self._call.model
        try:
            if model is None:
                yield from self._stream
            else:
                yield from model.each_part(self._stream)
        except BaseException as error:
            self._call.fail(error)
            raise
        self._call.end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        model = self._call.model
        try:
            async for part in self._stream:
                if model is not None:
                    model.part(part)
                yield part
        except BaseException as error:
            self._call.fail(error)
            raise
        self._call.end()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._call.end()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._call.end()

    def __getattr__(self, name: str) -> Any:
        """Return what the body has besides: httpx2 asks it for `elapsed`."""
        return getattr(vars(self).get("_stream"), name)

    def __del__(self) -> None:
        self._call.end()


@cache
def _timed_kind(kind: type) -> type[_TimedStream]:
    """Make what httpx takes for one of its own streams, sync, async or both, as that kind is."""
    library = importlib.import_module(kind.__module__.partition(".")[0])
    own = (library.SyncByteStream, library.AsyncByteStream)
    bases = tuple(base for base in own if issubclass(kind, base))
    return type("TimedStream", (_TimedStream, *bases), {})


class HttpxHook(Hook):
    """Times the one method that every request of a client goes through, whatever its transport."""

    requires = ("httpx >= 0.24", "httpx2 >= 2.0")
    patches = tuple(
        Replacement(module, f"{client}._send_single_request", timed_calls(kind))
        for module in _LIBRARIES
        for client, kind in (("Client", _Call), ("AsyncClient", _AsyncCall))
    ) + tuple(
        Replacement(module, f"Trace.{method}", build, optional=True, bare=True)
        for module in _TRANSPORTS
        for method, build in (
            ("__enter__", begin_step),
            ("__exit__", end_step),
            ("__aenter__", begin_async_step),
            ("__aexit__", end_async_step),
        )
    )
