"""Spans that are over for the host while a device still works for them.

They end, with the very end that they had, once their device is done, seen by the thread
that had it compute: when it hands over more, when another of its spans ends, or at the
latest after a second, unmeasured. No other thread ever asks a device.
"""

from collections import deque
from collections.abc import Mapping
from threading import get_ident
from typing import Final, Protocol

from latencytrace.agent.device.timer import DevicePasses
from latencytrace.agent.native import RLock
from latencytrace.model.attributes import AttributeValue

LONGEST_NS: Final = 1_000_000_000
MOST: Final = 1000
_ASKED: Final = 8  # spans that are not done, each time


class Ending(Protocol):
    """A span that is to end."""

    @property
    def started_ns(self) -> int:
        """Return when it began, on the monotonic clock."""
        ...

    def note(self, attributes: Mapping[str, AttributeValue]) -> None: ...

    def end(self, ended_ns: int | None = None) -> None: ...


Pending = tuple[Ending, int, DevicePasses]  # itself, its end, its passes


class PendingDeviceSpans:
    """Holds them, by the thread that had its device compute; bounded, and the oldest make room."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may end a span in the middle of any of this.
        self._lock = RLock()
        self._parents: list[object] = []
        self._count = 0
        self.waiting: dict[int, deque[Pending]] = {}  # the oldest first; no thread without one

    def end(self, timing: Ending, ended_ns: int, passes: DevicePasses) -> None:
        """End a span as soon as its device is done with it."""
        if passes.settle():
            _end(timing, ended_ns, passes)
            return
        with self._lock:
            self.waiting.setdefault(get_ident(), deque()).append((timing, ended_ns, passes))
            self._count += 1
        if self._count > MOST:
            _give_up(self._oldest(None))

    def settle(self) -> None:
        """End those of this thread whose devices are done, the oldest first.

        However many wait, no more than some that are not done are asked for.
        """
        thread, busy = get_ident(), 0
        while busy < _ASKED and (one := self._waits_at(thread, busy)) is not None:
            if not one[2].settle():
                busy += 1
            elif self._take(thread, one):
                _end(*one)

    def give_up(self, now_ns: int | None) -> None:
        """End the spans that have waited too long by now; with None all of them."""
        while (one := self._oldest(now_ns)) is not None:
            _give_up(one)

    def reset_after_fork(self) -> None:
        """In a forked child: they are the parent's; kept as their events are."""
        # Reentrant: the garbage collector may end a span in the middle of any of this.
        self._lock = RLock()
        self._parents.append(self.waiting)
        self.waiting = {}
        self._count = 0

    def _waits_at(self, thread: int, place: int) -> Pending | None:
        """Return the one in a place of a thread's; None: so many do not wait."""
        with self._lock:
            waiting = self.waiting.get(thread, ())
            return waiting[place] if place < len(waiting) else None

    def _take(self, thread: int, one: Pending) -> bool:
        with self._lock:
            waiting = self.waiting.get(thread)
            if waiting is None or one not in waiting:  # given up meanwhile
                return False
            waiting.remove(one)
            self._forget(thread)
            return True

    def _oldest(self, now_ns: int | None) -> Pending | None:
        """Take the one that waits longest, if it has waited too long."""
        with self._lock:
            if not self.waiting:
                return None
            thread = min(self.waiting, key=lambda thread: self.waiting[thread][0][1])
            if now_ns is not None and now_ns - self.waiting[thread][0][1] < LONGEST_NS:
                return None
            one = self.waiting[thread].popleft()
            self._forget(thread)
            return one

    def _forget(self, thread: int) -> None:
        """Count one of a thread less."""
        self._count -= 1
        if not self.waiting[thread]:
            del self.waiting[thread]


def _give_up(one: Pending | None) -> None:
    if one is not None:
        one[2].abandon()
        _end(*one)


def _end(timing: Ending, ended_ns: int, passes: DevicePasses) -> None:
    timing.note(passes.attributes(timing.started_ns))
    timing.end(ended_ns)
