"""Ways that work takes within one process; each says whether it stayed in the request's trace."""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import httpx
from opentelemetry.trace import get_current_span
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

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
        with tracing.serving(items.get(timeout=10)):
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
            with tracing.serving(items.get(timeout=10)):
                pass
            done.put(None)

    serving = threading.Thread(target=worker)
    with tracing.request():
        serving.start()
        items.put(tracing.ticket() if tracing.ticket else None)
        done.get(timeout=10)
    tracing.memory.clear()
    with tracing.request() as request:
        items.put(tracing.ticket() if tracing.ticket else None)
        done.get(timeout=10)
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
    run_in_executor,
    to_thread,
    call_soon_threadsafe,
    task_group,
    cancelled_task,
    background_task,
    copied_context,
    asyncio_queue,
    thread_queue,
    lazily_started_worker,
    generator_left_half_way,
    async_generator_left_half_way,
)
