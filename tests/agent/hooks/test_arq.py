"""The hook of arq: a real worker over a real Redis."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from typing import Any

import pytest

from latencytrace.agent.hooks.arq import ArqHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request
from tests.support.agent.queued_work import check_waited
from tests.support.databases.caches import redis_server
from tests.support.waiting import PATIENCE_S

arq = pytest.importorskip("arq")
arq_worker = pytest.importorskip("arq.worker")
pytestmark = pytest.mark.filterwarnings("ignore:Call to:DeprecationWarning")  # arq's, of redis-py

HOOKS = (ArqHook,)


async def add(_: dict[str, Any], one: int, other: int) -> int:
    """A job."""
    return one + other


async def fail(_: dict[str, Any], __: str) -> None:
    """One that fails."""
    raise LookupError("of the program")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("arq")) as socket:
        yield socket


def ran(server: str, send: Callable[[Any], Awaitable[Any]]) -> Any:
    """Send a job, then let a worker do all that is queued."""

    async def run() -> Any:
        pool = await arq.create_pool(arq.connections.RedisSettings(unix_socket_path=server))
        job = await send(pool)
        # It belongs to no request, as in a process of its own.
        await asyncio.create_task(work(pool), context=Context())
        return job

    async def work(pool: Any) -> None:
        worker = arq_worker.Worker(
            [add, fail], redis_pool=pool, burst=True, poll_delay=0.01, handle_signals=False
        )
        await worker.async_run()
        await worker.close()
        await pool.aclose()

    return asyncio.run(run())


def test_from_its_sending_to_its_start_a_job_that_is_awaited_was_queued(
    spans: Spans, server: str
) -> None:
    in_request(spans, lambda: ran(server, lambda pool: pool.enqueue_job("add", 1, 2)))

    assert sorted(spans.names) == ["add", "request", "send add"]
    check_waited(spans, "add")


def test_a_job_that_fails_is_an_error_of_its_span(spans: Spans, server: str) -> None:
    ran(server, lambda pool: pool.enqueue_job("fail", "a secret"))

    assert (spans.only.name, spans.only.parent_id) == ("fail", 0)
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_a_worker_without_the_hook_does_the_job_all_the_same(server: str) -> None:
    async def send(pool: Any) -> Any:
        with hooked(ArqHook) as spans:
            timing = spans.recorder.start("request")
            timing.activate()
            job = await pool.enqueue_job("add", 1, 2)
            timing.deactivate()
            timing.end()
        return job

    async def result(job: Any) -> Any:
        job._redis = await arq.create_pool(arq.connections.RedisSettings(unix_socket_path=server))
        found = await job.result(timeout=PATIENCE_S)
        await job._redis.aclose()
        return found

    assert asyncio.run(result(ran(server, send))) == 3
