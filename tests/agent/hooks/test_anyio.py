"""Waits for a thread, anyio's or of a pool of the standard library, under a real server."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastapi import FastAPI

from latencytrace.agent.runtime_gaps import POOL
from tests.agent.hooks.gaps import gaps_ns
from tests.agent.hooks.serving import get, serving
from tests.agent.receiving import TracedProgram

HELD_S = 0.2


async def by_anyio(call: Callable[[], None], limiter: Any) -> None:  # noqa: ANN401
    await anyio.to_thread.run_sync(call, limiter=limiter)


async def by_executor(call: Callable[[], None], pool: Any) -> None:  # noqa: ANN401
    await asyncio.get_running_loop().run_in_executor(pool, call)


@pytest.mark.parametrize(
    ("submit", "one_thread"),
    [(by_anyio, lambda: anyio.CapacityLimiter(1)), (by_executor, lambda: ThreadPoolExecutor(1))],
    ids=["anyio", "executor"],
)
def test_the_wait_for_a_thread_is_a_gap(
    agent: TracedProgram,
    submit: Callable[[Callable[[], None], object], Awaitable[None]],
    one_thread: Callable[[], object],
) -> None:
    app = FastAPI()

    @app.get("/pooled")
    async def pooled() -> None:
        pool = one_thread()
        await asyncio.gather(submit(lambda: time.sleep(HELD_S), pool), submit(lambda: None, pool))
        if isinstance(pool, ThreadPoolExecutor):
            pool.shutdown()

    with serving(app, loop="asyncio") as address:
        get(f"{address}/pooled")

    assert gaps_ns(agent.one("GET /pooled"))[POOL] >= HELD_S * 0.9e9
