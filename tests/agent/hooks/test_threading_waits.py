"""Requests that wait for semaphores, events and queues of Python's threads."""

import queue
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
import redis
from sqlalchemy.pool import QueuePool

from latencytrace.agent.compiled.core import core
from latencytrace.agent.hooks.threading_waits import ThreadingWaitsHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.waiting_requests import AT_LEAST_NS, let_time_pass, results_ns, serve_wsgi
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

    def is_waited_for() -> bool:
        """Whether a thread is in the lock's own code: it lets others run nowhere else there."""
        at = [one for one in sys._current_frames().values() if one.f_code is wait.__code__]
        return [one.f_lineno for one in at] == [wait.__code__.co_firstlineno + 1]

    return wait, made.release, is_waited_for


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


@pytest.mark.parametrize("make", [event, empty_queue])
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


def test_a_wait_outside_of_requests_is_not_noted_and_returns_what_it_does() -> None:
    made = threading.Event()

    with hooked(ThreadingWaitsHook) as spans, ThreadPoolExecutor(1) as pool:
        assert made.wait(0.001) is False
        waiting = pool.submit(copy_context().run, made.wait, PATIENCE_S)
        made.set()
        assert waiting.result(PATIENCE_S) is True

    assert spans.all == []
