"""Keeps the service small next to the programs on its machine: priority and memory."""

import ctypes
import mmap
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

NICENESS: Final = 10
MUCH_SPANS: Final = 100_000  # attributed spans after which memory is returned
MUCH_CODE: Final = 96 << 20  # bytes of code loaded since the last time, to be returned
LOOK_NS: Final = 5_000_000_000  # between two checks of that

_MAPS: Final = Path("/proc/self/smaps")
_PAGES: Final = Path("/proc/self/statm")  # of the process; the third number: of files
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(.*)")
_LIBRARY: Final = re.compile(r"\.so(?:\.[0-9.]+)?$")


def yield_to_others() -> None:
    """Give this thread a low priority, for CPU and disk.

    Where the system has no priorities of threads, nothing changes.
    """
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class FreedMemory:
    """Returns memory to the system that the C library keeps after it was freed."""

    def __init__(self) -> None:
        self._spans = 0  # attributed since the last time

    def after(self, spans: int) -> None:
        """Return it once there is no more work: some 250 MB, in a tenth of a second.

        Where the C library is not glibc, nothing changes.

        Args:
            spans: Number of spans attributed since the last call.
        """
        self._spans += spans
        if self._spans >= MUCH_SPANS and not spans:
            self._spans = 0
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)


def bytes_of_files() -> int:
    """Return how much of files is in the memory of this process.

    Raises:
        OSError: The system does not tell.
    """
    return int(_PAGES.read_text().split()[2]) * mmap.PAGESIZE


def unchanged_code(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the address ranges of libraries' code that is unchanged in memory.

    Args:
        lines: Lines of `/proc/PID/smaps`.

    Yields:
        First address, and the one after the last.
    """
    mapping: tuple[int, int] | None = None  # read-only, of a library
    for line in lines:
        if found := _MAPPING.match(line):
            start, end, rights, path = found.groups()
            is_code = "w" not in rights and rights[3] == "p" and _LIBRARY.search(path)
            mapping = (int(start, 16), int(end, 16)) if is_code else None
        elif mapping is not None and line.startswith("Anonymous:"):
            if int(line.split()[1]) == 0:  # no page was changed, as by the loader or a debugger
                yield mapping
            mapping = None


def give_back_code() -> None:
    """Drop libraries' code from this process's memory; it is loaded again when called.

    Raises:
        OSError: The system does not tell what is mapped.
    """
    madvise = ctypes.CDLL(None).madvise
    with _MAPS.open() as lines:
        found = list(unchanged_code(lines))
    for start, end in found:
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


class UnusedCode:
    """Drops code of libraries that is used only once, as while the engine starts.

    It counts as memory of this process, 200 to 270 MB, of which a working service needs a tenth.
    It stays in the page cache, so that calling it again takes a microsecond. Only on Linux.

    Args:
        in_use: Returns the bytes of files in the memory of this process.
        now_ns: A monotonic clock.
    """

    def __init__(
        self,
        in_use: Callable[[], int] = bytes_of_files,
        give_back: Callable[[], None] = give_back_code,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._in_use = in_use
        self._give_back = give_back
        self._now_ns = now_ns
        self._left = 0  # bytes in use after the last time
        self._last_ns: int | None = None  # time of the last check

    def look(self) -> None:
        """Drop the code if `MUCH_CODE` was loaded since the last time."""
        now_ns = self._now_ns()
        if self._last_ns is not None and now_ns - self._last_ns < LOOK_NS:
            return
        self._last_ns = now_ns
        with suppress(OSError, AttributeError):
            if self._in_use() - self._left >= MUCH_CODE:
                self._give_back()
                self._left = self._in_use()
