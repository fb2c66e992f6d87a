"""Lets other threads run while a background thread works through much, at next to no cost.

A thread that wakes waits for the interpreter until it is released, 5 ms at the most (CPython's
switch interval), or for the processor, if it woke on that of the background thread. Yielding
the processor with the interpreter released serves both and takes a microsecond where no thread
waits. A thread that waits on another processor is not there in a microsecond: but
then the call takes longer, for it wakes him, and only then a sleep is worth its price, some
twenty times as much.
"""

from collections.abc import Callable

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.native import sleep as native_sleep

SLEEP_S = 20e-6
_LONG = 2.5  # times the shortest call: it woke a thread
_LET_IN_NS = 100_000  # in so long a call another thread has run already
_FORGETS = 1.001  # a call: a processor may become slower


def yielding() -> Callable[[], object] | None:
    """Return what yields the processor and releases the interpreter meanwhile; None: nothing.

    `os.sched_yield` keeps the interpreter until Python 3.12.
    """
    try:
        from ctypes import CDLL  # noqa: PLC0415 - takes 3 ms, and not everywhere it is there

        call = CDLL(None).sched_yield
        call.argtypes = ()
        call()
    except (ImportError, OSError, AttributeError, TypeError):
        return None
    return call


class GilYield:
    """Pauses of one thread, in which others may run.

    Args:
        yield_: Yields the processor, as `yielding` returns it; None: each pause is a sleep.
    """

    def __init__(
        self,
        yield_: Callable[[], object] | None,
        sleep: Callable[[float], None] = native_sleep,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._yield = yield_
        self._sleep = sleep
        self._now_ns = now_ns
        self._shortest_ns: float = _LET_IN_NS

    def __call__(self) -> None:
        """Let other threads run."""
        if self._yield is None:
            self._sleep(SLEEP_S)
            return
        began_ns = self._now_ns()
        self._yield()
        took_ns = self._now_ns() - began_ns
        if took_ns >= _LET_IN_NS:
            return
        self._shortest_ns = min(self._shortest_ns * _FORGETS, max(took_ns, 1))
        if took_ns > _LONG * self._shortest_ns:
            self._sleep(SLEEP_S)
