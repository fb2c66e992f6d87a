"""How long a thread could run and did not, as Linux tells it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.processor_waits import ProcessorWaits, Reading
from latencytrace.agent.timing.runtime_gaps import RuntimeGaps
from latencytrace.model import semconv

pytestmark = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="the kernel tells nothing"
)


def files() -> set[int]:
    """The numbers of the schedulers' files that this process has open."""
    return {int(one.name) for one in Path("/proc/self/fd").iterdir() if _is_of_scheduler(one)}


def _is_of_scheduler(link: Path) -> bool:
    try:
        return str(link.readlink()).endswith("schedstat")
    except OSError:  # of the folder that is listed
        return False


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be held")
def test_a_thread_that_shares_its_processor_is_seen_to_wait() -> None:
    waits, before = ProcessorWaits(), os.sched_getaffinity(0)
    one = min(before)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {one})
        os.sched_setaffinity(0, {one})
        since = waits.read()
        while not waits.waited_ns(since):
            pass
    finally:
        os.sched_setaffinity(0, before)
        busy.kill()
        busy.wait()
        waits.reset_after_fork()


def test_a_file_is_opened_once_a_thread_and_closed_in_a_forked_child() -> None:
    waits = ProcessorWaits()
    before = files()

    readings = [waits.read() for _ in range(3)]

    assert None not in readings
    assert len(files() - before) == 1
    waits.reset_after_fork()
    assert files() == before


def test_another_threads_reading_says_nothing() -> None:
    waits, found = ProcessorWaits(), []
    thread = threading.Thread(target=lambda: found.append(waits.read()))
    thread.start()
    thread.join()

    assert found[0] is not None
    assert waits.waited_ns(found[0]) == 0
    waits.reset_after_fork()


def test_threads_that_come_and_go_leave_few_files() -> None:
    waits, before = ProcessorWaits(), files()
    gate = threading.Barrier(71)
    threads = [
        threading.Thread(target=lambda: (waits.read(), gate.wait(), gate.wait()))
        for _ in range(70)
    ]
    for thread in threads:
        thread.start()
    gate.wait()

    assert len(files() - before) <= 64
    gate.wait()
    for thread in threads:
        thread.join()
    waits.reset_after_fork()
    assert files() == before


def test_a_file_of_the_programs_with_the_number_of_a_closed_one_stays_open(tmp_path: Path) -> None:
    waits, before = ProcessorWaits(), files()
    since = waits.read()
    (number,) = files() - before
    mine = tmp_path / "mine"
    mine.write_text("1 2 3 4 no file of a scheduler")
    os.close(number)  # as a daemon closes all
    opened = os.open(mine, os.O_RDONLY)
    assert opened == number

    assert waits.waited_ns(since) == 0
    waits.reset_after_fork()

    assert os.read(opened, 7) == b"1 2 3 4"  # neither closed nor read on
    os.close(opened)
    assert waits.read() is not None
    waits.reset_after_fork()


def test_a_closed_files_number_is_not_read_in_another_threads_place() -> None:
    waits, before = ProcessorWaits(), files()
    since = waits.read()
    (number,) = files() - before
    gate, opened = threading.Event(), threading.Event()

    def other() -> None:
        waits.read()
        opened.set()
        gate.wait()

    os.close(number)  # as a daemon closes all
    thread = threading.Thread(target=other)
    thread.start()
    opened.wait()
    assert files() - before == {number}  # the other thread's by now

    now = waits.read()

    assert since is not None
    assert now is not None
    assert len(files() - before) == 2  # one of each thread
    gate.set()
    thread.join()
    waits.reset_after_fork()
    assert files() == before


def test_a_file_that_cannot_be_read_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, before = ProcessorWaits(), files()

    def refused(number: int, length: int) -> bytes:
        raise PermissionError(number, length)

    monkeypatch.setattr(os, "read", refused)

    assert waits.read() is None
    assert waits.read() is None
    assert files() == before


class Waited(ProcessorWaits):
    """Says that every thread has waited."""

    __slots__ = ()

    def waited_ns(self, before: Reading | None) -> int:
        return 5_000_000


def test_waits_of_a_loops_thread_are_not_those_of_work_on_a_pool() -> None:
    on_loop, on_pool = RuntimeGaps(1, Waited()), RuntimeGaps(1, Waited())
    on_pool.queued_behind(0)

    ours, theirs = (one.described(0, IntervalRecorder()) for one in (on_loop, on_pool))

    assert ours[semconv.PROCESSOR_WAIT_NS] == 5_000_000
    assert semconv.PROCESSOR_WAIT_NS not in theirs
