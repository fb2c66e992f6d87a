"""Requests that wait for semaphores, events and queues of Python's threads."""

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from sqlalchemy.pool import QueuePool

from latencytrace.agent.compiled.core import core
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.hooks.threading_waits import ThreadingWaitsHook
from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.waiting_requests import (
    AT_LEAST_NS,
    let_time_pass,
    results_ns,
    serve_wsgi,
    threads_in,
)
from tests.support.waiting import PATIENCE_S, until

COMPILED = pytest.mark.skipif(core is None, reason="only the compiled core sees it")
Waited = tuple[Callable[[], object], Callable[[], object], Callable[[], bool]]


def waiters(condition: threading.Condition) -> Callable[[], bool]:
    return lambda: bool(condition._waiters)  # type: ignore[attr-defined]


def lock(kind: Callable[[], Any] = threading.Lock) -> Waited:
    made = kind()
    made.acquire()

    def wait() -> None:
        with made:
            pass

    return wait, made.release, lambda: threads_in(wait) == 1


def reentrant_lock() -> Waited:
    return lock(threading.RLock)


def semaphore() -> Waited:
    made = threading.Semaphore(0)

    def wait() -> None:
        with made:
            pass

    return wait, made.release, waiters(made._cond)  # type: ignore[attr-defined]


def full_queue() -> Waited:
    made = queue.Queue[int](1)
    made.put(1)
    return lambda: made.put(2), made.get, waiters(made.not_full)


def event() -> Waited:
    made = threading.Event()
    return made.wait, made.set, waiters(made._cond)  # type: ignore[attr-defined]


def empty_queue() -> Waited:
    made = queue.Queue[int]()
    return made.get, lambda: made.put(1), waiters(made.not_empty)


def simple_queue() -> Waited:
    made = queue.SimpleQueue[int]()

    def wait() -> None:
        made.get()

    return wait, lambda: made.put(1), lambda: threads_in(wait) == 1


def simple_queue_with_a_limit() -> Waited:
    made = queue.SimpleQueue[int]()

    def wait() -> None:
        made.get(timeout=PATIENCE_S)

    return wait, lambda: made.put(1), lambda: threads_in(wait) == 1


def pool_of_sqlalchemy() -> Waited:
    made = QueuePool(lambda: sqlite3.connect(":memory:", check_same_thread=False), 1, 0)
    taken = made.connect()

    def wait() -> None:
        made.connect().close()
        made.dispose()  # Python 3.13 warns of a connection that nobody closes

    return wait, taken.close, waiters(made._pool.not_empty)


class Connection(redis.Connection):
    """Connects to nothing."""

    def connect(self) -> None:
        """Do as if there was a server."""

    def can_read(self, timeout: float = 0) -> bool:
        """Say that nothing has come."""
        return False


def pool_of_redis() -> Waited:
    make: Any = redis.BlockingConnectionPool  # untyped
    made = make(1, connection_class=Connection)
    taken = made.get_connection()

    def wait() -> None:
        made.release(made.get_connection())

    return wait, lambda: made.release(taken), waiters(made.pool.not_empty)


def waited(spans: Spans, made: Waited) -> None:
    """Have a request wait until its wait is long enough."""
    wait, release, is_waited_for = made

    thread = threading.Thread(target=serve_wsgi, args=(spans, wait))
    thread.start()
    until(is_waited_for)
    let_time_pass()
    release()
    thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(lock, "lock", marks=COMPILED),
        pytest.param(reentrant_lock, "rlock", marks=COMPILED),
        (semaphore, "semaphore"),
        (full_queue, "queue"),
        (pool_of_sqlalchemy, "queuepool"),
        (pool_of_redis, "blockingconnectionpool"),
    ],
)
def test_a_wait_for_room_is_a_span_that_says_where_it_was(
    make: Callable[[], Waited], kind: str
) -> None:
    with hooked(ThreadingWaitsHook) as spans:
        waited(spans, make())

    (wait,) = spans.of(Stage.QUEUE)
    (request,) = spans.of(None)
    assert wait.parent_id == request.span_id
    assert wait.ended_ns - wait.started_ns >= AT_LEAST_NS
    assert wait.name.startswith("test_threading_waits.py:")
    assert wait.name.endswith(f" {kind}")


