"""Sends the last spans of a process that SIGTERM ends."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from latencytrace.agent.guard import contained


class Termination:
    """Sends the last spans of a process that SIGTERM would end at once.

    Only where the program leaves the signal alone: with a handler of its own it ends as it
    likes, and its exit sends them. Afterwards the process ends by the signal as it would have.

    Args:
        flush: Sends what waits, within a bounded time.
        longest_s: That the end may be put off.
    """

    def __init__(self, flush: Callable[[], object], longest_s: float) -> None:
        self._flush = flush
        self._longest_s = longest_s
        self._handler = self._terminate  # one object, to be recognised by

    def expect(self) -> None:
        """Take the signal, if nobody has and this is the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._handler)

    def forget(self) -> None:
        """Leave the signal to its default again, unless somebody else has taken it."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is self._handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminate(self, number: int, _: FrameType | None) -> None:
        try:
            contained("sending the last spans")(self._flush_meanwhile)()
        finally:  # whatever happens, and whichever signal comes now: the process is to end
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _flush_meanwhile(self) -> None:
        # In a thread: the one that was interrupted may hold a lock that the flush needs.
        flushing = contained("sending the last spans")(self._flush)
        thread = threading.Thread(target=flushing, name="latencytrace-last", daemon=True)
        thread.start()
        thread.join(self._longest_s)
