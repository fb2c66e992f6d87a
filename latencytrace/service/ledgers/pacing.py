"""Spreads work out in time, so that who shares the machine hardly notices it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Rests:
    """Pauses between the pieces of one thread's work, each some times as long as the piece.

    Work that comes again and again is expected to be as much as it was the last time, so that
    its pauses are even where there is no time for long ones.

    Args:
        ratio: Of a pause to the piece before it, at most.
        now_ns: A clock that is never set back.
    """

    def __init__(self, ratio: float, now_ns: Callable[[], int]) -> None:
        self._most_ratio = self._ratio = ratio
        self._now_ns = now_ns
        self._since_ns = 0  # the beginning of a piece
        self._worked_s = 0.0  # in all pieces
        self._left_s = 0.0  # to pause for
        self._hurrying = 0  # how many wait for the work
        self._is_over = False
        self._changed = threading.Condition()

    def begin(self, most_s: float) -> None:
        """Begin with work that all pauses together may draw out by so many seconds."""
        self._ratio = min(self._most_ratio, most_s / max(self._worked_s, 1e-9))
        self._worked_s = 0.0
        self._left_s = most_s
        self._since_ns = self._now_ns()

    def rest(self) -> None:
        """Pause, if work has begun and nobody waits for it."""
        worked_s = (self._now_ns() - self._since_ns) / 1e9
        self._worked_s += worked_s
        pause_s = min(worked_s * self._ratio, self._left_s)
        if pause_s > 0:
            with self._changed:
                self._changed.wait_for(lambda: self._hurrying or self._is_over, pause_s)
            self._left_s -= pause_s
        self._since_ns = self._now_ns()

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Somebody waits: no pauses meanwhile, and the present one ends."""
        with self._changed:
            self._hurrying += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._hurrying -= 1

    def end(self) -> None:
        """No pauses from now on."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
