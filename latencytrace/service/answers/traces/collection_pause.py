"""A pause of the garbage collector while one large answer is made."""

import gc
import threading
import time
from contextlib import ContextDecorator
from typing import Final

_LONGEST_S: Final = 5.0  # without looking for cycles


class CollectionPause(ContextDecorator):
    """Keeps Python from looking for cycles meanwhile.

    A trace of 50 000 spans is read as a million objects, none of which is in a cycle: the
    collector, woken by their number alone, would look through them again and again, for more than
    a third of the time. Several threads may be inside at once; what they leave is collected after
    the last one, and every few seconds where they follow each other without end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False
        self._since_s = 0.0

    def __enter__(self) -> None:
        """Begin one."""
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
                self._since_s = time.monotonic()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """End it."""
        is_long = False
        with self._lock:
            self._inside -= 1
            if not self._was_enabled:
                return
            if not self._inside:
                gc.enable()
            elif time.monotonic() - self._since_s > _LONGEST_S:
                is_long, self._since_s = True, time.monotonic()
        if is_long:
            gc.collect()


collection_pause: Final = CollectionPause()
