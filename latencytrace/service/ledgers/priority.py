"""The service beside the programs that it shares a machine with: its priority, and its memory."""

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
MUCH_SPANS: Final = 100_000  # after which memory is given back
MUCH_CODE: Final = 96 << 20  # bytes that came to be in use, after which code is given back
LOOK_NS: Final = 5_000_000_000  # between two looks at what is in use

_MAPS: Final = Path("/proc/self/smaps")
_PAGES: Final = Path("/proc/self/statm")  # of the process; the third number: of files
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(.*)")
_LIBRARY: Final = re.compile(r"\.so(?:\.[0-9.]+)?$")


def yield_to_others() -> None:
    """Give this thread a low priority: its processor time, and with it that of its disk.

    What it waits for itself, such as a disk that somebody else keeps busy, it waits for longer.
    Where the system knows no priority of a thread, nothing changes.
    """
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class FreedMemory:
    """Memory that was freed after much work, and that the C library keeps."""

    def __init__(self) -> None:
        self._spans = 0  # since it was given back

    def after(self, spans: int) -> None:
        """Give it back once there is no more work: some 250 MB, in a tenth of a second.

        It lies between what is still used. Where the C library is not glibc, nothing changes.

        Args:
            spans: That were attributed since the last call.
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
    """Find what is mapped of libraries and is as in their files, to the last page.

    Args:
        lines: Of `/proc/PID/smaps`.

    Returns:
        Its first address, and the one behind its last.
    """
    mapping: tuple[int, int] | None = None  # of a library, and not to be written
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
    """Take libraries' code out of this process's memory; it is read again where it is called.

    Raises:
        OSError: The system does not tell what is mapped.
    """
    madvise = ctypes.CDLL(None).madvise
    with _MAPS.open() as lines:
        found = list(unchanged_code(lines))
    for start, end in found:
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


class UnusedCode:
    """Code of libraries that was read once: the engine's start, and the compiler.

    It counts as memory of this process, 200 to 270 MB, of which a service at work needs a tenth.
    Given back, it stays in the system's cache of files: what is called again is there within a
    microsecond. Where the system is not Linux, nothing changes.

    Args:
        in_use: Bytes of files in the memory of this process.
        give_back: Gives back the code.
        now_ns: A clock that is never set back.
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
        self._left = 0  # in use after the last time
        self._last_ns: int | None = None  # when it was looked

    def look(self) -> None:
        """Give it back where much has come to be in use since the last time."""
        now_ns = self._now_ns()
        if self._last_ns is not None and now_ns - self._last_ns < LOOK_NS:
            return
        self._last_ns = now_ns
        with suppress(OSError, AttributeError):
            if self._in_use() - self._left >= MUCH_CODE:
                self._give_back()
                self._left = self._in_use()
