"""Requests that queue for locks, queues and results: the test's own clock says where time went.

The test holds what they wait for, and hands it on once all of them wait. So it knows how long each
of them waited and worked at least and at most, however busy the machine is.
"""

import asyncio
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic_ns
from typing import Any

import pytest
from opentelemetry.trace import get_current_span

from latencytrace.agent.compiled.core import core
from latencytrace.agent.hooks.asyncio_waits import AsyncioWaitsHook
from latencytrace.agent.hooks.threading_waits import ThreadingWaitsHook
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.queued_work import as_received
from tests.support.agent.waiting_requests import serve, serve_wsgi, threads_in
from tests.support.waiting import PATIENCE_S, until

COMPILED = pytest.mark.skipif(core is None, reason="only the compiled core sees it")
REQUESTS = 4
STEP_NS = 20_000_000
WRONG_RATIO = 0.01


@dataclass
class Held:
    """What requests wait for, as the test holds it at first.

    Args:
        take: Waits for it.
        waiters: How many wait.
        hand_on: The test gives it to the next one, or to all.
        give: So does a request that is done; None: it keeps what it has.
        at_once: All get it at the same time.
    """

    take: Callable[[], Any]
    waiters: Callable[[], int]
    hand_on: Callable[[], object]
    give: Callable[[], object] | None = None
    at_once: bool = False
    free_ns: list[int] = field(default_factory=list)  # just before each time that one is given

    def next_one(self, give: Callable[[], object]) -> None:
        """Give it away."""
        self.free_ns.append(monotonic_ns())
        give()


@dataclass
class Known:
    """What the test knows of one request."""

    trace_id: int = 0
    asked_ns: int = 0
    had_ns: int = 0
    least: Counter[Stage] = field(default_factory=Counter)
    most: Counter[Stage] = field(default_factory=Counter)

    def work(self, spans: Spans, stage: Stage) -> None:
        """Work for one step."""
        outer_ns = monotonic_ns()
        timing = spans.recorder.start("work", stage)
        self.least[stage] += pass_time()
        timing.end()
        self.most[stage] += monotonic_ns() - outer_ns

    def wrong_ns(self, ledger: Counter[Stage]) -> int:
        """Return how much of its time is in a wrong stage, at least."""
        return sum(
            max(self.least[stage] - took_ns, took_ns - self.most[stage], 0)
            for stage in self.least
            for took_ns in [ledger[stage]]
        )


def pass_time() -> int:
    """Return after one step how long it was."""
    since_ns = monotonic_ns()
    return until(lambda: max(monotonic_ns() - since_ns - STEP_NS, 0)) + STEP_NS


def lock(kind: Callable[[], Any]) -> Held:
    made = kind()
    made.acquire()

    def take() -> None:
        made.acquire()

    return Held(take, lambda: threads_in(take), made.release, made.release)


def semaphore() -> Held:
    made: Any = threading.Semaphore(0)
    return Held(made.acquire, lambda: len(made._cond._waiters), made.release, made.release)


def full_queue() -> Held:
    made = queue.Queue[int](1)
    made.put(0)
    waiters: Any = made.not_full
    return Held(partial(made.put, 1), lambda: len(waiters._waiters), made.get)


def event() -> Held:
    made: Any = threading.Event()
    return Held(made.wait, lambda: len(made._cond._waiters), made.set, at_once=True)


def lock_of_asyncio() -> Held:
    made: Any = asyncio.Lock()
    made._locked = True
    return Held(made.acquire, lambda: len(made._waiters or ()), made.release, made.release)


def semaphore_of_asyncio() -> Held:
    made: Any = asyncio.Semaphore(0)
    return Held(made.acquire, lambda: len(made._waiters or ()), made.release, made.release)


def full_queue_of_asyncio() -> Held:
    made: Any = asyncio.Queue(1)
    made.put_nowait(0)
    return Held(partial(made.put, 1), lambda: len(made._putters), made.get_nowait)


def event_of_asyncio() -> Held:
    made: Any = asyncio.Event()
    return Held(made.wait, lambda: len(made._waiters), made.set, at_once=True)


def has_it(held: Held, known: Known, spans: Spans) -> None:
    """Go on with what was waited for."""
    known.had_ns = monotonic_ns()
    known.most[Stage.QUEUE] += known.had_ns - known.asked_ns
    if held.give is not None:
        known.work(spans, Stage.FORWARD)
        held.next_one(held.give)
    known.least[Stage.UNATTRIBUTED] += pass_time()  # of its own code
    known.most[Stage.UNATTRIBUTED] = sys.maxsize