@pytest.mark.parametrize(
    "make",
    [
        event,
        empty_queue,
        pytest.param(simple_queue, marks=COMPILED),
        pytest.param(simple_queue_with_a_limit, marks=COMPILED),
    ],
)
def test_a_wait_for_a_result_is_a_gap_that_the_request_s_own_work_may_fill(
    make: Callable[[], Waited],
) -> None:
    with hooked(ThreadingWaitsHook) as spans:
        waited(spans, make())

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) >= AT_LEAST_NS


def test_a_wait_for_the_work_of_a_pool_is_none_for_a_lock() -> None:
    future = Future[int]()

    with hooked(ThreadingWaitsHook) as spans:
        waited(
            spans,
            (future.result, lambda: future.set_result(1), waiters(future._condition)),
        )

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) == 0


@async_to_sync  # as Flask and Django do in a server of threads
async def async_view() -> None:
    let_time_pass()


def beside_a_worker() -> None:
    work = queue.Queue[int]()

    def take() -> None:
        work.get()

    thread = threading.Thread(target=take)  # begun with the first request, for all
    thread.start()
    until(waiters(work.not_empty))
    let_time_pass()
    work.put(1)
    thread.join()


@pytest.mark.parametrize("work", [async_view, beside_a_worker])
def test_what_goes_on_elsewhere_is_no_wait_of_the_request_s(work: Callable[[], object]) -> None:
    with hooked(ThreadingWaitsHook, ThreadsHook) as spans:
        serve_wsgi(spans, work)

    assert results_ns(spans) == 0


def test_a_wait_outside_of_requests_is_not_noted_and_returns_what_it_does() -> None:
    made = threading.Event()

    with hooked(ThreadingWaitsHook) as spans, ThreadPoolExecutor(1) as pool:
        assert made.wait(0.001) is False
        waiting = pool.submit(copy_context().run, made.wait, PATIENCE_S)
        made.set()
        assert waiting.result(PATIENCE_S) is True

    assert spans.all == []


@COMPILED
@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_lock_does_what_it_did_and_is_put_back(kind: Callable[[], Any]) -> None:
    before = dict(vars(type(kind())))

    with hooked(ThreadingWaitsHook) as spans, ThreadPoolExecutor(1) as pool:
        during = dict(vars(type(kind())))
        made = kind()
        with made:
            refused = [
                pool.submit(made.acquire, *given).result(PATIENCE_S)
                for given in [(False,), (True, 0.002), (1, 0)]
            ]
            with pytest.raises(ValueError, match="timeout"):
                made.acquire(0, 1)
            with pytest.raises(TypeError):
                made.acquire(1, 1, 2)
        given = pool.submit(made.acquire, timeout=PATIENCE_S).result(PATIENCE_S)
        with pytest.raises(TypeError):
            during["acquire"](object())

    assert refused == [False, False, False]
    assert given is True
    assert {name for name in before if before[name] is not during[name]} == {
        "acquire",
        "__enter__",
    }
    assert dict(vars(type(kind()))) == before
    assert spans.all == []


@COMPILED
def test_a_simple_queue_does_what_it_did_and_is_put_back() -> None:
    before = dict(vars(queue.SimpleQueue))

    with hooked(ThreadingWaitsHook) as spans:
        during = dict(vars(queue.SimpleQueue))
        made = queue.SimpleQueue[object]()
        for item in (False, None, 3):
            made.put(item)
        got = [made.get(), made.get(block=True), made.get(timeout=1)]
        for given in ({"block": False}, {"timeout": 0.002}, {"block": True, "timeout": 0.001}):
            with pytest.raises(queue.Empty):
                made.get(**given)
        with pytest.raises(queue.Empty):
            made.get_nowait()
        with pytest.raises(ValueError, match="non-negative"):
            made.get(timeout=-1)
        with pytest.raises(TypeError):
            during["get"](object())

    assert got == [False, None, 3]
    assert {name for name in before if before[name] is not during[name]} == {"get"}
    assert dict(vars(queue.SimpleQueue)) == before
    assert spans.all == []


