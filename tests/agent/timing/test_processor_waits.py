"""How long a thread could run and did not, as Linux tells it."""

import mmap
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.processor_waits import ProcessorWaits
from latencytrace.agent.timing.runtime_gaps import RuntimeGaps
from latencytrace.model import semconv
from tests.support.agent.told_schedstat import ToldSchedstat
from tests.support.waiting import until

MS = 1_000_000
MOST_FILES = 128

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
        before_ns = waits.read()
        while waits.read() == before_ns:
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


def test_of_more_threads_the_first_have_files_until_they_end() -> None:
    waits, before = ProcessorWaits(), files()
    found = list[int | None]()
    at_work = threading.Barrier(MOST_FILES + 1)

    def serve() -> None:
        found.append(waits.read())
        at_work.wait()
        at_work.wait()

    threads = [threading.Thread(target=serve) for _ in range(MOST_FILES)]
    for thread in threads:
        thread.start()
    at_work.wait()

    assert len(files() - before) == MOST_FILES
    assert None not in found
    assert waits.read() is None  # this thread's would be one more
    at_work.wait()
    for thread in threads:
        thread.join()
    until(lambda: waits.read() is not None)  # once the kernel has seen one of them end
    assert len(files() - before) == MOST_FILES  # in the place of one that has ended
    waits.reset_after_fork()
    assert files() == before


def test_what_a_thread_waited_since_a_time_is_what_it_cannot_have_waited_before(
    tmp_path: Path,
) -> None:
    told = ToldSchedstat(tmp_path)
    waits = ProcessorWaits(told.path)
    assert waits.waited_since(0) == (0, 0)  # for the first time
    began_ns = monotonic_ns()

    told.wait(5 * MS)
    waits.read()  # as a request does at its end
    told.wait(3 * MS)

    assert waits.waited_since(began_ns - 10**12) == (8 * MS, 8 * MS)
    told.wait(3 * MS)
    least_ns, most_ns = waits.waited_since(monotonic_ns() + 2 * MS)
    assert least_ns <= MS  # it may have waited before
    assert most_ns == 3 * MS
    waits.reset_after_fork()


def test_only_where_waits_are_likely_a_thread_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, reads, pread = ToldSchedstat(tmp_path), list[int](), os.pread

    def counted(number: int, length: int, offset: int) -> bytes:
        reads.append(number)
        return pread(number, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    waits = ProcessorWaits(told.path)
    began_ns = monotonic_ns()
    waits.follow(began_ns)  # it is opened at first
    told.wait(MS - 1)
    assert waits.waited_since(began_ns)[1] == MS - 1
    assert (waits.likely_by_ns, len(reads)) == (0, 2)
    told.wait(1)
    assert waits.waited_since(began_ns)[1] == MS
    assert len(reads) == 3

    waits.follow(waits.due_ns - 1 if waits.due_ns > waits.likely_by_ns else waits.likely_by_ns)
    waits.follow(waits.likely_by_ns - 1)
    assert len(reads) == 5
    waits.follow(waits.likely_by_ns - 250 * MS)  # just now
    assert len(reads) == 5
    waits.reset_after_fork()


def test_at_rest_a_thread_is_read_once_in_ten_milliseconds(tmp_path: Path) -> None:
    waits, thread = ProcessorWaits(ToldSchedstat(tmp_path).path), threading.get_ident()
    now_ns = monotonic_ns()

    for after_ms in range(0, 100, 2):
        waits.follow(now_ns + after_ms * MS)

    files_now = waits._files
    assert files_now is not None
    assert len(files_now[thread].readings) <= 8
    assert waits.due_ns == now_ns + 100 * MS
    waits.reset_after_fork()


def test_a_file_of_the_programs_with_the_number_of_a_closed_one_stays_open(tmp_path: Path) -> None:
    waits, before = ProcessorWaits(), files()
    before_ns = monotonic_ns()
    waits.read()
    (number,) = files() - before
    mine = tmp_path / "mine"
    mine.write_text("1 2 3 4 no file of a scheduler")
    os.close(number)  # as a daemon closes all
    opened = os.open(mine, os.O_RDONLY)
    assert opened == number

    assert waits.waited_since(before_ns) == (0, 0)
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

    def refused(number: int, length: int, offset: int) -> bytes:
        raise PermissionError(number, length, offset)

    monkeypatch.setattr(os, "pread", refused)

    assert waits.read() is None
    assert waits.read() is None
    assert files() == before


class Told(ProcessorWaits):
    """Says that a thread has waited as a test says."""

    __slots__ = ("next_ns",)
    next_ns: int

    def waited_since(self, since_ns: int) -> tuple[int, int]:
        return self.next_ns, self.next_ns


class Waited(ProcessorWaits):
    """Says that every thread has waited."""

    __slots__ = ()

    def waited_since(self, since_ns: int) -> tuple[int, int]:
        return 5_000_000, 5_000_000


def test_waits_of_a_loops_thread_are_not_those_of_work_on_a_pool() -> None:
    on_loop, on_pool = RuntimeGaps(1, Waited()), RuntimeGaps(1, Waited())
    on_pool.queued_behind(0)

    ours, theirs = (one.described(0, IntervalRecorder()) for one in (on_loop, on_pool))

    assert ours[semconv.PROCESSOR_WAIT_NS] == 5_000_000
    assert semconv.PROCESSOR_WAIT_NS not in theirs


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(2, 50), st.integers(0, 100)), max_size=8)
)
def test_waits_of_work_on_pools_are_not_longer_than_their_threads_waited_in_all(
    works: list[tuple[int, int, int]],
) -> None:
    """Each work: when it began and how long it took, in ms; the share of it that was a wait."""
    waiting, ended = set[int](), sorted(works, key=lambda work: work[0] + work[1])
    gaps = RuntimeGaps(1, processor := Told())
    gaps.queued_behind(0)
    for began, took, percent in ended:
        waited = took * percent // 100
        waiting |= set(range(began, began + waited))  # as if all waits came first
        processor.next_ns = waited * MS
        gaps.worked(began * MS)
        gaps.returned_ns = (began + took) * MS

    told_ns = int(str(gaps.described(0, IntervalRecorder()).get(semconv.PROCESSOR_WAIT_NS, 0)))

    assert told_ns <= len(waiting) * MS
    assert told_ns >= max((took * percent // 100 for _, took, percent in works), default=0) * MS


def read_in(folder: Path) -> bool:
    """Read a page of a file that is not in memory; False: it is there all the same."""
    size, before = 1 << 20, resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
    with (folder / "weights").open("w+b") as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            assert sum(pages[at] for at in range(0, size, mmap.PAGESIZE)) == 0
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt > before


def test_a_thread_that_waits_for_memory_to_be_read_says_so_once(tmp_path: Path) -> None:
    waits = ProcessorWaits()
    waits.read()
    gaps = RuntimeGaps(1, waits)
    waits.paged_in()
    if not read_in(tmp_path):
        pytest.skip("the kernel keeps it in memory")

    first, again = (gaps.described(0, IntervalRecorder()) for _ in range(2))

    assert first[semconv.PAGED_IN] is True
    assert semconv.PAGED_IN not in again
    waits.reset_after_fork()