def have_it(requests: list[Known]) -> int:
    """Return how many requests have what they waited for."""
    return sum(known.had_ns > 0 for known in requests)


async def others_until(holds: Callable[[], bool]) -> None:
    """Let other tasks run until something holds."""
    while not holds():  # noqa: ASYNC110 - they have no event for it
        await asyncio.sleep(0)


def with_threads(spans: Spans, held: Held) -> list[Known]:
    """Have each request served by a thread of its own."""
    requests = [Known() for _ in range(REQUESTS)]

    def endpoint(known: Known) -> None:
        known.trace_id = get_current_span().get_span_context().trace_id
        known.work(spans, Stage.PREPROCESS)
        known.asked_ns = monotonic_ns()
        held.take()
        has_it(held, known, spans)

    threads = [
        threading.Thread(target=serve_wsgi, args=(spans, partial(endpoint, one)))
        for one in requests
    ]
    for thread in threads:
        thread.start()
    until(lambda: held.waiters() == REQUESTS)
    seen_ns = monotonic_ns()
    for count in (1,) if held.give or held.at_once else range(1, REQUESTS + 1):
        pass_time()
        held.next_one(held.hand_on)
        until(lambda: have_it(requests) >= count)  # noqa: B023 - at once
    for thread in threads:
        thread.join(PATIENCE_S)
    return waited_since(seen_ns, held, requests)


async def on_a_loop(spans: Spans, make: Callable[[], Held]) -> list[Known]:
    """Have all requests served by one event loop."""
    held, requests = make(), [Known() for _ in range(REQUESTS)]

    async def endpoint(known: Known) -> None:
        known.trace_id = get_current_span().get_span_context().trace_id
        known.work(spans, Stage.PREPROCESS)
        known.asked_ns = monotonic_ns()
        await held.take()
        has_it(held, known, spans)

    tasks = [asyncio.create_task(serve(spans, partial(endpoint, one))) for one in requests]
    await others_until(lambda: held.waiters() == REQUESTS)
    seen_ns = monotonic_ns()
    for count in (1,) if held.give or held.at_once else range(1, REQUESTS + 1):
        pass_time()
        held.next_one(held.hand_on)
        await others_until(lambda: have_it(requests) >= count)  # noqa: B023 - at once
    await asyncio.gather(*tasks)
    return waited_since(seen_ns, held, requests)


def waited_since(seen_ns: int, held: Held, requests: list[Known]) -> list[Known]:
    """Note how long each request waited at least: all of them were seen to wait."""
    for place, known in enumerate(sorted(requests, key=lambda one: one.had_ns)):
        free_ns = held.free_ns[0 if held.at_once else place]
        known.least[Stage.QUEUE] += free_ns - seen_ns
    return requests


def ledger(spans: Spans, known: Known) -> Counter[Stage]:
    """Return what the service makes of a request."""
    trace = [one for one in spans.all if one.trace_id == known.trace_id]
    return Counter(requests_of(map(as_received, trace), {})[0].ledger)


def check(spans: Spans, requests: list[Known]) -> None:
    """Assert that nearly all time is in its stage, and that there was time to tell it by."""
    found = [ledger(spans, known) for known in requests]
    wrong_ns = sum(map(Known.wrong_ns, requests, found))
    assert wrong_ns <= WRONG_RATIO * sum(one.total() for one in found)
    assert all(known.least[Stage.QUEUE] >= STEP_NS for known in requests)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(partial(lock, threading.Lock), marks=COMPILED, id="lock"),
        pytest.param(partial(lock, threading.RLock), marks=COMPILED, id="reentrant lock"),
        semaphore,
        full_queue,
        event,
    ],
)
def test_threads_that_queue_have_their_time_in_its_stages(make: Callable[[], Held]) -> None:
    with hooked(ThreadingWaitsHook) as spans:
        requests = with_threads(spans, make())

    check(spans, requests)


@pytest.mark.parametrize(
    "make", [lock_of_asyncio, semaphore_of_asyncio, full_queue_of_asyncio, event_of_asyncio]
)
def test_tasks_that_queue_have_their_time_in_its_stages(make: Callable[[], Held]) -> None:
    with hooked(AsyncioWaitsHook) as spans:
        requests = asyncio.run(on_a_loop(spans, make))

    check(spans, requests)
