"""A pause of the garbage collector while one large answer is made."""

import gc
import threading
from contextlib import ContextDecorator
from typing import Final


class CollectionPause(ContextDecorator):
    """Keeps Python from looking for cycles meanwhile.

    A trace of 50 000 spans is read as a million objects, none of which is in a cycle: the
    collector, woken by their number alone, would look through them again and again, for more than
    a third of the time. Several threads may be inside at once; what they leave is collected after
    the last one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        """Begin one."""
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """End it."""
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_enabled:
                gc.enable()


collection_pause: Final = CollectionPause()
