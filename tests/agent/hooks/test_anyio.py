"""Waits for a thread, anyio's or of a pool of the standard library, under a real server."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import anyio
import anyio._backends._asyncio
import anyio.to_thread
import pytest
from fastapi import FastAPI
from httpcore._synchronization import AsyncLock

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks import anyio as hook
from latencytrace.agent.hooks.anyio import AnyioHook, _default_limiter
from latencytrace.agent.hooks.asyncio_waits import AsyncioWaitsHook
from latencytrace.agent.timing.costs import FIRST, apart
from latencytrace.agent.timing.runtime_gaps import LOOP, POOL
from latencytrace.agent.toolkit import waits
from latencytrace.model import Stage, semconv
from tests.support.agent.gaps import gaps_ns
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.receiving import TracedProgram
from tests.support.agent.waiting_requests import AT_LEAST_NS, let_time_pass, serve
from tests.support.servers.serving import get, serving
from tests.support.waiting import PATIENCE_S

HELD_S = 0.2
HELD_NS = round(HELD_S * 1e9)


async def by_anyio(call: Callable[[], None], limiter: Any) -> None:
    await anyio.to_thread.run_sync(call, limiter=limiter)


async def by_executor(call: Callable[[], None], pool: Any) -> None:
    await asyncio.get_running_loop().run_in_executor(pool, call)


@pytest.mark.parametrize(
    "make", [anyio.Lock, lambda: anyio.Semaphore(1), lambda: anyio.CapacityLimiter(1)]
)
def test_a_wait_for_room_is_a_span_that_says_where_it_was(make: Callable[[], Any]) -> None:
    async def main(spans: Spans) -> None:
        held = make()

        async def endpoint() -> None:
            async with held:
                pass

        await held.acquire()
        waiting = asyncio.get_running_loop().create_task(serve(spans, endpoint))
        while not held.statistics().tasks_waiting:  # noqa: ASYNC110 - nothing says so
            await asyncio.sleep(0)
        let_time_pass()
        held.release()
        await waiting

    with hooked(AnyioHook, AsyncioWaitsHook) as spans:
        asyncio.run(main(spans))

    (wait,) = spans.of(Stage.QUEUE)
    assert wait.ended_ns - wait.started_ns >= AT_LEAST_NS
    assert wait.name.startswith("test_anyio.py:")
    assert wait.name.endswith((" lock", " semaphore", " capacitylimiter"))


def test_a_lock_of_httpcores_is_a_wait_for_a_connection() -> None:
    async def main(spans: Spans) -> None:
        held = AsyncLock()

        async def endpoint() -> None:
            async with held:
                pass

        async with held:
            waiting = asyncio.get_running_loop().create_task(serve(spans, endpoint))
            while not held._anyio_lock.statistics().tasks_waiting:  # noqa: ASYNC110 - nothing says so
                await asyncio.sleep(0)
            let_time_pass()
        await waiting

    with hooked(AnyioHook, AsyncioWaitsHook) as spans:
        asyncio.run(main(spans))

    (wait,) = spans.of(Stage.QUEUE)
    assert wait.name == "connection"


def test_a_lock_that_is_free_is_not_waited_for() -> None:
    async def main(spans: Spans) -> None:
        async def endpoint() -> None:
            async with anyio.Lock(), anyio.Semaphore(1):
                pass

        await serve(spans, endpoint)

    with hooked(AnyioHook) as spans:
        asyncio.run(main(spans))

    assert spans.of(Stage.QUEUE) == []


@pytest.mark.parametrize("make", [anyio.Lock, lambda: anyio.Semaphore(1)])
def test_what_it_costs_to_look_whether_a_lock_is_free_is_sampled(make: Callable[[], Any]) -> None:
    async def main() -> None:
        lock = make()
        for _ in range(FIRST):
            async with lock:
                pass

    with apart() as made, hooked(AnyioHook):
        asyncio.run(main())

    assert [(cost.calls, cost.samples.calls) for cost in made if cost.calls] == [(FIRST, 1)]


@pytest.mark.parametrize(
    ("submit", "one_thread"),
    [(by_anyio, lambda: anyio.CapacityLimiter(1)), (by_executor, lambda: ThreadPoolExecutor(1))],
    ids=["anyio", "executor"],
)
def test_the_wait_for_a_thread_is_a_gap(
    agent: TracedProgram,
    submit: Callable[[Callable[[], None], object], Coroutine[None, None, None]],
    one_thread: Callable[[], object],
) -> None:
    app = FastAPI()
    both_want_it = Event()

    def hold() -> None:
        both_want_it.wait(PATIENCE_S)
        time.sleep(HELD_S)

    @app.get("/pooled")
    async def pooled() -> None:
        pool = one_thread()
        both = [asyncio.create_task(submit(call, pool)) for call in (hold, lambda: None)]
        await anyio.wait_all_tasks_blocked()
        both_want_it.set()
        await asyncio.gather(*both)
        if isinstance(pool, ThreadPoolExecutor):
            pool.shutdown()

    with serving(app, loop="asyncio") as address:
        get(f"{address}/pooled")

    asked = agent.one("GET /pooled")
    assert gaps_ns(asked)[POOL] >= HELD_NS
    # An executor's thread may not have taken the first task yet; anyio counts those that wait.
    assert asked.attributes[semconv.QUEUE_DEPTH] in {0, 1}


@pytest.mark.parametrize(
    ("submit", "one_thread"),
    [(by_anyio, lambda: anyio.CapacityLimiter(1)), (by_executor, lambda: ThreadPoolExecutor(1))],
    ids=["anyio", "executor"],
)
def test_a_request_tells_how_many_waited_for_a_thread_before_it(
    agent: TracedProgram,
    submit: Callable[[Callable[[], None], object], Coroutine[None, None, None]],
    one_thread: Callable[[], object],
) -> None:
    app = FastAPI()
    held, free = Event(), Event()

    def hold() -> None:
        held.set()
        free.wait(PATIENCE_S)

    @app.get("/pooled")
    async def pooled() -> None:
        pool = one_thread()
        first = asyncio.create_task(submit(hold, pool))
        await asyncio.to_thread(held.wait, PATIENCE_S)
        others: list[asyncio.Task[None]] = []
        for _ in range(3):  # one behind the other
            others.append(asyncio.create_task(submit(lambda: None, pool)))
            await anyio.wait_all_tasks_blocked()
        free.set()
        await asyncio.gather(first, *others)
        if isinstance(pool, ThreadPoolExecutor):
            pool.shutdown()

    with serving(app, loop="asyncio") as address:
        get(f"{address}/pooled")

    assert agent.one("GET /pooled").attributes[semconv.QUEUE_DEPTH] == 2


def test_no_place_is_looked_for_where_a_wait_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(spans: Spans) -> None:
        lock = anyio.Lock()
        await lock.acquire()

        async def endpoint() -> None:
            async with lock:
                pass

        task = asyncio.get_running_loop().create_task(serve(spans, endpoint))
        await asyncio.sleep(0)
        lock.release()
        await task

    now_ns = monotonic_ns()
    asked: list[object] = []
    monkeypatch.setattr(waits, "_place", lambda *at, **_: asked.append(at))
    for module in (waits, hook):
        monkeypatch.setattr(module, "monotonic_ns", lambda: now_ns)  # no time passes
    with hooked(AnyioHook) as spans:
        asyncio.run(main(spans))

    assert asked == []
    assert len(spans.of(None)) == 1


def test_each_event_loop_is_asked_for_its_own_threads() -> None:
    async def found() -> bool:
        return _default_limiter() is anyio.to_thread.current_default_thread_limiter()

    assert [asyncio.run(found()) for _ in range(2)] == [True, True]


def one_holds_the_loop() -> FastAPI:
    """`/pooled` asks for a thread when `/holding` is about to hold the loop."""
    app = FastAPI()
    ready, arrived = asyncio.Event(), asyncio.Event()

    @app.get("/pooled")
    async def pooled() -> None:
        await ready.wait()
        arrived.set()
        await anyio.to_thread.run_sync(lambda: None)

    @app.get("/holding")
    async def holding() -> None:
        ready.set()
        await arrived.wait()
        time.sleep(HELD_S)  # noqa: ASYNC251 - the fault that is to be seen

    return app


@pytest.mark.usefixtures("late_is_in_time")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_held_loop_on_the_way_to_a_thread_is_no_wait_for_one(
    agent: TracedProgram, loop: str
) -> None:
    with serving(one_holds_the_loop(), loop=loop) as url, ThreadPoolExecutor(2) as clients:
        for answer in [clients.submit(get, f"{url}/{one}") for one in ("holding", "pooled")]:
            answer.result()

    pooled = agent.one("GET /pooled")
    assert gaps_ns(pooled)[LOOP] >= HELD_NS
    assert gaps_ns(pooled).get(POOL, 0) <= pooled.duration_ns - HELD_NS
