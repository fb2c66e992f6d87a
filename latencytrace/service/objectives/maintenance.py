"""Windows of maintenance: requests that end in one are not counted, and silence is no news."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.slo.traffic import LOOK_NS
from latencytrace.model import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A time in which objectives do not hold."""

    name: str
    start_ns: int
    end_ns: int  # not part of it
    objectives: frozenset[str] = frozenset()  # by name; none: those of the services
    services: frozenset[str] = frozenset()  # none either: all

    def covers(self, objective: Objective) -> bool:
        """Tell whether it is for an objective."""
        if not self.objectives and not self.services:
            return True
        return objective.name in self.objectives or objective.service in self.services


class MaintenanceWindows:
    """The windows of a file.

    Args:
        windows: All of them.
    """

    def __init__(self, windows: Sequence[Maintenance] = ()) -> None:
        self._windows = tuple(windows)

    def replace(self, windows: Sequence[Maintenance], now_ns: int) -> None:
        """Hold others from now on; one that has begun and is gone from the file ends now."""
        gone = (
            replace(one, end_ns=min(one.end_ns, now_ns))
            for one in self._windows
            if one not in windows and one.start_ns < now_ns < one.end_ns + LOOK_NS
        )
        self._windows = (*windows, *gone)

    def holds_at(self, objective: Objective, at_ns: int) -> bool:
        """Tell whether an objective holds at a moment."""
        return not any(
            one.start_ns <= at_ns < one.end_ns and one.covers(objective) for one in self._windows
        )

    def hold_at(self, objective: Objective, at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,): whether an objective holds at each moment."""
        holds = np.ones(len(at_ns), np.bool_)
        for one in self._windows:
            if one.covers(objective):
                holds &= (at_ns < one.start_ns) | (at_ns >= one.end_ns)
        return holds

    def latest_ns(self, objective: Objective, now_ns: int) -> int:
        """The latest moment by now at which an objective did not hold; 0: it always did."""
        begun = (one for one in self._windows if one.start_ns <= now_ns and one.covers(objective))
        return max((min(one.end_ns, now_ns) for one in begun), default=0)
