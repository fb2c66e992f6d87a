"""Requests that wait for locks, queues and connections of processes, among threads of one."""

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection, synchronize
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from latencytrace.agent.hooks import multiprocessing_waits
from latencytrace.agent.hooks.multiprocessing_pools import MultiprocessingPoolsHook
from latencytrace.agent.hooks.multiprocessing_waits import MultiprocessingWaitsHook
from latencytrace.agent.hooks.threading_waits import ThreadingWaitsHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.waiting_requests import (
    AT_LEAST_NS,
    frames_of_threads,
    let_time_pass,
    results_ns,
    serve_wsgi,
)
from tests.support.servers.command_line import environment
from tests.support.waiting import PATIENCE_S, until

SPAWN = multiprocessing.get_context("spawn")
# What waits, what ends that, and the function of the hook that is around it.
Waited = tuple[Callable[[], object], Callable[[], object], str]


def with_lock(kind: Callable[[], Any] = SPAWN.Lock) -> Waited:
    made = kind()
    made.acquire()

    def wait() -> None:
        with made:
            pass

    return wait, made.release, "__enter__"


def acquired_lock() -> Waited:
    made = SPAWN.Lock()
    made.acquire()

    def wait() -> None:
        made.acquire()

    return wait, made.release, "acquire"


def lock_with_a_limit() -> Waited:
    made = SPAWN.Lock()
    made.acquire()
    return lambda: made.acquire(timeout=PATIENCE_S), made.release, "acquire"


def semaphore() -> Waited:
    return with_lock(lambda: SPAWN.Semaphore(1))


def full_queue() -> Waited:
    made = SPAWN.Queue(1)
    made.put(1)
    return lambda: made.put(2), made.get, "acquire"


def lock_of_a_value() -> Waited:
    made = SPAWN.Value("i")
    lock = made.get_lock()
    lock.acquire()

    def wait() -> None:
        with made:
            pass

    return wait, lock.release, "__enter__"


def waited(spans: Spans, made: Waited) -> None:
    """Have a request wait until its wait is long enough."""
    wait, release, around = made
    thread = threading.Thread(target=serve_wsgi, args=(spans, wait))
    thread.start()
    until(lambda: has_begun(thread, around))
    let_time_pass()
    release()
    thread.join(PATIENCE_S)


def has_begun(thread: threading.Thread, around: str) -> bool:
    """Tell whether the hook has taken the time at which a thread's wait began."""
    frame = frames_of_threads().get(thread.ident or 0)
    while frame is not None:
        if frame.f_globals is vars(multiprocessing_waits) and frame.f_code.co_name == around:
            return "started_ns" in frame.f_locals
        frame = frame.f_back
    return False


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (with_lock, "lock"),
        (acquired_lock, "lock"),
        (lock_with_a_limit, "lock"),
        (semaphore, "semaphore"),
        (full_queue, "queue"),
        (lock_of_a_value, "rlock"),
    ],
)
def test_a_wait_for_room_is_a_span_that_says_where_it_was(
    make: Callable[[], Waited], kind: str
) -> None:
    with hooked(MultiprocessingWaitsHook, ThreadingWaitsHook) as spans:
        waited(spans, make())

    (wait,) = spans.of(Stage.QUEUE)
    (request,) = spans.of(None)
    assert wait.parent_id == request.span_id
    assert wait.ended_ns - wait.started_ns >= AT_LEAST_NS
    assert wait.name.startswith("test_multiprocessing_waits.py:")
    assert wait.name.endswith(f" {kind}")
    assert results_ns(spans) == 0


def empty_queue() -> Waited:
    made = SPAWN.Queue()
    return made.get, lambda: made.put(1), "waiting"


def empty_queue_with_a_limit() -> Waited:
    made = SPAWN.Queue()
    return lambda: made.get(timeout=PATIENCE_S), lambda: made.put(1), "waiting"


def queue_that_another_gets_from() -> Waited:
    made = SPAWN.SimpleQueue()
    threading.Thread(target=made.get, daemon=True).start()
    until(lambda: not made._rlock.acquire(block=False) or made._rlock.release())  # type: ignore[attr-defined]

    def put() -> None:
        made.put(1)
        made.put(2)

    return made.get, put, "__enter__"


