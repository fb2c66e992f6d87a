"""Lowers the detail of traces while their cost exceeds its budget, and raises it again."""

from collections import deque
from collections.abc import Callable
from math import ceil, log2
from typing import Final

from latencytrace.agent.budget.detail import FULL, LAST, SAMPLED, WITHOUT_CHEAP_CALLS

WINDOW_NS: Final = 5_000_000_000  # between two decisions
RETURN_RATIO: Final = 0.4  # of the budget; below, detail is raised, which may double the cost
LEAST_RATIO: Final = 0.25  # of the budget, for requests that are recorded
STEEP: Final = 2.0  # times the budget: leaving details out will not do
PATIENCE: Final = 3  # such windows in a row
MOST_PATIENCE: Final = 120
_SETTLED: Final = 12  # windows after which a raise is no mistake
TRIED: Final = 3  # windows at the last step, after which it has shown what it saves
SAVES_RATIO: Final = 0.2  # of what recording takes in full detail; less is worth no detail
SPREAD: Final = 12  # windows over which reporting counts: the dearest of it is once a minute


class Governor:
    """Decides how much detail the budget allows; used by one thread.

    A raise that had to be taken back makes it twice as patient, one that lasted half as much:
    a load at the edge of the budget does not swing. Where the program samples itself, and
    leaving out every detail neither keeps the budget nor saves a fifth of the cost, all of it is
    given back.

    Args:
        budget_ratio: Of the process's CPU time; of one that does not fill a core, of a core's.
        now_ns: A monotonic clock.
        own_ns: CPU time of the agent until now.
        process_ns: CPU time of the process until now.
    """

    def __init__(
        self, budget_ratio: float, now_ns: Callable[[], int], own_ns: int, process_ns: int
    ) -> None:
        self.budget_ratio = budget_ratio
        self.step = FULL
        self.share_ratio: float | None = None  # of the last window; None: there was none yet
        self.is_held = True  # or nothing more can be left out
        self._now_ns = now_ns
        self._before = (now_ns(), own_ns, process_ns, 0, 0)
        self._reporting: deque[int] = deque(maxlen=SPREAD)  # of each window
        self._patience = PATIENCE
        self._quiet = 0  # windows in a row in which little was spent
        self._since_raise = _SETTLED
        self._full_ratio = 0.0  # that recording took when detail was lowered first
        self._tried = 0  # windows at the last step
        self._given_back = 0  # windows for which detail stays, as it saves nothing to lower it

    def update(
        self,
        own_ns: int,
        process_ns: int,
        *,
        dropped_ns: int = 0,
        reporting_ns: int = 0,
        most: int = LAST,
    ) -> bool:
        """Take the CPU times until now, and decide once a window has passed.

        What it takes to leave requests out, or to report, no step saves: of what is left,
        but at least a quarter of it, as many are recorded as it allows.

        Args:
            own_ns: Of the agent.
            process_ns: Of the process, the agent included.
            dropped_ns: Of the agent, to leave requests out.
            reporting_ns: Of the agent, to report, and to measure what hooks cost.
            most: The last step that may be taken.

        Returns:
            Whether a window has passed.
        """
        now_ns = self._now_ns()
        then_ns = self._before[0]
        if now_ns - then_ns < WINDOW_NS:
            return False
        before, self._before = self._before, (now_ns, own_ns, process_ns, dropped_ns, reporting_ns)
        _, own, process, dropped, reporting = (
            max(now - then, 0) for now, then in zip(self._before, before, strict=True)
        )
        whole = max(process, now_ns - then_ns)
        allowed = self.budget_ratio * whole
        self._since_raise += 1
        if self._since_raise == _SETTLED:
            self._patience = max(self._patience // 2, PATIENCE)
        reporting = min(reporting, own)
        dropped = min(dropped, own - reporting)
        self._reporting.append(reporting)
        recording = own - reporting - dropped
        fixed = dropped + sum(self._reporting) / SPREAD
        self.share_ratio = (recording + fixed) / whole
        excess = recording / max(allowed - fixed, LEAST_RATIO * allowed)
        is_within = recording + fixed <= allowed
        self._given_back = max(self._given_back - 1, 0) if most < SAMPLED else 0
        can_lower = self.step < most
        if self.step == FULL:
            self._full_ratio, self._tried = recording / whole, 0
        if excess > 1:
            self._exceed(excess, recording / whole, most)
        elif self.step > most:  # another sampler decides now
            self.step = most
        else:
            self._quiet = self._quiet + 1 if excess <= RETURN_RATIO else 0
            if self._quiet >= self._patience and self.step > FULL:
                self._raise()
        self.is_held = is_within or (excess > 1 and can_lower and not self._given_back)
        return True

    def _exceed(self, excess: float, recording_ratio: float, most: int) -> None:
        """Lower detail, unless to leave all of it out for a while has saved next to nothing."""
        if self._given_back:
            return
        if self.step == most < SAMPLED:
            self._tried += 1
            if self._tried >= TRIED and recording_ratio > (1 - SAVES_RATIO) * self._full_ratio:
                self.step, self._given_back, self._quiet = FULL, MOST_PATIENCE, 0
                return
        self._lower(excess, most)

    def _lower(self, excess: float, most: int) -> None:
        if self._since_raise < _SETTLED:
            self._patience = min(self._patience * 2, MOST_PATIENCE)
            self._since_raise = _SETTLED
        self._quiet = 0
        if self.step < WITHOUT_CHEAP_CALLS and excess <= STEEP:
            step = self.step + 1
        else:
            step = max(self.step, SAMPLED - 1) + ceil(log2(excess))
        self.step = min(max(step, self.step + 1), most)

    def _raise(self) -> None:
        self.step -= 1
        self._quiet = 0
        self._since_raise = 0
