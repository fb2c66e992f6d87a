"""A device's clock on the host's timeline, known by bounds and without ever waiting for it.

    host      record(e) ─────────────┬──────────────── e seen to be complete
    device                           e
                                  ≥ record            ≤ seen

Each event was reached no earlier than the host put it into the queue, and no later than the
host first saw it complete. All events since one anchor share one unknown, when the anchor was
reached; the tightest bounds of all of them hold it. An idle device makes the lower bound
tight, a host that has just waited for the device the upper one.
"""

from typing import Final

from latencytrace.agent.device.events import DeviceEvent, DeviceEvents
from latencytrace.agent.native import Lock

# CUDA's differences are float32 milliseconds: after 10 s their steps are 1 us, after an hour 250.
ANCHOR_NS: Final = 10_000_000_000
DRIFT: Final = 50e-6  # by which the two clocks may differ; judgement, for no vendor tells


class Anchor:
    """An event, and the bounds of when it was reached on the host's monotonic clock."""

    __slots__ = ("event", "highest_ns", "lowest_ns", "recorded_ns")

    def __init__(self, event: DeviceEvent, recorded_ns: int, lowest_ns: float) -> None:
        self.event = event
        self.recorded_ns = recorded_ns
        self.lowest_ns = lowest_ns
        self.highest_ns = float("inf")

    def bound(self, elapsed_ns: float, recorded_ns: int, seen_ns: int) -> None:
        """Learn from an event that was reached so long after this one."""
        drift_ns = abs(elapsed_ns) * DRIFT
        self.lowest_ns = max(self.lowest_ns, recorded_ns - elapsed_ns - drift_ns)
        self.highest_ns = min(self.highest_ns, seen_ns - elapsed_ns + drift_ns)

    def placed(self, elapsed_ns: float) -> tuple[int, int] | None:
        """The host's time of an instant so long after this event, and by how much it may err.

        Returns:
            None: the bounds contradict each other, or nothing was seen complete yet.
        """
        if not self.lowest_ns <= self.highest_ns < float("inf"):
            return None
        middle_ns = (self.lowest_ns + self.highest_ns) / 2
        error_ns = (self.highest_ns - self.lowest_ns) / 2 + abs(elapsed_ns) * DRIFT
        return round(middle_ns + elapsed_ns), round(error_ns)


class DeviceClock:
    """Makes anchors when the last one is too old.

    Args:
        events: Of the device.
    """

    def __init__(self, events: DeviceEvents) -> None:
        self._events = events
        self._lock = Lock()
        self._anchor: Anchor | None = None

    def anchor(self, now_ns: int) -> Anchor:
        """The anchor for work that is handed over now; at times a new one, in its stream."""
        with self._lock:
            anchor = self._anchor
            if anchor is None or now_ns - anchor.recorded_ns > ANCHOR_NS:
                event = self._events.event()
                self._events.record(event)
                anchor = self._anchor = Anchor(event, now_ns, now_ns)
            return anchor
