"""Steps of a request that wait on an event loop for steps of others."""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.hooks.event_loop import EventLoopHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing import turns
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.runtime_gaps import GAPS, LOOP, TURN, OpenRequests, RuntimeGaps
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.hooked import Spans, hooked, intervals_of
from tests.support.agent.waiting_requests import let_time_pass, serve

NewLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.Loop])
Stretch = tuple[int, int]
STEPS = 20
MANY = 100  # requests


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(EventLoopHook) as spans:
        yield spans


def run(new_loop: NewLoop, main: Awaitable[None]) -> None:
    async def awaited() -> None:
        await main

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(awaited())


def turns_of(request: RecordedSpan) -> list[Stretch]:
    """The waits for its turn that no call of a request contains, in monotonic time.

    A step that another program interrupts is a held loop.
    """
    packed = str(request.attributes.get(semconv.RUNTIME_GAPS, ""))
    found = unpack_named(packed, request.started_ns)
    return sorted((start_ns, end_ns) for name, start_ns, end_ns in found if name in {TURN, LOOP})


def queued_in(span: RecordedSpan) -> list[Stretch]:
    """The waits within a call, likewise."""
    found = (one for one in intervals_of(span) if one.stage is Stage.QUEUE)
    return [(one.start_ns + span.started_ns, one.end_ns + span.started_ns) for one in found]


async def called(spans: Spans, awaited: Callable[[], Awaitable[None]]) -> None:
    """Await something in a call of a database."""
    call = spans.recorder.start("a call", Stage.DATABASE)
    call.activate()
    await awaited()
    call.deactivate()
    call.end()


def total_ns(stretches: list[Stretch]) -> int:
    return sum(end_ns - start_ns for start_ns, end_ns in stretches)


class Woken:
    """A request that awaits a result."""

    def __init__(self) -> None:
        self.result = asyncio.get_running_loop().create_future()
        self.waits = asyncio.Event()
        self.scheduled_ns = self.held_ns = self.resumed_ns = 0

    async def wait(self) -> None:
        """Await it, in the request."""
        self.waits.set()
        await self.result
        self.resumed_ns = monotonic_ns()

    async def wake(self) -> None:
        """Give the result, behind many short steps of others."""
        await self.waits.wait()
        steps = [asyncio.create_task(self.step()) for _ in range(STEPS)]
        self.scheduled_ns = monotonic_ns()
        self.result.set_result(None)
        await asyncio.gather(*steps)

    async def step(self) -> None:
        """Take a part of the time that is noted."""
        since_ns = monotonic_ns()
        while monotonic_ns() - since_ns < turns.WAITED_NS:
            pass
        self.held_ns = monotonic_ns()


@LOOPS
def test_a_call_whose_result_is_there_waits_for_its_turn(spans: Spans, new_loop: NewLoop) -> None:
    async def main() -> None:
        woken = Woken()

        await asyncio.gather(serve(spans, lambda: called(spans, woken.wait)), woken.wake())
        (call,) = spans.of(Stage.DATABASE)
        (waited,) = queued_in(call)
        assert woken.scheduled_ns <= waited[0]
        assert woken.held_ns <= waited[1] <= woken.resumed_ns
        assert TURN not in str(spans.all[-1].attributes.get(semconv.RUNTIME_GAPS))

    run(new_loop, main())


@LOOPS
def test_outside_of_calls_the_wait_is_a_gap_of_the_request(
    spans: Spans, new_loop: NewLoop
) -> None:
    async def main() -> None:
        woken = Woken()
        await asyncio.gather(serve(spans, woken.wait), woken.wake())
        (request,) = spans.of(None)
        waited = turns_of(request)
        assert woken.held_ns <= waited[-1][1] <= woken.resumed_ns
        assert total_ns(waited) >= STEPS * turns.WAITED_NS

    run(new_loop, main())


