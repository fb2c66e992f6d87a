"""Ways from one process to another; each says whether the trace came along."""

import asyncio
import multiprocessing
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import httpx
import redis
import requests
import urllib3
import websockets.asyncio.client
import websockets.asyncio.server
import websockets.sync.client
import websockets.sync.server
from aiohttp import web
from celery import Celery
from celery.contrib.testing.worker import start_worker
from opentelemetry import propagate
from opentelemetry.trace import get_current_span

from tests.propagation.tracing import Tracing, carries
from tests.support.servers.ports import free_port
from tests.support.servers.recording import Received, RecordingServer, Response

Row = Callable[[Tracing], bool]
PATIENCE_S = 120.0
_SPAWNING = multiprocessing.get_context("spawn")


@contextmanager
def listening() -> Iterator[tuple[str, list[str | None]]]:
    """A server of HTTP, and the `traceparent` of each request that it got."""
    seen: list[str | None] = []

    def note(received: Received) -> Response:
        seen.append(received.headers.get("traceparent"))
        return Response()

    with RecordingServer(note) as server:
        yield f"{server.url}/", seen


def _sent(tracing: Tracing, get: Callable[[str], object]) -> bool:
    with listening() as (url, seen), tracing.request() as request:
        get(url)
    return carries(seen[0], request)


def over_httpx(tracing: Tracing) -> bool:
    """Requests of httpx."""

    def get(url: str) -> None:
        with httpx.Client(trust_env=False) as client:
            client.get(url)

    return _sent(tracing, get)


def over_requests(tracing: Tracing) -> bool:
    """Requests of requests."""

    def get(url: str) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.get(url, timeout=PATIENCE_S)

    return _sent(tracing, get)


def over_aiohttp(tracing: Tracing) -> bool:
    """Requests of aiohttp's client."""

    async def get(url: str) -> None:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            await answer.read()

    return _sent(tracing, lambda url: asyncio.run(get(url)))


def over_urllib3(tracing: Tracing) -> bool:
    """Requests of urllib3."""

    def get(url: str) -> None:
        with urllib3.PoolManager() as pool:
            pool.request("GET", url)

    return _sent(tracing, get)


