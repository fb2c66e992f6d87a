"""Which windows are rolled up, and how the requests of the others are read.

Where one process owns the tables, it knows which windows it wrote to. What is not known for
certain is read as it was written: rollups make an answer faster, and never change what it counts.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from latencytrace.errors import StoreError
from latencytrace.service.sql.counting import WITH_FINAL, Standing
from latencytrace.service.sql.rollups import (
    DUE,
    LAST_PASS,
    PUT_DOWN,
    ROLL_UP,
    WINDOW_S,
    WINDOWS_BETWEEN,
    Window,
)
from latencytrace.service.sql.tables import DERIVED
from latencytrace.service.sql_store.weights import Weights

QUIET_NS: Final = 60 * 10**9  # nothing was written to a window for so long: it is rolled up
PACE_NS: Final = 10**9  # between two steps
LOOK_NS: Final = 60 * 10**9  # between two looks at all windows, where they are too many
STEP_NS: Final = 50_000_000  # that one should take
MOST_WINDOWS: Final = 256  # in a step
MOST_CHANGED: Final = 20_000  # windows that are remembered
EXACT_REQUESTS: Final = 100_000  # up to which they are read one by one
_ATTEMPTS: Final = 3  # to answer while windows are written to that were believed quiet
_S: Final = 10**9
_NEWEST_S: Final = (1 << 32) - 1  # that a window can begin
# In the first window and the last ones lies what its column cannot hold: never rolled up.
_FIRST_S: Final = WINDOW_S
_LAST_S: Final = _NEWEST_S // WINDOW_S * WINDOW_S

Query = Callable[[str, str, Mapping[str, object]], bytes]  # a question, a format, what it binds
T = TypeVar("T")


class RollupsLostError(StoreError):
    """A part of what is derived from requests was damaged: it is to be made anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the requests of a stretch of time are read."""

    standing: Standing = WITH_FINAL
    requests: int = 0  # that are rolled up, of all cohorts
    passes: tuple[tuple[int, int], ...] = ()  # windows within it, and the pass that counts
    exact: tuple[int, ...] = ()  # the other windows: at its ends, or changed since
    marks: int = 0  # that were made before

    def bound(self) -> Mapping[str, object]:
        """Return what a question about rollups binds."""
        return {**self.standing.bound(), "passes": self.passes, "exact": self.exact}


class Rollups:
    """Rolls up windows that have become quiet, and plans questions.

    Args:
        read: Asks what a question needs to know.
        write: Has rows written, and asks for that.
        now_ns: The time of day.
        lost_parts: How many parts of requests, or of what is here, were lost so far.
        exact_requests: Up to how many requests are read one by one.
    """

    def __init__(
        self,
        read: Query,
        write: Query,
        now_ns: Callable[[], int],
        lost_parts: Callable[[], int],
        exact_requests: int = EXACT_REQUESTS,
    ) -> None:
        self.weights = Weights(read, now_ns, alone=True)
        self._read = read
        self._write = write
        self._now_ns = now_ns
        self._lost_parts = lost_parts
        self._exact_requests = exact_requests
        self._lost = lost_parts()  # when all of it was made anew last
        self._writing = threading.Lock()  # no window is rolled up while one is written to
        self._lock = threading.Lock()  # of what follows
        # Windows that were written to since they were rolled up: the last mark, and its time.
        self._changed: dict[int, tuple[int, int]] = {}
        self._knows_all = False
        self._looked_ns: int | None = None
        self._marks = 0
        self._forgotten = 0  # the latest mark of a window that was rolled up since
        self._pass = 0
        self._stepped_ns = 0
        self._at_once = 1  # windows in a step

    @contextmanager
    def changing(self, windows: Collection[int]) -> Iterator[None]:
        """Have requests of these windows written while the code inside runs."""
        with self._writing:
            self._mark(windows)
            yield

    def over(self, since_ns: int | None, until_ns: int | None, ask: Callable[[Plan], T]) -> T:
        """Return an answer about the requests of a stretch, in which each counts once."""
        try:
            for _ in range(_ATTEMPTS):
                plan = self._plan(since_ns or 0, until_ns)
                answer = ask(plan)
                if self._holds(plan):
                    return answer
        except RollupsLostError:
            pass  # the next step makes them anew
        return ask(self._unplanned())

    def _unplanned(self) -> Plan:
        """Every row is held against the others."""
        return Plan(standing=Standing(weighted=self.weights.found()))

    def suffice(self, plan: Plan) -> bool:
        """Say whether so many requests are rolled up that the others need not be read."""
        return plan.standing.unmerged is not None and plan.requests > self._exact_requests

    def step(self) -> None:
        """Roll up some of the windows that nothing is written to any more.

        Raises:
            StoreError: The engine cannot do it; it is tried again.
        """
        now_ns = self._now_ns()
        if abs(now_ns - self._stepped_ns) < PACE_NS:
            return
        self._stepped_ns = now_ns
        with suppress(RollupsLostError), self._writing:
            if self._lost_parts() != self._lost:
                self._begin_anew()
            due = self._due(now_ns)
            if due:
                self._roll_up(due)

    def _roll_up(self, windows: list[int]) -> None:
        began_ns = self._now_ns()
        if not self._pass:
            self._pass = int(self._write(LAST_PASS, "TSV", {}))
        # Rows of a pass that was cut short are of a number that no window names.
        self._pass = max(began_ns, self._pass + 1)
        bound = {"windows": windows, "pass": self._pass}
        self._write(ROLL_UP[self.weights.found()], "Null", bound)
        self._write(PUT_DOWN, "Null", bound)
        with self._lock:
            for window in windows:
                mark, _ = self._changed.pop(window)
                self._forgotten = max(self._forgotten, mark)
        factor = min(STEP_NS / max(self._now_ns() - began_ns, 1), 2.0)
        self._at_once = min(max(round(self._at_once * factor), 1), MOST_WINDOWS)

    def _due(self, now_ns: int) -> list[int]:
        """The oldest windows that may be rolled up."""
        before_ns = now_ns - QUIET_NS
        with self._lock:
            self._look(self._write)
            due = [
                window
                for window, (_, marked_ns) in self._changed.items()
                if marked_ns <= before_ns
                and _FIRST_S <= window < _LAST_S
                and (window + WINDOW_S) * _S <= before_ns
            ]
        return sorted(due)[: self._at_once]

    def _look(self, ask: Query) -> None:
        """Find the windows that were written to since they were rolled up, unless known."""
        now_ns = self._now_ns()
        looked_ns = self._looked_ns
        if self._knows_all or (looked_ns is not None and abs(now_ns - looked_ns) < LOOK_NS):
            return
        found = map(int, ask(DUE, "TSV", {"limit": MOST_CHANGED + 1}).split())
        unknown = [window for window in found if window not in self._changed]
        room = MOST_CHANGED - len(self._changed)
        self._marks += 1
        self._changed |= dict.fromkeys(unknown[:room], (self._marks, 0))
        self._knows_all = len(unknown) <= room
        self._looked_ns = now_ns

    def _mark(self, windows: Collection[int]) -> None:
        now_ns = self._now_ns()
        with self._lock:
            self._marks += 1
            for window in windows:
                if window in self._changed or len(self._changed) < MOST_CHANGED:
                    self._changed[window] = (self._marks, now_ns)
                else:
                    self._knows_all = False

    def _plan(self, since_ns: int, until_ns: int | None) -> Plan:
        edges = _edges(since_ns, until_ns)
        first_s, last_s = (
            _window(since_ns),
            _NEWEST_S if until_ns is None else _window(until_ns - 1),
        )
        with self._lock:
            self._look(self._read)
            if not self._knows_all or self._lost_parts() != self._lost:
                return self._unplanned()
            changed = {one for one in self._changed if first_s <= one <= last_s}
            marks = self._marks
        # Asked for afterwards: a window that is rolled up meanwhile is believed to be changed.
        answer = self._read(WINDOWS_BETWEEN, "RowBinary", {"first": first_s, "last": last_s})
        known = np.frombuffer(answer, Window)
        known = known[~np.isin(known["window"], list(changed))]
        unmerged = known["window"][~known["merged"]].tolist()
        within = known[~np.isin(known["window"], list(edges))]
        return Plan(
            standing=Standing(
                unmerged=tuple(sorted({*changed, *unmerged})), weighted=self.weights.found()
            ),
            requests=int(within["requests"].sum()),
            passes=tuple(zip(within["window"].tolist(), within["pass"].tolist(), strict=True)),
            exact=tuple(sorted(changed | edges)),
            marks=marks,
        )

    def _holds(self, plan: Plan) -> bool:
        """Whether nothing was written meanwhile to a window that was believed quiet."""
        unmerged = plan.standing.unmerged
        if unmerged is None:
            return True
        with self._lock:
            return (
                self._knows_all
                and self._lost_parts() == self._lost
                and self._forgotten <= plan.marks
                and all(
                    mark <= plan.marks or window in unmerged
                    for window, (mark, _) in self._changed.items()
                )
            )

    def _begin_anew(self) -> None:
        """Forget all rollups: some of them, or of their requests, were lost."""
        with self._lock:
            lost = self._lost_parts()
            self._knows_all, self._looked_ns = False, None
            for table in DERIVED:
                self._write(f"TRUNCATE TABLE {table}", "Null", {})
            self._lost = lost


class NoRollups(Rollups):
    """Plans for tables that others may write to: every row is held against the others.

    Args:
        read: Asks what a question needs to know.
        now_ns: The time of day.
    """

    def __init__(self, read: Query, now_ns: Callable[[], int]) -> None:
        self.weights = Weights(read, now_ns, alone=False)

    @contextmanager
    def changing(self, windows: Collection[int]) -> Iterator[None]:
        yield

    def over(
        self,
        since_ns: int | None,
        until_ns: int | None,
        ask: Callable[[Plan], T],
    ) -> T:
        return ask(self._unplanned())

    def step(self) -> None:
        """Do nothing."""


def windows_of(starts_ns: NDArray[np.uint64]) -> list[int]:
    """The windows of requests that start at these moments, as their column holds them."""
    seconds = np.maximum(starts_ns.view(np.int64), 0) // _S
    windows: list[int] = np.unique(np.minimum(seconds // WINDOW_S * WINDOW_S, _NEWEST_S)).tolist()
    return windows


def _window(moment_ns: int) -> int:
    return min(max(moment_ns, 0) // _S // WINDOW_S * WINDOW_S, _NEWEST_S)


def _edges(since_ns: int, until_ns: int | None) -> set[int]:
    """The windows in which a stretch begins and ends, unless it does at their edges."""
    width_ns = WINDOW_S * _S
    return {_window(one) for one in (since_ns, until_ns) if one is not None and one % width_ns}
