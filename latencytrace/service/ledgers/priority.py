"""The priority of the service's own work, beside the programs that it shares a machine with."""

import os
import threading
from contextlib import suppress
from typing import Final

NICENESS: Final = 10


def yield_to_others() -> None:
    """Give this thread a low priority: its processor time, and with it that of its disk.

    What it waits for itself, such as a disk that somebody else keeps busy, it waits for longer.
    Where the system knows no priority of a thread, nothing changes.
    """
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