@COMPILED
@pytest.mark.parametrize(
    ("kind", "name"),
    # A condition takes an `RLock` again unseen.
    [(threading.Lock, " lock held by GET"), (threading.RLock, " rlock")],
)
def test_the_request_that_has_a_lock_is_named(kind: Callable[[], Any], name: str) -> None:
    assert wait_beside_its_holder(kind(), others=()).endswith(name)


@COMPILED
def test_a_lock_s_holder_is_known_beside_locks_of_its_place_in_other_pools_of_memory() -> None:
    locks = [threading.Lock() for _ in range(20_000)]
    made, *others = (one for one in locks if (id(one) - id(locks[0])) % (16 << 10) == 0)

    assert wait_beside_its_holder(made, others[:3]).endswith(" lock held by GET")


def wait_beside_its_holder(made: Any, others: Iterable[Any]) -> str:
    """Have a request take a lock, then others, and name the wait of another for the first one."""
    has_it, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with made:
            for other in others:
                with other:
                    pass
            has_it.set()
            assert let_go.wait(PATIENCE_S)

    def wait() -> None:
        with made:
            pass

    with hooked(ThreadingWaitsHook) as spans:
        holder = threading.Thread(target=serve_wsgi, args=(spans, hold))
        holder.start()
        assert has_it.wait(PATIENCE_S)
        waited(spans, (wait, let_go.set, lambda: threads_in(wait) == 1))
        holder.join(PATIENCE_S)

    (wait_for_it,) = spans.of(Stage.QUEUE)
    return wait_for_it.name


def by_no_request(made: Any) -> Callable[[], None]:
    made.acquire()
    return made.release  # type: ignore[no-any-return]


def in_other_variables(made: Any) -> Callable[[], None]:
    """Be taken by a task of a thread that runs another by now."""
    copy_context().run(made.acquire)
    return made.release  # type: ignore[no-any-return]


@COMPILED
@pytest.mark.parametrize("take", [by_no_request, in_other_variables])
def test_who_has_a_lock_is_left_open_where_it_is_not_known(
    take: Callable[[Any], Callable[[], None]],
) -> None:
    made, has_it, let_go = threading.Lock(), threading.Event(), threading.Event()
    released: list[Callable[[], None]] = []

    def hold() -> None:
        has_it.set()
        assert let_go.wait(PATIENCE_S)
        released[0]()

    def wait() -> None:
        with made:
            pass

    def serve() -> None:
        released.append(take(made))
        if take is by_no_request:
            hold()
        else:
            serve_wsgi(spans, hold)

    with hooked(ThreadingWaitsHook) as spans:
        holder = threading.Thread(target=serve)
        holder.start()
        assert has_it.wait(PATIENCE_S)
        waited(spans, (wait, let_go.set, lambda: threads_in(wait) == 1))
        holder.join(PATIENCE_S)

    (wait_for_it,) = spans.of(Stage.QUEUE)
    assert wait_for_it.name.endswith(" lock")


@COMPILED
def test_a_wait_for_a_lock_is_recorded_once_its_request_ends() -> None:
    with hooked(ThreadingWaitsHook) as spans:
        wait, release, is_waited_for = lock()
        recorded: list[object] = []

        def endpoint() -> None:
            wait()
            recorded.extend(spans.all)

        waited(spans, (endpoint, release, is_waited_for))

    assert recorded == []
    assert len(spans.of(Stage.QUEUE)) == 1


class TakingALock(SpanProcessor):
    """Takes a lock of the program's own at the end of each span."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait

    def on_end(self, span: object) -> None:
        """Wait for the lock."""
        self._wait()


@COMPILED
def test_a_lock_that_a_processor_of_spans_waits_for_is_taken_once() -> None:
    wait, release, is_waited_for = lock()
    provider, spans = TracerProvider(), Spans()
    provider.add_span_processor(TakingALock(wait))
    spans.recorder = Recorder(provider.get_tracer("latencytrace"), raise_fault)

    def endpoint() -> None:
        spans.recorder.start("work", Stage.FORWARD).end()

    with hooked(ThreadingWaitsHook, spans=spans):
        thread = threading.Thread(target=serve_wsgi, args=(spans, endpoint), daemon=True)
        thread.start()
        until(is_waited_for)
        let_time_pass()
        release()
        thread.join(PATIENCE_S)

    assert not thread.is_alive()
