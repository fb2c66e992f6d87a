"""The device timer of each device that a program computes on, found by where its tensors are."""

import sys
from collections.abc import Callable
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.pending_spans import PendingDeviceSpans
from latencytrace.agent.device.timer import (
    DeviceEvents,
    DevicePasses,
    DeviceRanges,
    DeviceTimer,
    no_ranges,
)
from latencytrace.model.stage import Stage

EventsOf = Callable[[Any], DeviceEvents | None]  # of a torch device


class DeviceTimers:
    """One timer for each device, and the spans that wait for devices.

    Args:
        events_of: Makes the events of a device, or says by None that it has none.
        now_ns: The host's monotonic clock.
        ranges_of: Makes what shows the passes to NVIDIA's profilers; None of it: nothing does.
    """

    def __init__(
        self,
        events_of: EventsOf,
        now_ns: Callable[[], int] = monotonic_ns,
        ranges_of: Callable[[], DeviceRanges | None] = no_ranges,
    ) -> None:
        self._events_of = events_of
        self._now_ns = now_ns
        self._ranges_of = ranges_of
        self._timers: dict[object, DeviceTimer | None] = {}
        self._parents: list[object] = []
        self.pending = PendingDeviceSpans()

    def passes_on(self, device: Any, stage: Stage) -> DevicePasses | None:
        """Return what will measure a span's passes on a device; None: nothing can there."""
        if device not in self._timers:
            self._timers[device] = self._new_timer(device)
        timer = self._timers[device]
        return None if timer is None else timer.passes(stage)

    def _new_timer(self, device: object) -> DeviceTimer | None:
        events = self._events_of(device)
        if events is None:
            return None
        return DeviceTimer(events, self._now_ns, self._ranges_of())

    def reset_after_fork(self) -> None:
        """In a forked child: CUDA does not survive there, and its events neither.

        They are kept, for CUDA would complain if one were destroyed here.
        """
        self._parents.append(self._timers)
        self._timers = {}
        self.pending.reset_after_fork()


def no_events(_: object) -> DeviceEvents | None:
    return None


def torch_events(device: Any) -> DeviceEvents | None:
    """Return the events of a device of torch's: of NVIDIA's; no other was tried."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(device, "type", None) != "cuda" or torch.version.hip is not None:
        return None
    from latencytrace.agent.device.torch_events import TorchEvents  # for it loads ctypes

    index = torch.cuda.current_device() if device.index is None else device.index
    return TorchEvents(torch.cuda, index)
