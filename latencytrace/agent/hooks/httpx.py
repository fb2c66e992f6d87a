"""Requests made with `httpx`, and `httpx2` that carries it on, to the last byte of the body."""

import importlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

from opentelemetry import propagate
from opentelemetry.trace import SpanKind

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.network_phases import NetworkPhases
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


class _Exchange:
    """One request and its answer, until the body is read, closed or dropped."""

    def __init__(self, recorder: Recorder, request: Any) -> None:  # noqa: ANN401 - httpx's
        self._recorder = recorder
        self._timing: Timing = recorder.start(
            request.method, Stage.NETWORK, _request_attributes(request), kind=SpanKind.CLIENT
        )
        self._request = request
        self._extensions: dict[str, Any] = request.extensions
        self._phases = NetworkPhases(self._extensions.get("trace"))
        carrier: dict[str, str] = {}
        propagate.inject(carrier, self._timing.context())
        request.headers.update(carrier)

    def listen(self, *, asynchronous: bool) -> None:
        """Hear from the transport what it does when."""
        heard = self._phases.alisten if asynchronous else self._phases.listen
        self._request.extensions = {**self._extensions, "trace": heard}

    def activate(self) -> None:
        self._timing.activate()

    def deactivate(self) -> None:
        self._timing.deactivate()

    def answered(self, response: Any) -> None:  # noqa: ANN401
        """The headers are there; the body is still to come."""
        with guarded("timing an answer's body", self._recorder.on_fault):
            self._timing.note({semconv.HTTP_RESPONSE_STATUS_CODE: response.status_code})
            if response.status_code >= 400:  # noqa: PLR2004 - HTTP's errors
                self._timing.note({semconv.ERROR_TYPE: str(response.status_code)})
            if response.is_closed:  # of a cache, say: the body is there, nobody will read it
                self.end()
                return
            stream = response.stream
            response.stream = _timed_kind(stream.__class__)(stream, self)

    def fail(self, error: BaseException) -> None:
        with guarded("noting an exception", self._recorder.on_fault):
            self._timing.fail(error)
        self.end()

    def end(self) -> None:
        with guarded("ending a request", self._recorder.on_fault):
            if not self._timing.span.is_recording():
                return
            self._request.extensions = self._extensions
            phases = self._phases.packed(self._timing.started_ns, monotonic_ns())
            if phases:
                self._timing.note({semconv.NETWORK_PHASES: phases})
            self._timing.end()


def _request_attributes(request: Any) -> HookAttributes:  # noqa: ANN401
    url = request.url
    attributes: HookAttributes = {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.SERVER_ADDRESS: url.host,
        semconv.URL_SCHEME: url.scheme,
        semconv.URL_PATH: url.path,  # never the query: it may hold a secret or a prompt
    }
    attributes[semconv.SERVER_PORT] = url.port or (443 if url.scheme == "https" else 80)
    return attributes


class _TimedStream:
    """The same body; the exchange ends when it is exhausted, closed or dropped."""

    def __init__(self, stream: Any, exchange: _Exchange) -> None:  # noqa: ANN401
        self._stream = stream
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except BaseException as error:
            self._exchange.fail(error)
            raise
        self._exchange.end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except BaseException as error:
            self._exchange.fail(error)
            raise
        self._exchange.end()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._exchange.end()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._exchange.end()

    def __del__(self) -> None:
        self._exchange.end()


@cache
def _timed_kind(kind: type) -> type[_TimedStream]:
    """What httpx takes for one of its own streams, sync, async or both, as that kind is."""
    library = importlib.import_module(kind.__module__.partition(".")[0])
    own = (library.SyncByteStream, library.AsyncByteStream)
    bases = tuple(base for base in own if issubclass(kind, base))
    return type("TimedStream", (_TimedStream, *bases), {})


def _begun(recorder: Recorder, request: Any, *, asynchronous: bool) -> _Exchange | None:  # noqa: ANN401
    with guarded("starting a request", recorder.on_fault):
        if not recorder.suppressed():
            exchange = _Exchange(recorder, request)
            exchange.listen(asynchronous=asynchronous)
            return exchange
    return None


def time_sync(recorder: Recorder, original: Timed) -> Timed:
    """Time one exchange of a `Client`, retries and redirects each by itself."""

    def _send_single_request(self: Any, request: Any) -> Any:  # noqa: ANN401
        exchange = _begun(recorder, request, asynchronous=False)
        if exchange is None:
            return original(self, request)
        exchange.activate()
        try:
            response = original(self, request)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            exchange.deactivate()
        exchange.answered(response)
        return response

    return _send_single_request


def time_async(recorder: Recorder, original: Timed) -> Timed:
    """Time one exchange of an `AsyncClient`."""

    async def _send_single_request(self: Any, request: Any) -> Any:  # noqa: ANN401
        exchange = _begun(recorder, request, asynchronous=True)
        if exchange is None:
            return await original(self, request)
        exchange.activate()
        try:
            response = await original(self, request)
        except BaseException as error:
            exchange.fail(error)
            raise
        finally:
            exchange.deactivate()
        exchange.answered(response)
        return response

    return _send_single_request


class HttpxHook(Hook):
    """Times the one method that every request of a client goes through, whatever its transport."""

    requires = ("httpx >= 0.24", "httpx2 >= 2.0")
    patches = (
        Replacement("httpx", "Client._send_single_request", time_sync),
        Replacement("httpx", "AsyncClient._send_single_request", time_async),
        Replacement("httpx2", "Client._send_single_request", time_sync),
        Replacement("httpx2", "AsyncClient._send_single_request", time_async),
    )
