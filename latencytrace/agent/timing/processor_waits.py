"""How long a thread could run and did not: other threads had the processors (Linux's schedstat).

And whether it waited for pages of memory to be read (`getrusage`).

A thread's file is opened once and kept, so that a reading costs one call of the kernel. A program
may close files that are not its own, as daemons do, and its next file gets the number: what is
read is checked, and a file is closed only if it is still the one that was opened.
"""

import os
import sys
from collections import deque
from operator import sub
from typing import Final, NamedTuple

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.native import RLock, get_ident

if sys.platform != "win32":
    import resource

_PATH: Final = "/proc/thread-self/schedstat"
_MOST_FILES: Final = 128  # of threads that serve; what others waited is not known
_NUMBERS: Final = 3  # the time it ran, the time it waited, how often it ran
_LONGEST: Final = 64
_KEPT: Final = 8  # readings of a thread
_NOTICED_NS: Final = 1_000_000
_LIKELY_NS: Final = 250_000_000  # after a wait others are likely, and looked for


class _File:
    """The file of a thread, what tells it from others of its number, and its last readings."""

    __slots__ = ("faults", "identity", "number", "readings")

    def __init__(self, number: int, text: bytes) -> None:
        self.number = number
        self.identity = _identity(number)
        self.readings = deque([(monotonic_ns(), text)], _KEPT)
        self.faults = _faults()


class Reading(NamedTuple):
    """A thread's schedstat at a moment."""

    thread: int
    text: bytes


class ProcessorWaits:
    """Reads the files of threads.

    Args:
        path: Of the current thread's file.
    """

    __slots__ = ("_files", "_lock", "_path", "likely_by_ns")

    def __init__(self, path: str = _PATH) -> None:
        self._path = path
        self._files: dict[int, _File] | None = {}  # by thread; None: the kernel has none
        self._lock = RLock()
        self.likely_by_ns = 0  # until then some thread is likely to wait again: monotonic

    def read(self) -> Reading | None:
        """Read this thread's; None: the kernel tells nothing."""
        files = self._files  # another thread may find that the kernel tells nothing
        if files is None:
            return None
        thread = get_ident()
        file = files.get(thread)
        if file is not None:
            try:
                text = os.pread(file.number, _LONGEST, 0)
                file.readings.append((monotonic_ns(), text))
                return Reading(thread, text)
            except OSError:  # of a thread that has ended, or not ours any more
                self._close(thread)
        return self._opened(thread)

    def waited_ns(self, before: Reading | None) -> int:
        """How long this thread has waited since a reading; 0 where that is not known."""
        if before is None or before.thread != get_ident():
            return 0
        now = self.read()
        earlier_ns = _waited_ns(before.text)
        later_ns = None if now is None else _waited_ns(now.text)
        if earlier_ns is None or later_ns is None:
            self._close(before.thread)  # it is no such file any more
            return 0
        waited_ns = max(later_ns - earlier_ns, 0)
        if waited_ns >= _NOTICED_NS:
            self.likely_by_ns = monotonic_ns() + _LIKELY_NS
        return waited_ns

    def waited_since(self, since_ns: int) -> tuple[int, int]:
        """Return how long this thread has waited since a monotonic time: at least, and at most.

        What it waited between a reading and that time may have been before or behind it.
        """
        thread, files = get_ident(), self._files
        file = None if files is None else files.get(thread)
        if file is None:
            self.read()
            return 0, 0
        readings = tuple(file.readings)
        behind = sum(read_ns <= since_ns for read_ns, _ in readings)
        around = readings[max(behind - 1, 0) : behind + 1]
        waited_ns = [self.waited_ns(Reading(thread, text)) for _, text in around]
        outside_ns = [max(since_ns - read_ns, 0) for read_ns, _ in around]
        return max(0, *map(sub, waited_ns, outside_ns)), max(waited_ns)

    def follow(self, now_ns: int) -> None:
        """Read this thread's again if waits are likely, unless it was read just now."""
        if now_ns >= self.likely_by_ns:
            return
        file = None if self._files is None else self._files.get(get_ident())
        if file is None or now_ns - file.readings[-1][0] >= _NOTICED_NS:
            self.read()

    def paged_in(self) -> bool:
        """Tell whether this thread has waited for memory to be read since this was asked last."""
        file = None if self._files is None else self._files.get(get_ident())
        if file is None:
            return False
        before, file.faults = file.faults, _faults()
        return file.faults > before

    def reset_after_fork(self) -> None:
        """In a forked child: its threads are others."""
        self._lock, self.likely_by_ns = RLock(), 0
        for thread in tuple(self._files or ()):
            self._close(thread)

    def _opened(self, thread: int) -> Reading | None:
        if not self._has_room():
            return None
        try:
            number = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            if not self._files:
                self._files = None
            return None
        try:
            text = os.read(number, _LONGEST)
        except OSError:  # where it may be opened, and not be read
            text = b""
        with self._lock:
            if self._files is None or _waited_ns(text) is None:
                self._files = None
                os.close(number)
                return None
            # One of this number was closed by the program: it would be read in another's place.
            for other in [one for one, file in self._files.items() if file.number == number]:
                del self._files[other]
            self._files[thread] = _File(number, text)
        return Reading(thread, text)

    def _has_room(self) -> bool:
        """Make sure that one more file may be open: one of them may be of a thread that ended."""
        with self._lock:
            if self._files is None or len(self._files) < _MOST_FILES:
                return self._files is not None
            thread, file = next(iter(self._files.items()))
            try:
                os.pread(file.number, _LONGEST, 0)
            except OSError:
                self._close(thread)
                return True
            self._files[thread] = self._files.pop(thread)  # another is looked at next
            return False

    def _close(self, thread: int) -> None:
        """Let go of a thread's file, if it has one."""
        with self._lock:
            file = None if self._files is None else self._files.pop(thread, None)
            if file is None:
                return
            try:
                if _identity(file.number) == file.identity:
                    os.close(file.number)
            except OSError:  # the program has closed it
                return


PROCESSOR_WAITS: Final = ProcessorWaits()  # of this process: threads have one file, whoever asks


def _identity(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def _faults() -> int:
    """This thread's major page faults so far: swapped out, or of a file that is mapped."""
    if sys.platform != "linux":  # where no thread has a file either
        return 0
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


def _waited_ns(text: bytes) -> int | None:
    """The time it waited, of a line; None: it is no such line."""
    words = text.split()
    try:
        return int(words[1]) if len(words) == _NUMBERS else None
    except ValueError:
        return None
