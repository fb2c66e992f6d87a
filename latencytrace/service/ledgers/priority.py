"""The service beside the programs that it shares a machine with: its priority, and its memory."""

import ctypes
import os
import threading
from contextlib import suppress
from typing import Final

NICENESS: Final = 10
MUCH_SPANS: Final = 100_000  # after which memory is given back


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
