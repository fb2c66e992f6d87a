"""Ways that work takes within one process; each says whether it stayed in the request's trace."""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from multiprocessing.pool import ThreadPool

import httpx
from opentelemetry import propagate
from opentelemetry.trace import Span, get_current_span
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from tests.propagation.tracing import Tracing

Row = Callable[[Tracing], bool]


def thread(tracing: Tracing) -> bool:
    """`threading.Thread`."""
    with tracing.request() as request:
        worker = threading.Thread(target=tracing.work)
        worker.start()
        worker.join()
    return tracing.kept(request)


def thread_pool(tracing: Tracing) -> bool:
    """`ThreadPoolExecutor.submit`, of a pool that is there before."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with tracing.request() as request:
            pool.submit(tracing.work).result()
    return tracing.kept(request)


def callback_of_a_future(tracing: Tracing) -> bool:
    """What `add_done_callback` of a pool's task asks for."""
    let_go, called = threading.Event(), threading.Event()

    def callback(_: object) -> None:
        tracing.work()
        called.set()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with tracing.request() as request:
            pool.submit(let_go.wait).add_done_callback(callback)
            let_go.set()
            called.wait(120)
    return tracing.kept(request)


def multiprocessing_thread_pool(tracing: Tracing) -> bool:
    """`multiprocessing.pool.ThreadPool`, its calls and what it maps."""
    with ThreadPool(1) as pool:
        with tracing.request() as called:
            pool.apply(tracing.work)
        with tracing.request() as mapped:
            pool.map(lambda _: tracing.work(), [1])
        return tracing.kept(called) and tracing.kept(mapped)


def run_in_executor(tracing: Tracing) -> bool:
    """`loop.run_in_executor`."""

    async def main() -> bool:
        with tracing.request() as request:
            await asyncio.get_running_loop().run_in_executor(None, tracing.work)
        return tracing.kept(request)

    return asyncio.run(main())


def to_thread(tracing: Tracing) -> bool:
    """`asyncio.to_thread`."""

    async def main() -> bool:
        with tracing.request() as request:
            await asyncio.to_thread(tracing.work)
        return tracing.kept(request)

    return asyncio.run(main())


def call_soon_threadsafe(tracing: Tracing) -> bool:
    """`loop.call_soon_threadsafe`, called by a thread of the request's."""

    async def main() -> bool:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def back_in_the_loop() -> None:
            tracing.work()
            done.set()

        with tracing.request() as request:
            worker = threading.Thread(target=loop.call_soon_threadsafe, args=(back_in_the_loop,))
            worker.start()
            await done.wait()
        worker.join()
        return tracing.kept(request)

    return asyncio.run(main())


def task_group(tracing: Tracing) -> bool:
    """Tasks of an `asyncio.TaskGroup`."""

    async def work() -> None:
        tracing.work()

    async def main() -> bool:
        with tracing.request() as request:
            async with asyncio.TaskGroup() as group:
                group.create_task(work())
        return tracing.kept(request)

    return asyncio.run(main())


def cancelled_task(tracing: Tracing) -> bool:
    """What a cancelled task does on its way out."""

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            tracing.work()

    async def main() -> bool:
        with tracing.request() as request:
            task = asyncio.create_task(work())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        return tracing.kept(request)

    return asyncio.run(main())


def background_task(tracing: Tracing) -> bool:
    """A background task of Starlette, which runs after the answer."""
    seen = []

    async def endpoint(_: Request) -> PlainTextResponse:
        seen.append(get_current_span())
        return PlainTextResponse("answer", background=BackgroundTask(tracing.work))

    async def main() -> None:
        transport = httpx.ASGITransport(Starlette(routes=[Route("/", endpoint)]))
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            await client.get("/")

    with tracing.request() as request:
        asyncio.run(main())
    return tracing.kept(request)


def thread_after_the_answer(tracing: Tracing) -> bool:
    """A thread that is started after the request's span has ended."""
    with tracing.request() as request:
        request.end()
        worker = threading.Thread(target=tracing.work)
        worker.start()
        worker.join()
    return tracing.kept(request)


def asgi_websocket(tracing: Tracing) -> bool:
    """A WebSocket of Starlette, opened by a traced caller."""

    async def handle(connection: WebSocket) -> None:
        await connection.accept()
        tracing.work()
        await connection.close()

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(_: object) -> None:
        """Take what the server sends."""

    with tracing.request() as request:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
    headers = [(name.encode(), value.encode()) for name, value in carrier.items()]
    scope = {"type": "websocket", "path": "/", "headers": headers, "query_string": b""}
    asyncio.run(Starlette(routes=[WebSocketRoute("/", handle)])(scope, receive, send))
    return tracing.kept(request)


