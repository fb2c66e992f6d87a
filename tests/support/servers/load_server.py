"""A real server whose delays are known, and a receiver of spans, for tests of the load."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

FIRST_S, GAP_S, TOKENS = 0.1, 0.02, 10
SLOW_START_S = 1.0
Send = Callable[[dict[str, object]], Awaitable[None]]


@dataclass(slots=True)
class Told:
    """What the server did for one request, monotonic: a busy machine delays it, too.

    Each time is noted before what it is of is sent, so that no client can have it earlier.
    """

    arrived_ns: int
    tokens_ns: list[int] = field(default_factory=list)
    ended_ns: int = 0

    @property
    def first_token_ns(self) -> int:
        """From its arrival."""
        return self.tokens_ns[0] - self.arrived_ns

    @property
    def duration_ns(self) -> int:
        """From its arrival to the end of its answer."""
        return self.ended_ns - self.arrived_ns


@dataclass(slots=True)
class LoadServer:
    """Answers by path, and remembers what it was sent."""

    url: str = ""
    traceparents: list[str | None] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)  # of streams of tokens
    spans: list[Span] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    started: bool = False
    together: int = 0  # requests that are answered at once
    _all_came: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(
        self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Send
    ) -> None:
        """Read the request, then answer as its path says."""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if scope["path"] == "/v1/traces":
            self._take_spans(body)
            await _whole(send, b"")
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.headers.append(headers)
        self.traceparents.append(headers.get("traceparent"))
        self.bodies.append(body)
        await getattr(self, scope["path"].strip("/"))(send)

    def _take_spans(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {
                pair.value.string_value
                for pair in resource.resource.attributes
                if pair.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def _tell(self) -> Told:
        told = Told(time.monotonic_ns())
        self.told.append(told)
        return told

    async def openai(self, send: Send) -> None:
        """Role first, then tokens, then usage: as vLLM streams."""
        told = self._tell()
        await _head(send, "text/event-stream; charset=utf-8")
        await _event(send, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        await asyncio.sleep(FIRST_S)
        for token in range(TOKENS):
            if token:
                await asyncio.sleep(GAP_S)
            told.tokens_ns.append(time.monotonic_ns())
            await _event(send, {"choices": [{"delta": {"content": f"{token} "}}]})
        await asyncio.sleep(FIRST_S)
        await _event(send, {"choices": [], "usage": {"completion_tokens": TOKENS}})
        told.ended_ns = time.monotonic_ns()
        await _body(send, b"data: [DONE]\n\n", more=False)

    async def chunks(self, send: Send) -> None:
        """A plain text stream."""
        told = self._tell()
        await _head(send, "text/plain")
        await asyncio.sleep(FIRST_S)
        for token in range(TOKENS):
            if token:
                await asyncio.sleep(GAP_S)
            told.tokens_ns.append(time.monotonic_ns())
            await _body(send, b"word ", more=True)
        told.ended_ns = time.monotonic_ns()
        await _body(send, b"", more=False)

    async def whole(self, send: Send) -> None:
        """One JSON document."""
        await _whole(send, b'{"usage": {"completion_tokens": 7}}')

    async def slow(self, send: Send) -> None:
        """A tenth of a second, for any number of requests at once."""
        await asyncio.sleep(FIRST_S)
        await _whole(send, b"ok")

    async def all_at_once(self, send: Send) -> None:
        """Once all of them have come."""
        if len(self.bodies) == self.together:
            self._all_came.set()
        await self._all_came.wait()
        await _whole(send, b"ok")

    async def slow_start(self, send: Send) -> None:
        """Only what comes before the server is warm is slow."""
        if not self.started:
            await asyncio.sleep(SLOW_START_S)
            self.started = True
        await _whole(send, b"ok")

    async def overloaded(self, send: Send) -> None:
        """Turn everybody away."""
        await _whole(send, b"no", status=503)

    async def failing_stream(self, send: Send) -> None:
        """Begin with success and fail on the way."""
        await _head(send, "text/event-stream")
        await _event(send, {"choices": [{"delta": {"content": "so far"}}]})
        await _event(send, {"error": {"message": "out of memory"}})
        await _body(send, b"", more=False)

    async def silent(self, _: Send) -> None:
        """Never answers."""
        await asyncio.Event().wait()

    async def cut_off(self, send: Send) -> None:
        """Ends before what it announced."""
        await _head(send, "text/plain", length=100)
        await _body(send, b"short", more=False)


async def _head(
    send: Send, content_type: str, *, status: int = 200, length: int | None = None
) -> None:
    headers = [(b"content-type", content_type.encode())]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _event(send: Send, document: object) -> None:
    await _body(send, f"data: {json.dumps(document)}\n\n".encode(), more=True)


async def _whole(send: Send, body: bytes, *, status: int = 200) -> None:
    await _head(send, "application/json", status=status, length=len(body))
    await _body(send, body, more=False)


@contextmanager
def serving() -> Iterator[LoadServer]:
    """Run it on a free port, in a thread: the load is in a process of its own."""
    answering = LoadServer()
    config = uvicorn.Config(answering, lifespan="off", ws="none", log_level="critical")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield answering
        finally:
            server.should_exit = server.force_exit = True
            thread.join()
