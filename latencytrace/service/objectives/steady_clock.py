"""The time of day by which objectives are judged: it never goes back."""

from collections.abc import Callable

STEP_NS = 60 * 10**9  # a difference that is no drift


class SteadyClock:
    """The wall's time, carried on by a clock that is never set.

    Where the wall is set forward by more than a minute it is followed, as after a suspend;
    where it is set back, time goes on, so that nothing is counted twice.

    Args:
        wall_ns: Nanoseconds since the Unix epoch, by a clock that may be set.
        monotonic_ns: Nanoseconds since any moment, by a clock that cannot be set.
    """

    def __init__(self, wall_ns: Callable[[], int], monotonic_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()
        self._set_back_ns = 0
        self.jumps = 0

    def __call__(self) -> int:
        """Nanoseconds since the Unix epoch."""
        carried_ns = self._monotonic_ns() + self._offset_ns
        ahead_ns = carried_ns - self._wall_ns()
        if ahead_ns < -STEP_NS:
            self._offset_ns -= ahead_ns
            carried_ns -= ahead_ns
            ahead_ns = 0
            self.jumps += 1
        elif abs(ahead_ns - self._set_back_ns) > STEP_NS:
            self.jumps += 1
        else:
            return carried_ns
        self._set_back_ns = ahead_ns if ahead_ns > STEP_NS else 0
        return carried_ns

    @property
    def set_back_ns(self) -> int:
        """The time by which the wall clock, and with it what this machine stamps, is behind."""
        return self._set_back_ns
