"""Requests that wait for locks, semaphores, events and queues of asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import pytest
import uvloop
from starlette.concurrency import run_in_threadpool as serve_in_thread
from starlette.responses import StreamingResponse

from latencytrace.agent.context import current
from latencytrace.agent.hooks.asgi import time_application
from latencytrace.agent.hooks.asyncio_waits import AsyncioWaitsHook
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.timing.costs import FIRST, apart
from latencytrace.agent.timing.runtime_gaps import GAPS, RuntimeGaps
from latencytrace.agent.toolkit.waits import MOST_SPANS, is_programs
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.waiting_requests import (
    AT_LEAST_NS,
    let_time_pass,
    results_ns,
    serve,
    served,
)

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
Wait = Callable[[], Coroutine[Any, Any, object]]
Make = Callable[[], tuple[Wait, Callable[[], object]]]


def lock() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Lock()
    vars(made)["_locked"] = True  # by another task

    async def wait() -> None:
        async with made:
            pass

    return wait, made.release


def semaphore() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Semaphore(0)
    return made.acquire, made.release


def full_queue() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Queue[int](1)
    made.put_nowait(1)
    return lambda: made.put(2), made.get_nowait


def event() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Event()
    return made.wait, made.set


def condition() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Condition()

    async def wait() -> None:
        async with made:
            await made.wait()

    def notify() -> None:
        for waiter in made._waiters:
            waiter.set_result(None)

    return wait, notify


def empty_queue() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Queue[int]()
    return made.get, lambda: made.put_nowait(1)


async def waited(spans: Spans, make: Make) -> None:
    """Have a request wait until its wait is long enough."""
    wait, release = make()

    async def endpoint() -> None:
        await wait()

    task = asyncio.get_running_loop().create_task(serve(spans, endpoint))
    await asyncio.sleep(0)
    let_time_pass()
    release()
    await task


@LOOPS
@pytest.mark.parametrize(
    ("make", "kind"), [(lock, "lock"), (semaphore, "semaphore"), (full_queue, "queue")]
)
def test_a_wait_for_room_is_a_span_that_says_where_it_was(
    new_loop: Callable[[], asyncio.AbstractEventLoop], make: Make, kind: str
) -> None:
    with hooked(AsyncioWaitsHook) as spans, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(waited(spans, make))

    (wait,) = spans.of(Stage.QUEUE)
    (request,) = spans.of(None)
    assert wait.parent_id == request.span_id
    assert wait.ended_ns - wait.started_ns >= AT_LEAST_NS
    assert wait.name.startswith("test_asyncio_waits.py:")
    assert wait.name.endswith(f" {kind}")


@LOOPS
@pytest.mark.parametrize("make", [asyncio.Lock, lambda: asyncio.Semaphore(1)])
def test_a_wait_for_what_another_request_has_names_that(
    new_loop: Callable[[], asyncio.AbstractEventLoop], make: Callable[[], Any]
) -> None:
    async def main(spans: Spans) -> None:
        made = make()

        async def endpoint() -> None:
            async with made:
                await asyncio.sleep(0)  # the other one comes
                let_time_pass()

        await asyncio.gather(serve(spans, endpoint), serve(spans, endpoint))

    with hooked(AsyncioWaitsHook) as spans, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(spans))

    (wait,) = spans.of(Stage.QUEUE)
    assert wait.name.endswith(f" {type(make()).__name__.lower()} held by GET")


@LOOPS
def test_what_a_request_does_itself_before_it_awaits_its_future_is_no_wait(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def endpoint() -> None:
        loop = asyncio.get_running_loop()
        made = loop.create_future()
        let_time_pass()
        loop.call_soon(made.set_result, 1)
        await made

    with (
        hooked(AsyncioWaitsHook, EventLoopHook) as spans,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        spans.recorder.open_requests.serves = True
        runner.run(serve(spans, endpoint))

    assert results_ns(spans) == 0


def test_a_semaphore_that_the_request_itself_makes_room_in_is_held_by_none() -> None:
    async def endpoint() -> None:
        made = asyncio.Semaphore(0)

        async def child() -> None:
            let_time_pass()
            made.release()

        task = asyncio.get_running_loop().create_task(child())
        await made.acquire()
        await task

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(serve(spans, endpoint))

    (wait,) = spans.of(Stage.QUEUE)
    assert wait.name.endswith(" semaphore")


class OwnFuture(asyncio.Future[Any]):
    """Of a loop with futures of its own kind."""


class OwnLoop(asyncio.SelectorEventLoop):
    """Makes them."""

    def create_future(self) -> asyncio.Future[Any]:
        """Make one."""
        return OwnFuture(loop=self)


def test_a_loop_s_own_kind_of_future_stays() -> None:
    async def main(spans: Spans) -> None:
        made = asyncio.Lock()
        await made.acquire()
        task = asyncio.get_running_loop().create_task(serve(spans, made.acquire))
        await asyncio.sleep(0)
        (waiter,) = vars(made)["_waiters"]
        assert type(waiter) is OwnFuture
        made.release()
        await task

    with hooked(AsyncioWaitsHook) as spans, asyncio.Runner(loop_factory=OwnLoop) as runner:
        runner.run(main(spans))


def limited_queue() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Queue[int]()
    return lambda: asyncio.wait_for(made.get(), 60), lambda: made.put_nowait(1)


def future_of_the_programs() -> tuple[Wait, Callable[[], object]]:
    made: list[asyncio.Future[int]] = []

    async def wait() -> None:
        made.append(asyncio.get_running_loop().create_future())
        await made[0]

    return wait, lambda: made[0].set_result(1)


def future_of_another_thread() -> tuple[Wait, Callable[[], object]]:
    made = Future[int]()

    async def wait() -> None:
        await asyncio.wrap_future(made)

    return wait, lambda: made.set_result(1)


def limited_event() -> tuple[Wait, Callable[[], object]]:
    made = asyncio.Event()
    return lambda: asyncio.wait_for(made.wait(), 60), made.set


@LOOPS
@pytest.mark.parametrize(
    "make",
    [
        event,
        condition,
        empty_queue,
        future_of_the_programs,
        future_of_another_thread,
        limited_queue,
        limited_event,
    ],
)
def test_a_wait_for_a_result_is_a_gap_that_the_request_s_own_work_may_fill(
    new_loop: Callable[[], asyncio.AbstractEventLoop], make: Make
) -> None:
    with hooked(AsyncioWaitsHook) as spans, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(waited(spans, make))

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) >= AT_LEAST_NS


@LOOPS
def test_what_it_costs_to_look_at_the_futures_of_a_request_is_sampled(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def make_futures() -> None:
        for _ in range(FIRST):
            await asyncio.sleep(1e-6)  # makes one, which is no wait of the program's

    with (
        apart() as made,
        hooked(AsyncioWaitsHook) as spans,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(serve(spans, make_futures))

    assert [cost.calls for cost in made if cost.ns] == [FIRST]


@LOOPS
def test_a_future_that_python_or_a_library_makes_is_no_wait_of_the_program_s(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with hooked(AsyncioWaitsHook) as spans, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(spans, lambda: asyncio.sleep(AT_LEAST_NS / 1e9)))

    assert results_ns(spans) == 0
    assert not is_programs(serve_in_thread.__code__)


def test_a_wait_for_a_result_within_a_timed_call_is_the_call_s_own() -> None:
    async def main(spans: Spans) -> None:
        made = asyncio.Event()

        async def endpoint() -> None:
            call = spans.recorder.start("GET", Stage.NETWORK)
            call.activate()
            await made.wait()
            call.deactivate()
            call.end()

        task = asyncio.get_running_loop().create_task(serve(spans, endpoint))
        await asyncio.sleep(0)
        let_time_pass()
        made.set()
        await task

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(main(spans))

    assert len(spans.of(Stage.NETWORK)) == 1
    assert results_ns(spans) == 0


def test_what_does_not_wait_is_not_seen() -> None:
    async def main(spans: Spans) -> None:
        with served(spans):
            async with asyncio.Lock(), asyncio.Semaphore(1):
                pass

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(main(spans))

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) == 0


def test_a_cancelled_wait_is_noted_and_the_cancellation_passes_through() -> None:
    async def main(spans: Spans) -> bool:
        held = asyncio.Semaphore(0)

        async def request() -> None:
            with served(spans):
                await held.acquire()

        task = asyncio.get_running_loop().create_task(request())
        await asyncio.sleep(0)
        let_time_pass()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    with hooked(AsyncioWaitsHook) as spans:
        assert asyncio.run(main(spans))

    assert len(spans.of(Stage.QUEUE)) == 1


def test_a_semaphore_of_another_loop_raises_as_ever() -> None:
    made = asyncio.Semaphore(0)

    async def bind() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made.acquire(), 0.001)

    async def main(spans: Spans) -> None:
        with served(spans):
            await made.acquire()

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(bind())
        with pytest.raises(RuntimeError, match="different event loop"):
            asyncio.run(main(spans))


def test_a_stream_that_waits_for_its_next_part_waits_for_a_result() -> None:
    parts = asyncio.Queue[bytes]()

    async def body() -> AsyncIterator[bytes]:
        yield await parts.get()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await StreamingResponse(body())(scope, receive, send)

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()  # its caller stays
        raise AssertionError

    async def main() -> None:
        sent: list[object] = []

        async def send(message: object) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        serving = asyncio.get_running_loop().create_task(
            time_application(spans.recorder, lambda _, *asgi: application(*asgi))(
                None, scope, receive, send
            )
        )
        while not (sent and vars(parts)["_getters"]):  # noqa: ASYNC110 - nothing says so
            await asyncio.sleep(0)
        let_time_pass()
        parts.put_nowait(b"part")
        await serving

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(main())

    assert results_ns(spans) >= AT_LEAST_NS


def test_what_a_task_beside_the_request_listens_for_holds_nothing_up() -> None:
    async def endpoint() -> None:
        leaves = asyncio.Event()
        listens = asyncio.get_running_loop().create_task(leaves.wait())
        await asyncio.sleep(0)
        let_time_pass()
        leaves.set()
        await listens

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(serve(spans, endpoint))

    assert results_ns(spans) == 0


def test_work_with_a_limit_is_no_wait() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        let_time_pass()

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(serve(spans, lambda: asyncio.wait_for(work(), 60)))

    assert results_ns(spans) == 0


def test_a_wait_whose_limit_is_over_raises_as_ever() -> None:
    async def endpoint() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Queue[int]().get(), timeout=0.003)

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(serve(spans, endpoint))

    assert results_ns(spans) >= AT_LEAST_NS


def test_a_request_has_a_bounded_number_of_spans_for_its_waits() -> None:
    made = asyncio.Semaphore(0)

    async def endpoint() -> None:
        gaps = current()[GAPS]
        assert isinstance(gaps, RuntimeGaps)
        gaps.waits = MOST_SPANS
        task = asyncio.get_running_loop().create_task(made.acquire())
        await asyncio.sleep(0)
        let_time_pass()
        made.release()
        await task

    with hooked(AsyncioWaitsHook) as spans:
        asyncio.run(serve(spans, endpoint))

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) >= AT_LEAST_NS
