"""How long a thread could run and did not: other threads had the processors (Linux's schedstat).

And whether it waited for pages of memory to be read (`getrusage`).

A thread's file is opened once and kept, so that a reading costs one call of the kernel. A program
may close files that are not its own, as daemons do, and its next file gets the number: what is
read is checked, and a file is closed only if it is still the one that was opened.
"""

import os
import sys
from collections import deque
from contextlib import suppress
from operator import sub
from typing import Final

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
_FRESH_NS: Final = 10_000_000
_LIKELY_NS: Final = 250_000_000  # after a wait others are likely, and looked for


class _File:
    """The file of a thread, what tells it from others of its number, and its last readings."""

    __slots__ = ("faults", "identity", "number", "readings")

    def __init__(self, number: int, waited_ns: int) -> None:
        self.number = number
        self.identity = _identity(number)
        self.readings = deque([(monotonic_ns(), waited_ns)], _KEPT)
        self.faults = _faults()


class ProcessorWaits:
    """Reads the files of threads.

    Args:
        path: Of the current thread's file.
    """

    __slots__ = ("_files", "_lock", "_path", "due_ns", "likely_by_ns")

    def __init__(self, path: str = _PATH) -> None:
        self._path = path
        self._files: dict[int, _File] | None = {}  # by thread; None: the kernel has none
        self._lock = RLock()
        self.likely_by_ns = 0  # until then some thread is likely to wait again: monotonic
        self.due_ns = 0  # when `follow` reads next, if no wait is likely

    def follow(self, now_ns: int) -> None:
        """Read this thread's file where its last reading may be too old to tell from.

        That is once in ten milliseconds, whichever thread asks, and while waits are likely,
        unless it was read within the last one. So it costs nothing on a machine at rest.
        """
        if self.due_ns <= now_ns or now_ns < self.likely_by_ns:
            self.due_ns = now_ns + _FRESH_NS
            file = None if self._files is None else self._files.get(get_ident())
            if file is None or now_ns - file.readings[-1][0] >= _NOTICED_NS:
                self.read()

    def waited_since(self, since_ns: int) -> tuple[int, int]:
        """Return how long this thread has waited since a monotonic time: at least, and at most.

        What it waited between a reading and that time may have been before or behind it. (0, 0):
        there was no reading, or the kernel tells nothing.
        """
        file = None if self._files is None else self._files.get(get_ident())
        now_ns = self.read()
        if file is None or now_ns is None:
            return 0, 0
        readings = tuple(file.readings)[:-1]
        behind = sum(read_ns <= since_ns for read_ns, _ in readings)
        around = readings[max(behind - 1, 0) : behind + 1]
        waited_ns = [max(now_ns - before_ns, 0) for _, before_ns in around]
        outside_ns = [max(since_ns - read_ns, 0) for read_ns, _ in around]
        most_ns = max(waited_ns, default=0)
        if most_ns >= _NOTICED_NS:
            self.likely_by_ns = monotonic_ns() + _LIKELY_NS
        return max((0, *map(sub, waited_ns, outside_ns))), most_ns

    def paged_in(self) -> bool:
        """Tell whether this thread has waited for memory to be read since this was asked last."""
        file = None if self._files is None else self._files.get(get_ident())
        if file is None:
            return False
        before, file.faults = file.faults, _faults()
        return file.faults > before

    def reset_after_fork(self) -> None:
        """In a forked child: its threads are others."""
        self._lock, self.likely_by_ns, self.due_ns = RLock(), 0, 0
        for thread in tuple(self._files or ()):
            self._close(thread)

    def read(self) -> int | None:
        """Return how long this thread has waited in all; None: the kernel tells nothing."""
        files = self._files  # another thread may find that the kernel tells nothing
        if files is None:
            return None
        thread = get_ident()
        file = files.get(thread)
        if file is not None:
            with suppress(OSError):  # of a thread that has ended, or not ours any more
                waited_ns = _waited_ns(os.pread(file.number, _LONGEST, 0))
                if waited_ns is not None:
                    file.readings.append((monotonic_ns(), waited_ns))
                    return waited_ns
            self._close(thread)
        return self._opened(thread)

    def _opened(self, thread: int) -> int | None:
        if not self._has_room():
            return None
        try:
            number = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            if not self._files:
                self._files = None
            return None
        try:
            text = os.pread(number, _LONGEST, 0)
        except OSError:  # where it may be opened, and not be read
            text = b""
        with self._lock:
            waited_ns = _waited_ns(text)
            if self._files is None or waited_ns is None:
                self._files = None
                os.close(number)
                return None
            # One of this number was closed by the program: it would be read in another's place.
            for other in [one for one, file in self._files.items() if file.number == number]:
                del self._files[other]
            self._files[thread] = _File(number, waited_ns)
        return waited_ns

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


PROCESSOR_WAITS: Final = ProcessorWaits()  # of this process: a thread has one file


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
