"""Work beside the event loop is bounded, and holds up no end."""

import asyncio
import subprocess
import sys
import threading

import pytest

from latencytrace.errors import OtlpError, OverloadedError
from latencytrace.service.ingest.workers import Workers


def test_work_is_done_in_another_thread() -> None:
    worker = asyncio.run(Workers().run(threading.get_ident))

    assert worker != threading.get_ident()


def test_an_error_reaches_whoever_waits() -> None:
    def fail() -> None:
        raise OtlpError("torn")

    with pytest.raises(OtlpError, match="torn"):
        asyncio.run(Workers().run(fail))


def test_what_is_too_much_is_refused_until_some_is_done() -> None:
    async def crowd() -> list[object]:
        workers = Workers(threads=1, most_waiting=1)
        free = threading.Event()
        under_way = [asyncio.ensure_future(workers.run(free.wait)) for _ in range(2)]
        await asyncio.sleep(0)  # both are taken
        with pytest.raises(OverloadedError):
            await workers.run(free.wait)
        free.set()
        await asyncio.gather(*under_way)
        return [await workers.run(free.is_set)]

    assert asyncio.run(crowd()) == [True]


def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    async def leave() -> list[int]:
        workers = Workers(threads=1, most_waiting=1)
        free = threading.Event()
        done: list[int] = []
        first = asyncio.ensure_future(workers.run(free.wait))
        second = asyncio.ensure_future(workers.run(done.append, 2))
        await asyncio.sleep(0)  # both are taken
        second.cancel()
        await asyncio.sleep(0)
        free.set()
        await first
        await workers.run(free.is_set)
        return done

    assert asyncio.run(leave()) == []


def test_a_process_ends_although_a_thread_is_at_work() -> None:
    program = """
import asyncio, threading
from latencytrace.service.ingest.workers import Workers

async def main():
    at_work = threading.Event()

    def work():
        at_work.set()
        threading.Event().wait()  # for ever

    asyncio.ensure_future(Workers().run(work))
    while not at_work.is_set():
        await asyncio.sleep(0)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
