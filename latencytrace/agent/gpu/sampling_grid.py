"""Times of readings: on a grid that does not drift, more seldom when reading is slow."""

from collections import deque
from typing import Final

SLOW_NS: Final = 20_000_000  # a tick that takes longer delays other users of the driver
STUCK_NS: Final = 1_000_000_000
MOST_SLOWER: Final = 32  # times the interval
_JUDGED: Final = 20  # ticks
_SLOW_OF_THEM: Final = 2  # more than these are more than 5 %, but for one accident
_CALM_TICKS: Final = 300  # without a slow one, before it is read more often again


class SamplingGrid:
    """The instants `start + k * interval`; one that is missed is left out, never caught up.

    Args:
        interval_ns: Between two ticks, as long as they are quick.
        start_ns: A monotonic instant.
    """

    def __init__(self, interval_ns: int, start_ns: int) -> None:
        self.missed = 0
        self.slower = 1  # how many times longer the interval is now
        self._interval_ns = interval_ns
        self._next_ns = start_ns
        self._costs: deque[int] = deque(maxlen=_JUDGED)
        self._calm = 0

    @property
    def next_ns(self) -> int:
        """Return when the next tick is due."""
        return self._next_ns

    @property
    def interval_ns(self) -> int:
        """Between two ticks now."""
        return self._interval_ns * self.slower

    def ticked(self, began_ns: int, ended_ns: int) -> None:
        """Note what a tick took, and find the next."""
        self._judge(ended_ns - began_ns)
        steps = max(1, (ended_ns - self._next_ns) // self.interval_ns + 1)
        self.missed += steps - 1
        self._next_ns += steps * self.interval_ns

    def _judge(self, cost_ns: int) -> None:
        self._costs.append(cost_ns)
        if cost_ns >= STUCK_NS:
            self._slow_down(MOST_SLOWER)
        elif sum(cost > SLOW_NS for cost in self._costs) > _SLOW_OF_THEM:
            self._slow_down(self.slower * 2)
        elif cost_ns > SLOW_NS:
            self._calm = 0
        else:
            self._calm += 1
            if self._calm >= _CALM_TICKS and self.slower > 1:
                self.slower //= 2
                self._calm = 0

    def _slow_down(self, slower: int) -> None:
        self.slower = min(slower, MOST_SLOWER)
        self._costs.clear()
        self._calm = 0