def copied_context(tracing: Tracing) -> bool:
    """`contextvars.copy_context`, run elsewhere."""
    with tracing.request() as request:
        context = copy_context()
    context.run(tracing.work)
    return tracing.kept(request)


def asyncio_queue(tracing: Tracing) -> bool:
    """`asyncio.Queue` to a worker that serves all requests."""

    async def main() -> bool:
        items: asyncio.Queue[object] = asyncio.Queue()
        done = asyncio.Event()

        async def worker() -> None:
            with tracing.serving(await items.get()):
                pass
            done.set()

        serving = asyncio.create_task(worker())
        with tracing.request() as request:
            await items.put(tracing.ticket() if tracing.ticket else None)
            await done.wait()
        await serving
        return tracing.kept(request)

    return asyncio.run(main())


def thread_queue(tracing: Tracing) -> bool:
    """`queue.Queue` to a thread that serves all requests."""
    items: queue.Queue[object] = queue.Queue()

    def worker() -> None:
        with tracing.serving(items.get(timeout=120)):
            pass

    serving = threading.Thread(target=worker)
    serving.start()
    with tracing.request() as request:
        items.put(tracing.ticket() if tracing.ticket else None)
        serving.join()
    return tracing.kept(request)


def lazily_started_worker(tracing: Tracing) -> bool:
    """A worker that the first request starts: the second one's work is its own."""
    items: queue.Queue[object] = queue.Queue()
    done: queue.Queue[object] = queue.Queue()

    def worker() -> None:
        for _ in range(2):
            with tracing.serving(items.get(timeout=120)):
                pass
            done.put(None)

    serving = threading.Thread(target=worker)
    with tracing.request():
        serving.start()
        items.put(tracing.ticket() if tracing.ticket else None)
        done.get(timeout=120)
    tracing.memory.clear()
    with tracing.request() as request:
        items.put(tracing.ticket() if tracing.ticket else None)
        done.get(timeout=120)
    serving.join()
    return tracing.kept(request)


def generator_left_half_way(tracing: Tracing) -> bool:
    """A generator that is left half-way: its work is kept, and nothing of it stays current."""

    def tokens() -> Generator[int, None, None]:
        for number in range(3):
            tracing.work()
            yield number

    def traced() -> Generator[int, None, None]:
        with tracing.tracer.start_as_current_span("stream"):
            yield from tokens()

    stream = tracing.stage("stream")(tokens) if tracing.stage else traced
    with tracing.request() as request:
        left = stream()
        next(left)
        unpolluted = get_current_span() is request
        left.close()
        unpolluted = unpolluted and get_current_span() is request
    return unpolluted and tracing.kept(request)


def span_that_a_generator_holds(tracing: Tracing) -> bool:
    """A span that a generator holds across its `yield`s: current in it alone, each time."""
    held: list[Span] = []
    seen: list[Span] = []

    def tokens() -> Generator[int, None, None]:
        with tracing.tracer.start_as_current_span("held") as span:
            held.append(span)
            for number in range(3):
                seen.append(get_current_span())
                yield number

    stream = tracing.stage("stream")(tokens) if tracing.stage else tokens
    with tracing.request() as request:
        outside = [get_current_span() for _ in stream()]
    return all(span is request for span in outside) and seen == held * 3


def async_generator_left_half_way(tracing: Tracing) -> bool:
    """The same of an async generator, closed by another task as garbage collection does."""

    async def tokens() -> AsyncGenerator[int, None]:
        for number in range(3):
            tracing.work()
            yield number

    async def traced() -> AsyncGenerator[int, None]:
        with tracing.tracer.start_as_current_span("stream"):
            async for token in tokens():
                yield token

    stream = tracing.stage("stream")(tokens) if tracing.stage else traced

    async def main() -> bool:
        with tracing.request() as request:
            left = stream()
            await anext(left)
            unpolluted = get_current_span() is request
            await asyncio.create_task(left.aclose())
            unpolluted = unpolluted and get_current_span() is request
        return unpolluted and tracing.kept(request)

    return asyncio.run(main())


ROWS: tuple[Row, ...] = (
    thread,
    thread_pool,
    callback_of_a_future,
    multiprocessing_thread_pool,
    run_in_executor,
    to_thread,
    call_soon_threadsafe,
    task_group,
    cancelled_task,
    background_task,
    thread_after_the_answer,
    asgi_websocket,
    copied_context,
    asyncio_queue,
    thread_queue,
    lazily_started_worker,
    generator_left_half_way,
    span_that_a_generator_holds,
    async_generator_left_half_way,
)