@LOOPS
def test_however_many_wait_at_once_each_has_its_wait(spans: Spans, new_loop: NewLoop) -> None:
    async def main() -> None:
        loop, woken = asyncio.get_running_loop(), [Woken() for _ in range(MANY)]
        handles = [asyncio.Handle(int, (), loop) for _ in range(100 * MANY)]
        random.shuffle(handles)
        del handles[: 4 * MANY]  # so that those of the requests lie far apart

        async def wake() -> None:
            for one in woken:
                await one.waits.wait()
            steps = [asyncio.create_task(woken[0].step()) for _ in range(2)]
            for one in woken:
                one.result.set_result(None)
            await asyncio.gather(*steps)

        await asyncio.gather(*(serve(spans, one.wait) for one in woken), wake())
        lacks = [request.name for request in spans.of(None) if not turns_of(request)]
        assert lacks == []

    run(new_loop, main())


@LOOPS
def test_while_the_request_itself_runs_it_does_not_wait(spans: Spans, new_loop: NewLoop) -> None:
    async def main() -> None:
        ran: list[Stretch] = []

        async def step() -> None:
            since_ns = monotonic_ns()
            let_time_pass()
            ran.append((since_ns, monotonic_ns()))

        async def endpoint() -> None:
            await asyncio.gather(step(), step())

        await serve(spans, endpoint)
        (request,) = spans.of(None)
        waited = turns_of(request)
        assert total_ns(waited) <= request.ended_ns - request.started_ns - total_ns(ran)

    run(new_loop, main())


@pytest.fixture
def slow_messengers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What hands on a result may be interrupted for as long as a machine likes."""
    monkeypatch.setattr(turns, "MESSENGER_NS", 1 << 60)
    bound = (OpenRequests, RuntimeGaps, GAPS, NOTICED_NS, turns.WAITED_NS)
    if core is not None:
        core.bind_loop(*bound, 1 << 60)
    yield
    if core is not None:
        core.bind_loop(*bound, 20_000)


@LOOPS
@pytest.mark.usefixtures("slow_messengers")
def test_a_result_of_a_thread_waits_from_when_the_thread_hands_it_over(
    spans: Spans, new_loop: NewLoop
) -> None:
    async def main() -> None:
        loop, result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        waits, handed = asyncio.Event(), threading.Event()
        handed_ns = held_ns = 0

        def hand_over() -> None:
            nonlocal handed_ns
            loop.call_soon_threadsafe(result.set_result, None)
            handed_ns = monotonic_ns()
            handed.set()

        async def hold() -> None:
            nonlocal held_ns
            await waits.wait()
            threads.submit(hand_over)
            handed.wait()
            let_time_pass()
            held_ns = monotonic_ns()

        async def wait() -> None:
            waits.set()
            await result

        with ThreadPoolExecutor(1) as threads:
            await asyncio.gather(serve(spans, lambda: called(spans, wait)), hold())
        (call,) = spans.of(Stage.DATABASE)
        waited = queued_in(call)
        assert waited[-1][0] <= handed_ns <= held_ns <= waited[-1][1]

    run(new_loop, main())


@LOOPS
def test_a_call_that_collects_intervals_of_its_own_keeps_both(
    spans: Spans, new_loop: NewLoop
) -> None:
    async def main() -> None:
        woken = Woken()

        async def endpoint() -> None:
            call = spans.recorder.start("a stream", Stage.REMOTE_MODEL)
            intervals = call.collect_intervals()
            call.activate()
            intervals.add(Stage.DETOKENIZE, call.started_ns)
            await woken.wait()
            call.deactivate()
            call.end()

        await asyncio.gather(serve(spans, endpoint), woken.wake())
        (call,) = spans.of(Stage.REMOTE_MODEL)
        stages = {one.stage for one in intervals_of(call)}
        assert stages == {Stage.DETOKENIZE, Stage.QUEUE}

    run(new_loop, main())


@pytest.mark.usefixtures("spans")
def test_in_debug_mode_a_handle_says_where_the_program_made_it() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = [loop.call_soon(int), loop.call_soon_threadsafe(int)]
        assert all(f"created at {__file__}" in repr(handle) for handle in made)

    asyncio.run(main(), debug=True)
