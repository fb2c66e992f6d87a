"""Wakes one thread from another, or from a signal's handler that interrupted either."""

from contextlib import suppress

from latencytrace.agent.native import Lock


class Wake:
    """Lets one thread wait until it is called.

    `threading.Event` takes a lock in Python code. A signal's handler that interrupts that code
    and waits for a thread that needs the same event waits in vain. Here each call is one step
    of the interpreter's.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Let the thread that waits go on, or the next that does."""
        with suppress(RuntimeError):  # it was called already
            self._lock.release()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a call, which is then forgotten; False: none came in time."""
        return self._lock.acquire(timeout=max(timeout_s, 0.0))