def event() -> Waited:
    made = SPAWN.Event()
    return made.wait, made.set, "acquire"


def pipe() -> Waited:
    mine, theirs = SPAWN.Pipe()
    return mine.recv, lambda: theirs.send(1), "waiting"


def pipe_that_is_asked() -> Waited:
    mine, theirs = SPAWN.Pipe()
    return lambda: mine.poll(PATIENCE_S), lambda: theirs.send(1), "waiting"


def several_pipes() -> Waited:
    mine, theirs = SPAWN.Pipe()
    return lambda: connection.wait([mine], PATIENCE_S), lambda: theirs.send(1), "waiting"


@pytest.mark.parametrize(
    "make",
    [
        empty_queue,
        empty_queue_with_a_limit,
        queue_that_another_gets_from,
        event,
        pipe,
        pipe_that_is_asked,
        several_pipes,
    ],
)
def test_a_wait_for_what_another_process_does_is_a_gap(make: Callable[[], Waited]) -> None:
    with hooked(MultiprocessingWaitsHook, ThreadingWaitsHook) as spans:
        waited(spans, make())

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) >= AT_LEAST_NS


def test_a_wait_for_the_work_of_a_pool_is_none_for_its_queue() -> None:
    with hooked(MultiprocessingWaitsHook, MultiprocessingPoolsHook, ThreadingWaitsHook) as spans:
        serve_wsgi(spans, pooled)

    assert spans.of(Stage.QUEUE) == []
    assert results_ns(spans) == 0


def pooled() -> None:
    with ThreadPool(1) as pool:
        pool.apply(let_time_pass)


def echo(theirs: Any, lock: synchronize.Lock) -> None:
    """Send back what comes, from another process, with a lock that came to it by pickle."""
    with lock:
        theirs.send(theirs.recv())


def test_a_process_of_its_own_gets_what_it_did() -> None:
    with hooked(MultiprocessingWaitsHook) as spans:
        mine, theirs = SPAWN.Pipe()
        lock = SPAWN.Lock()
        process = SPAWN.Process(target=echo, args=(theirs, lock))
        process.start()

        def endpoint() -> None:
            mine.send("said")
            assert mine.recv() == "said"

        serve_wsgi(spans, endpoint)
        process.join(PATIENCE_S)

    assert process.exitcode == 0
    assert results_ns(spans) >= AT_LEAST_NS  # a process takes as long to begin
    assert lock.acquire(block=False)


def test_a_lock_does_what_it_did() -> None:
    with hooked(MultiprocessingWaitsHook) as spans:
        made, again = SPAWN.Lock(), SPAWN.RLock()
        with made, again, again:
            refused = made.acquire(0), made.acquire(block=False), made.acquire(timeout=0.002)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            made.acquire(1, None, 1)  # type: ignore[call-arg, arg-type]
        with pytest.raises(ValueError, match="too many"):
            made.release()

    assert refused == (False, False, False)
    assert spans.all == []
    assert synchronize.SemLock.__enter__.__module__ == "multiprocessing.synchronize"


def test_what_is_patched_takes_the_names_that_it_took() -> None:
    ours, theirs = multiprocessing.Pipe()
    theirs.send(1)

    with hooked(MultiprocessingWaitsHook):
        ready = [
            connection.wait([ours], timeout=PATIENCE_S),
            connection.wait(object_list=[ours], timeout=0),
        ]
        read = ours._recv_bytes(maxsize=None).getvalue()  # type: ignore[attr-defined]
        made = SPAWN.Lock()
        taken = [made.acquire(block=True, timeout=None), made.acquire(block=False)]

    assert ready == [[ours], [ours]]
    assert read
    assert taken == [True, False]


def test_a_pool_of_processes_that_is_imported_afterwards_comes_to_its_end() -> None:
    script = (
        "import latencytrace; latencytrace.instrument()\n"
        "from multiprocessing import get_context\n"
        "pool = get_context('fork').Pool(2)\n"
        "print(pool.map(abs, [-1, 2]))\n"
        "pool.close(); pool.join()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment(LATENCYTRACE_ENDPOINT="http://127.0.0.1:9"),
    )
    assert done.stdout == "[1, 2]\n", done.stderr
    assert "Traceback" not in done.stderr
