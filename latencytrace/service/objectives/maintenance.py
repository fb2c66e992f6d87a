"""Windows of maintenance: requests that end in one are not counted, and silence is no news."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from latencytrace.analysis.slo.traffic import LOOK_NS
from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import Objective
from latencytrace.model.objective import DAY_NS

LONGEST_NS: Final = 31 * DAY_NS
MAX_WINDOWS: Final = 200  # that were asked for, and are not over
MAX_OF_A_DAY: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A time in which objectives do not hold."""

    name: str
    start_ns: int
    end_ns: int  # not part of it
    objectives: frozenset[str] = frozenset()  # by name; none: those of the services
    services: frozenset[str] = frozenset()  # none either: all

    def covers(self, objective: Objective) -> bool:
        if not self.objectives and not self.services:
            return True
        return objective.name in self.objectives or objective.service in self.services


_WINDOWS: Final = TypeAdapter(tuple[Maintenance, ...])


class MaintenanceWindows:
    """The windows of a file, and of requests to the running service.

    Attributes:
        keep: Takes those asked for whenever they change, as a text.
    """

    def __init__(self, windows: Sequence[Maintenance] = ()) -> None:
        self._of_file = tuple(windows)
        self._asked: tuple[Maintenance, ...] = ()
        self._lock = threading.Lock()  # several may ask at once
        self.keep: Callable[[str], None] = lambda _: None

    @property
    def _all(self) -> tuple[Maintenance, ...]:
        return (*self._of_file, *self._asked)

    def replace(self, windows: Sequence[Maintenance], now_ns: int) -> None:
        """Hold others of the file from now on; one that has begun and is gone from it ends now."""
        gone = (
            replace(one, end_ns=min(one.end_ns, now_ns))
            for one in self._of_file
            if one not in windows and one.start_ns < now_ns < one.end_ns + LOOK_NS
        )
        self._of_file = (*windows, *gone)

    def take_up(self, text: str | None) -> None:
        """Take up those asked for that an earlier process kept."""
        if text is not None:
            self._asked = _WINDOWS.validate_json(text)

    def begin(self, window: Maintenance, now_ns: int) -> None:
        """Hold one more.

        Raises:
            QuestionError: There is one of that name, or there are too many.
            StoreError: The window could not be written.
        """
        with self._lock:
            left = [one for one in self._asked if one.end_ns > now_ns - DAY_NS]
            open_now = [one for one in (*self._of_file, *left) if one.end_ns > now_ns]
            if any(one.name == window.name for one in open_now):
                raise QuestionError(f"name: there is a window {window.name!r}: end it, or rename")
            if sum(one.end_ns > now_ns for one in left) >= MAX_WINDOWS:
                raise QuestionError(f"there are {MAX_WINDOWS} windows: end some")
            if len(left) >= MAX_OF_A_DAY:
                raise QuestionError(f"{MAX_OF_A_DAY} windows were asked for within a day")
            self._swap((*left, window))

    def end(self, name: str, now_ns: int) -> Maintenance:
        """End one that was asked for now, or forget it where it has not begun.

        Raises:
            NotFoundError: No such window is open.
            QuestionError: The window is one of the file.
            StoreError: The change could not be written.
        """
        with self._lock:
            for one in self._asked:
                if one.name == name and one.end_ns > now_ns:
                    ended = replace(one, end_ns=max(one.start_ns, now_ns))
                    others = [other for other in self._asked if other is not one]
                    self._swap((*others, *([ended] if one.start_ns < now_ns else [])))
                    return ended
        if any(one.name == name and one.end_ns > now_ns for one in self._of_file):
            raise QuestionError(f"{name!r} stands in the objectives file: delete it there")
        raise NotFoundError(f"no window of maintenance {name!r} is open")

    def open_at(self, now_ns: int) -> list[tuple[Maintenance, bool]]:
        """The windows that are not over, in order, and of each whether the file has it."""
        found = [(one, True) for one in self._of_file] + [(one, False) for one in self._asked]
        return sorted(
            ((one, in_file) for one, in_file in found if one.end_ns > now_ns),
            key=lambda item: item[0].start_ns,
        )

    def holds_at(self, objective: Objective, at_ns: int) -> bool:
        return not any(
            one.start_ns <= at_ns < one.end_ns and one.covers(objective) for one in self._all
        )

    def hold_at(self, objective: Objective, at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,): whether an objective holds at each moment."""
        holds = np.ones(len(at_ns), np.bool_)
        for one in self._all:
            if one.covers(objective):
                holds &= (at_ns < one.start_ns) | (at_ns >= one.end_ns)
        return holds

    def latest_ns(self, objective: Objective, now_ns: int) -> int:
        """The latest moment by now at which an objective did not hold; 0: it always did."""
        begun = (one for one in self._all if one.start_ns <= now_ns and one.covers(objective))
        return max((min(one.end_ns, now_ns) for one in begun), default=0)

    def _swap(self, asked: tuple[Maintenance, ...]) -> None:
        self.keep(_WINDOWS.dump_json(asked).decode())
        self._asked = asked
