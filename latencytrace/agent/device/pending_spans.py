"""Spans that are over for the host while a device still works for them.

They end, with the very end that they had, once their device is done, seen by the thread
that had it compute: when it hands over more, when another of its spans ends, or at the
latest after a second, unmeasured. No other thread ever asks a device.
"""

import threading
from collections import deque
from collections.abc import Mapping
from threading import get_ident
from typing import Final, Protocol

from latencytrace.agent.device.timer import DevicePasses
from latencytrace.model.span import AttributeValue

LONGEST_NS: Final = 1_000_000_000
MOST: Final = 1000


class Ending(Protocol):
    """A span that is to end; see `Timing`."""

    @property
    def started_ns(self) -> int:
        """Return when it began, on the monotonic clock."""
        ...

    def note(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Set attributes."""
        ...

    def end(self, ended_ns: int | None = None) -> None:
        """End it."""
        ...


Pending = tuple[int, Ending, int, DevicePasses]  # its thread, itself, its end, its passes


class PendingDeviceSpans:
    """Holds them; bounded, and the oldest make room."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may end a span in the middle of any of this.
        self._lock = threading.RLock()
        self._parents: list[object] = []
        self.waiting: deque[Pending] = deque()

    def end(self, timing: Ending, ended_ns: int, passes: DevicePasses) -> None:
        """End a span as soon as its device is done with it."""
        if passes.settle():
            _end(timing, ended_ns, passes)
            return
        with self._lock:
            self.waiting.append((get_ident(), timing, ended_ns, passes))
        if len(self.waiting) > MOST:
            _give_up(self._oldest(None))

    def settle(self) -> None:
        """End those of this thread whose devices are done."""
        if not self.waiting:
            return
        thread = get_ident()
        with self._lock:
            mine = [one for one in tuple(self.waiting) if one[0] == thread]
        for one in mine:
            if one[3].settle() and self._take(one):
                _end(*one[1:])

    def give_up(self, now_ns: int | None) -> None:
        """End those that wait too long by now; with None all of them."""
        while (one := self._oldest(now_ns)) is not None:
            _give_up(one)

    def reset_after_fork(self) -> None:
        """In a forked child: they are the parent's; kept as their events are."""
        # Reentrant: the garbage collector may end a span in the middle of any of this.
        self._lock = threading.RLock()
        self._parents.append(self.waiting)
        self.waiting = deque()

    def _take(self, one: Pending) -> bool:
        with self._lock:
            try:
                self.waiting.remove(one)
            except ValueError:  # given up meanwhile
                return False
            return True

    def _oldest(self, now_ns: int | None) -> Pending | None:
        """Take the one that waits longest, if it has waited too long."""
        with self._lock:
            if not self.waiting:
                return None
            if now_ns is not None and now_ns - self.waiting[0][2] < LONGEST_NS:
                return None
            return self.waiting.popleft()


def _give_up(one: Pending | None) -> None:
    if one is not None:
        one[3].abandon()
        _end(*one[1:])


def _end(timing: Ending, ended_ns: int, passes: DevicePasses) -> None:
    timing.note(passes.attributes(timing.started_ns))
    timing.end(ended_ns)