def served_by_aiohttp(tracing: Tracing) -> bool:
    """Requests that aiohttp serves."""

    async def handle(_: web.Request) -> web.Response:
        tracing.work()
        return web.Response()

    async def main() -> bool:
        app = web.Application()
        app.router.add_get("/", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            port = runner.addresses[0][1]
            with tracing.request() as request:
                headers: dict[str, str] = {}
                propagate.inject(headers)
                await asyncio.to_thread(_plain_get, port, headers)
        finally:
            await runner.cleanup()
        return tracing.kept(request)

    return asyncio.run(main())


def _plain_get(port: int, headers: dict[str, str]) -> None:
    """A request that no library of tracing sees."""
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        head = "".join(["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", *lines, "\r\n"])
        client.sendall(head.encode())
        while client.recv(4096):
            pass


def _answer(tracing: Tracing) -> grpc.GenericRpcHandler:
    def handle(message: bytes, _: object) -> bytes:
        tracing.work()
        return message

    method = grpc.unary_unary_rpc_method_handler(handle)
    return grpc.method_handlers_generic_handler("rows.Rows", {"Ask": method})


def over_grpc(tracing: Tracing) -> bool:
    """Calls of gRPC, both ends."""
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((_answer(tracing),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, tracing.request() as request:
            channel.unary_unary("/rows.Rows/Ask")(b"", timeout=PATIENCE_S)
    finally:
        server.stop(0).wait()
    return tracing.kept(request)


def over_grpc_aio(tracing: Tracing) -> bool:
    """Calls of gRPC's asyncio, both ends."""

    async def handle(message: bytes, _: object) -> bytes:
        tracing.work()
        return message

    async def main() -> bool:
        server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(handle)
        service = grpc.method_handlers_generic_handler("rows.Rows", {"Ask": method})
        server.add_generic_rpc_handlers((service,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                with tracing.request() as request:
                    await channel.unary_unary("/rows.Rows/Ask")(b"", timeout=PATIENCE_S)
        finally:
            await server.stop(0)
        return tracing.kept(request)

    return asyncio.run(main())


def over_websockets(tracing: Tracing) -> bool:
    """A connection of websockets' asyncio, both ends."""

    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        await connection.recv()
        tracing.work()
        await connection.send("done")

    async def main() -> bool:
        async with websockets.asyncio.server.serve(handle, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            with tracing.request() as request:
                address = f"ws://127.0.0.1:{port}"
                async with websockets.asyncio.client.connect(address, proxy=None) as client:
                    await client.send("a message")
                    await client.recv()
        return tracing.kept(request)

    return asyncio.run(main())


def over_websockets_in_threads(tracing: Tracing) -> bool:
    """A connection of websockets' threads, both ends."""

    def handle(connection: websockets.sync.server.ServerConnection) -> None:
        connection.recv()
        tracing.work()
        connection.send("done")

    with websockets.sync.server.serve(handle, "127.0.0.1", 0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        address = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        with (
            tracing.request() as request,
            websockets.sync.client.connect(address, proxy=None) as client,
        ):
            client.send("a message")
            client.recv(PATIENCE_S)
        server.shutdown()
        serving.join()
    return tracing.kept(request)


def redis_program() -> str | None:
    """Where Redis lies, as `make test` unpacks it or as it is installed."""
    name, beside = "redis-server", str(Path(sys.executable).parent)
    return shutil.which(name, path=beside) or shutil.which(name)


@contextmanager
def redis_running() -> Iterator[int]:
    """A real Redis on a port of its own."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        told = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        command = [str(redis_program()), *told]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            with redis.Redis(port=port, retry=redis.retry.Retry(_backing_off(), 200)) as client:
                client.ping()
            yield port
        finally:
            server.terminate()
            server.wait()


def _backing_off() -> Any:
    from redis.backoff import ConstantBackoff

    return ConstantBackoff(0.02)


def celery_task(tracing: Tracing) -> bool:
    """A task of Celery over Redis, run by a real worker."""
    with redis_running() as port:
        address = f"redis://127.0.0.1:{port}/0"
        app = Celery("rows", broker=address)
        app.conf.broker_connection_retry_on_startup = True
        done = threading.Event()

        @app.task(name="rows.work", ignore_result=True)  # type: ignore[untyped-decorator]  # Celery has no types
        def work() -> None:
            tracing.work()
            done.set()

        with start_worker(app, perform_ping_check=False, loglevel="error"):
            with tracing.request() as request:
                work.delay()
                done.wait(PATIENCE_S)
            app.close()
        return tracing.kept(request)


def redis_list(tracing: Tracing) -> bool:
    """A list of Redis, W3C headers in the message."""
    with redis_running() as port, redis.Redis(port=port, decode_responses=True) as client:
        with tracing.request() as request:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            client.rpush("jobs", carrier["traceparent"])
        _, header = client.blpop(["jobs"], timeout=120)
        context = propagate.extract({"traceparent": str(header)})
        with tracing.tracer.start_as_current_span("work", context=context):
            pass
    return tracing.kept(request)


def _told(told: "Queue[str]") -> None:
    """In another process: say what is current."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    told.put(headers.get("traceparent", ""))


def _of_current() -> str:
    """In another process: the same, as a result."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers.get("traceparent", "")


def _received(items: "Queue[Any]", told: "Queue[str]") -> None:
    """In another process: who is named by an item."""
    carried = items.get(timeout=PATIENCE_S)
    context = propagate.extract(carried)
    told.put(format(get_current_span(context).get_span_context().trace_id, "032x"))


def multiprocessing_queue(tracing: Tracing) -> bool:
    """A queue of multiprocessing, W3C headers in the item."""
    items, told = _SPAWNING.Queue(), _SPAWNING.Queue()
    process = _SPAWNING.Process(target=_received, args=(items, told))
    process.start()
    with tracing.request() as request:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        items.put(carrier)
    trace_id = told.get(timeout=PATIENCE_S)
    process.join()
    return int(trace_id, 16) == request.get_span_context().trace_id


def spawned_process(tracing: Tracing) -> bool:
    """A process of multiprocessing that a request spawns."""
    told: Queue[str] = _SPAWNING.Queue()
    with tracing.request() as request:
        process = _SPAWNING.Process(target=_told, args=(told,))
        process.start()
    header = told.get(timeout=PATIENCE_S)
    process.join()
    return carries(header, request)


def process_pool(tracing: Tracing) -> bool:
    """`ProcessPoolExecutor.submit`."""
    with ProcessPoolExecutor(1, mp_context=_SPAWNING) as pool, tracing.request() as request:
        header = pool.submit(_of_current).result(PATIENCE_S)
    return carries(header, request)


class _Telling(SpawnProcess):
    """A process of a class of its own."""

    def __init__(self, told: "Queue[str]") -> None:
        super().__init__()
        self._told = told

    def run(self) -> None:
        _told(self._told)


def process_of_a_class_of_its_own(tracing: Tracing) -> bool:
    """A process whose class has a `run` of its own."""
    told: Queue[str] = _SPAWNING.Queue()
    with tracing.request() as request:
        process = _Telling(told)
        process.start()
    header = told.get(timeout=PATIENCE_S)
    process.join()
    return carries(header, request)


def _of_current_for(_: int) -> str:
    return _of_current()


def multiprocessing_pool(tracing: Tracing) -> bool:
    """`multiprocessing.Pool`, its calls and what it maps, of a pool that another request made."""
    with tracing.request():
        pool = _SPAWNING.Pool(1)
    with pool:
        with tracing.request() as called:
            kept = carries(pool.apply(_of_current), called)
        with tracing.request() as mapped:
            kept = kept and carries(pool.map(_of_current_for, [1])[0], mapped)
        with tracing.request() as lazily_mapped:
            kept = kept and carries(next(pool.imap(_of_current_for, [1])), lazily_mapped)
        return kept and pool.apply(_of_current) == ""  # and outside of any, of none


ROWS: tuple[Row, ...] = (
    over_httpx,
    over_requests,
    over_aiohttp,
    served_by_aiohttp,
    over_urllib3,
    over_grpc,
    over_grpc_aio,
    over_websockets,
    over_websockets_in_threads,
    celery_task,
    redis_list,
    multiprocessing_queue,
    spawned_process,
    process_of_a_class_of_its_own,
    process_pool,
    multiprocessing_pool,
)
