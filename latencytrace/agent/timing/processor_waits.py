"""How long a thread could run and did not: other threads had the processors (Linux's schedstat).

A thread's file is opened once and kept, so that a reading costs one call of the kernel. A program
may close files that are not its own, as daemons do, and its next file gets the number: what is
read is checked, and a file is closed only if it is still the one that was opened.
"""

import os
from typing import Final, NamedTuple

from latencytrace.agent.native import RLock, get_ident

_PATH: Final = "/proc/thread-self/schedstat"
_MOST_FILES: Final = 64  # of threads that serve; beyond them the oldest is closed
_NUMBERS: Final = 3  # the time it ran, the time it waited, how often it ran
_LONGEST: Final = 64


class _File(NamedTuple):
    """The file of a thread, and what tells it from others of its number."""

    number: int
    identity: tuple[int, int]


class Reading(NamedTuple):
    """A thread's schedstat at a moment."""

    thread: int
    text: bytes


class ProcessorWaits:
    """Reads the files of threads."""

    __slots__ = ("_files", "_lock")

    def __init__(self) -> None:
        self._files: dict[int, _File] | None = {}  # by thread; None: the kernel has none
        self._lock = RLock()

    def read(self) -> Reading | None:
        """Read this thread's; None: the kernel tells nothing."""
        files = self._files  # another thread may find that the kernel tells nothing
        if files is None:
            return None
        thread = get_ident()
        file = files.get(thread)
        if file is not None:
            try:
                return Reading(thread, os.pread(file.number, _LONGEST, 0))
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
        return max(later_ns - earlier_ns, 0)

    def reset_after_fork(self) -> None:
        """In a forked child: its threads are others."""
        self._lock = RLock()
        for thread in tuple(self._files or ()):
            self._close(thread)

    def _opened(self, thread: int) -> Reading | None:
        try:
            number = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)
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
            while len(self._files) >= _MOST_FILES:
                self._close(next(iter(self._files)))
            self._files[thread] = _File(number, _identity(number))
        return Reading(thread, text)

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


def _waited_ns(text: bytes) -> int | None:
    """The time it waited, of a line; None: it is no such line."""
    words = text.split()
    try:
        return int(words[1]) if len(words) == _NUMBERS else None
    except ValueError:
        return None
