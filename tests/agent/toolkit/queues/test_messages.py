"""The work that a message asks for, whatever its headers hold."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.asyncio_waits import AsyncioWaitsHook
from latencytrace.agent.toolkit.queues.messages import W3C, begun_work, timed_work
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.waiting_requests import let_time_pass


@pytest.mark.parametrize(
    "header",
    [5, -1.5, b"\xff", "", "\x00", "\ud800", "é", "x" * 100_000, ["00-1"], {"a": 1}, object()],
    ids=lambda header: repr(header)[:20],
)
def test_work_is_timed_whatever_carries_its_trace(header: object) -> None:
    spans = Spans()  # where a fault of ours is raised

    timing = begun_work(spans.recorder, "work", dict.fromkeys(W3C, header))

    assert timing is not None
    timing.end()
    assert spans.names == ["work"]


def test_what_work_waits_for_is_noted_as_of_a_request() -> None:
    async def work(_: object) -> None:
        lock = asyncio.Lock()
        await lock.acquire()

        async def finish() -> None:
            let_time_pass()
            lock.release()

        finishes = asyncio.create_task(finish())
        async with lock:
            await finishes

    async def twice(timed: Any) -> None:
        for _ in range(2):
            await timed(None)

    with hooked(AsyncioWaitsHook) as spans:
        timed = timed_work(lambda *_: ("work", {}))(spans.recorder, work)
        asyncio.run(twice(timed))

    waits, works = spans.of(Stage.QUEUE), spans.of(None)
    assert [wait.name.partition(" ")[2] for wait in waits] == ["lock"] * 2
    assert [wait.parent_id for wait in waits] == [one.span_id for one in works]
    assert [one.attributes[semconv.CONCURRENCY] for one in works] == [1, 1]
