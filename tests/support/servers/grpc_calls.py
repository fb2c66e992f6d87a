"""gRPC servers and clients, sync and asyncio, with methods of each of the four kinds."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio
from opentelemetry.trace import format_span_id, get_current_span

KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
SERVICE = "shop.Items"
REQUEST = b"a secret"
REQUESTS = 3

Metadata = Sequence[tuple[str, str]]


class Methods(grpc.GenericRpcHandler):  # type: ignore[misc] # untyped
    """Finds the method of its own that is called; its name begins with its kind, or is unary."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Grpc asks for a method."""
        name = handler_call_details.method.rpartition("/")[2]
        kind = next((kind for kind in KINDS if name.startswith(kind)), "unary_unary")
        behavior = getattr(self, name, None)
        make: Callable[..., object] = getattr(grpc, f"{kind}_rpc_method_handler")
        return None if behavior is None else make(behavior)


class Handlers(Methods):
    """Answer with the caller's traceparent, or else with the handler's span."""

    def unary_unary(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        """One answer."""
        return told(context)

    def unary_stream(self, _: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Three answers."""
        for _number in range(3):
            yield told(context)

    def stream_unary(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """One answer to all."""
        assert list(requests) == [REQUEST] * REQUESTS
        return told(context)

    def stream_stream(
        self, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        """One answer to each."""
        for _request in requests:
            yield told(context)

    def unary_stream_endless(self, _: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Answers until the caller leaves."""
        while context.is_active():
            yield b"."

    def missing(self, _: bytes, context: grpc.ServicerContext) -> None:
        """Say that what was asked for does not exist."""
        context.abort(grpc.StatusCode.NOT_FOUND, "a secret")

    def unavailable(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        """Set a status instead of raising."""
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        return b""

    def broken(self, _: bytes, __: grpc.ServicerContext) -> None:
        """Raise."""
        raise LookupError("a secret")


class AsyncHandlers(Methods):
    """The same for asyncio."""

    async def unary_unary(self, _: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """One answer."""
        return told(context)

    async def unary_stream(
        self, _: bytes, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        """Three answers."""
        for _number in range(3):
            yield told(context)

    async def stream_unary(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> bytes:
        """One answer to all."""
        assert [request async for request in requests] == [REQUEST] * REQUESTS
        return told(context)

    async def stream_stream(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        """One answer to each."""
        async for _request in requests:
            yield told(context)

    async def unary_stream_endless(
        self, _: bytes, __: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        """Answers until the caller leaves."""
        while True:
            yield b"."

    async def unary_stream_written(self, _: bytes, context: grpc.aio.ServicerContext) -> None:
        """Answers that are written instead of yielded."""
        for _number in range(3):
            await context.write(told(context))

    async def missing(self, _: bytes, context: grpc.aio.ServicerContext) -> None:
        """Say that what was asked for does not exist."""
        await context.abort(grpc.StatusCode.NOT_FOUND, "a secret")

    async def unavailable(self, _: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Set a status instead of raising."""
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        return b""

    async def broken(self, _: bytes, __: grpc.aio.ServicerContext) -> None:
        """Raise."""
        raise LookupError("a secret")


class Arrivals(grpc.ServerInterceptor):  # type: ignore[misc] # untyped
    """The metadata of the calls that have arrived, and what was current then."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str]] = []
        self.trace_ids: list[int] = []

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """One more."""
        self.trace_ids.append(get_current_span().get_span_context().trace_id)
        self.metadata.append(dict(handler_call_details.invocation_metadata))
        return continuation(handler_call_details)


def told(context: grpc.ServicerContext) -> bytes:
    """The span that is current in the handler, or else the caller's `traceparent`."""
    span = get_current_span().get_span_context()
    if span.is_valid:
        return format_span_id(span.span_id).encode()
    sent = [pair[1] for pair in context.invocation_metadata() if pair[0] == "traceparent"]
    return ",".join(sent).encode()


@contextlib.contextmanager
def serving(
    handlers: Methods | None = None, *, workers: int = 4, interceptors: Sequence[object] = ()
) -> Iterator[str]:
    """A server in threads; yields its address."""
    with ThreadPoolExecutor(workers) as pool:
        server = grpc.server(pool, (handlers or Handlers(),), interceptors=interceptors)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait()


@contextlib.asynccontextmanager
async def async_serving(handlers: Methods | None = None) -> AsyncIterator[str]:
    """A server of asyncio's; yields its address."""
    with ThreadPoolExecutor(2) as pool:  # for handlers that are no coroutines
        server = grpc.aio.server(pool)
        server.add_generic_rpc_handlers((handlers or AsyncHandlers(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(0)


def answers(channel: grpc.Channel, method: str, metadata: Metadata | None = None) -> list[bytes]:
    """All messages that a method answers."""
    kind = next((kind for kind in KINDS if method.startswith(kind)), "unary_unary")
    request = REQUEST if kind.startswith("unary") else iter([REQUEST] * REQUESTS)
    answer = getattr(channel, kind)(f"/{SERVICE}/{method}")(request, metadata=metadata)
    return [answer] if kind.endswith("unary") else list(answer)


async def async_answers(
    channel: grpc.aio.Channel, method: str, metadata: Metadata | None = None
) -> list[bytes]:
    """The same with asyncio."""
    kind = next((kind for kind in KINDS if method.startswith(kind)), "unary_unary")
    request = REQUEST if kind.startswith("unary") else iter([REQUEST] * REQUESTS)
    call = getattr(channel, kind)(f"/{SERVICE}/{method}")(request, metadata=metadata)
    return [await call] if kind.endswith("unary") else [message async for message in call]
