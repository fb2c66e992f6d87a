"""Times a device's work for a span, by pooled events that are never waited for.

A pass is what the host hands over between `begin` and `end`: its time runs from when the
device could start on it to when it was done, the gaps in between included. What a pass
costs the host is measured by `tests/benchmarks/bench_gpu.py`.
"""

import sys
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, Self

from latencytrace.agent.guard import attempted, logger
from latencytrace.agent.native import Lock
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage


class DeviceRanges(Protocol):
    """Begins and ends ranges; one may end in another thread than it began in."""

    def range_start(self, msg: str) -> int:
        """Begin one; its number."""
        ...

    def range_end(self, range_id: int) -> None: ...


def no_ranges() -> DeviceRanges | None:
    """Return none: they were not asked for."""
    return None


def torch_ranges() -> DeviceRanges | None:
    """Torch's; None: this build has none, as those without CUDA."""
    torch = sys.modules.get("torch")
    nvtx: Any = getattr(getattr(torch, "cuda", None), "nvtx", None)
    if attempted(
        lambda: nvtx.range_end(nvtx.range_start("latencytrace")) is None, otherwise=False
    ):
        ranges: DeviceRanges = nvtx
        return ranges
    logger.warning("latencytrace: LATENCYTRACE_NVTX is set, but this torch has no NVTX")
    return None


class DeviceEvent(Protocol):
    """A mark in a device's queue of work, which the device stamps when it comes to it.

    As CUDA's: never recorded it counts as complete; the time between two raises unless
    both were recorded and are complete.
    """

    def query(self) -> bool:
        """Tell whether the device has come to it."""
        ...

    def elapsed_time(self, end: Self, /) -> float:
        """Milliseconds on the device's clock from this event to another, in float32."""
        ...


class DeviceEvents(Protocol):
    """The events of one device; used by whichever thread has it compute."""

    @property
    def device_id(self) -> str:
        """Return the device: a UUID where there is one."""
        ...

    def event(self) -> Any:
        """A new event that takes the time."""
        ...

    def record(self, event: Any) -> None:
        """Put it behind all work that the current stream has now."""
        ...

    def is_capturing(self) -> bool:
        """Tell whether work is captured into a graph and not done: nothing may be recorded."""
        ...

    def asking(self) -> AbstractContextManager[object]:
        """Around questions to events, so that no graph that another thread captures breaks."""
        ...


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
    """Makes anchors when the last one is too old."""

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


MOST_PENDING: Final = (
    256  # passes of one span that the device has not come to; more are not measured
)
MOST_POOLED: Final = 1024
_MS: Final = 1e6


class DeviceTimer:
    """The events and the clock of one device.

    Args:
        now_ns: The host's monotonic clock.
        ranges: Shows passes to NVIDIA's profilers; None: nothing does.
    """

    def __init__(
        self,
        events: DeviceEvents,
        now_ns: Callable[[], int],
        ranges: DeviceRanges | None = None,
    ) -> None:
        self.events = events
        self.now_ns = now_ns
        self.ranges = ranges
        self.clock = DeviceClock(events)
        self._pool: deque[Any] = deque(maxlen=MOST_POOLED)

    def passes(self, stage: Stage = Stage.FORWARD) -> "DevicePasses":
        """Return what will measure the passes of one span."""
        return DevicePasses(self, stage)

    def take(self) -> Any:
        """An event that is free."""
        try:
            return self._pool.pop()
        except IndexError:
            return self.events.event()

    def give_back(self, *events: object) -> None:
        """Use these again; recording an event anew forgets what it was."""
        self._pool.extend(events)


class _Pass:
    """One under way, or done and not yet seen to be."""

    __slots__ = ("anchor", "began_ns", "end", "ended_ns", "range_id", "start")

    def __init__(self, anchor: Anchor, start: DeviceEvent, began_ns: int) -> None:
        self.anchor = anchor
        self.start = start
        self.began_ns = began_ns  # the host's times
        self.range_id: int | None = None  # of the range around it
        self.end: Any = None  # a `DeviceEvent`
        self.ended_ns = 0


class _Queued:
    """Waits of passes since one anchor, but for when that anchor was reached."""

    __slots__ = ("passes", "waited_ns")

    def __init__(self) -> None:
        self.passes = 0
        self.waited_ns = 0.0


class DevicePasses:
    """The passes of one span, in order; used by one thread at a time."""

    __slots__ = (
        "_device_ns", "_first", "_last", "_launch_ns", "_measured", "_open", "_pending", "_queued",
        "_stage", "_timer", "unmeasured",
    )  # fmt: skip

    def __init__(self, timer: DeviceTimer, stage: Stage) -> None:
        self._timer = timer
        self._stage = stage
        self._open: _Pass | None = None
        self._pending: deque[_Pass] = deque()
        self._measured = 0
        self._device_ns = 0.0
        self._launch_ns = 0
        self._first: tuple[Anchor, float] | None = None  # an anchor and the time after it
        self._last: tuple[Anchor, float] | None = None
        self._queued: dict[int, tuple[Anchor, _Queued]] = {}
        self.unmeasured = 0

    def another(self, stage: Stage) -> "DevicePasses":
        """Return what will measure those of the next span on the same device."""
        return self._timer.passes(stage)

    def begin(self) -> None:
        """The host begins to hand over a pass."""
        timer = self._timer
        self.drop_open()
        if timer.events.is_capturing() or len(self._pending) >= MOST_PENDING:
            self.unmeasured += 1
            return
        now_ns = timer.now_ns()
        anchor = timer.clock.anchor(now_ns)
        start = timer.take()
        timer.events.record(start)
        self._open = _Pass(anchor, start, now_ns)
        if timer.ranges is not None:
            self._open.range_id = timer.ranges.range_start(self._stage.value)

    def end(self) -> None:
        """The host has handed it over."""
        one, timer = self._open, self._timer
        if one is None:
            return
        if timer.events.is_capturing():  # it began outside of the graph
            self.drop_open()
            self.unmeasured += 1
            return
        self._open = None
        self._end_range(one)
        one.end = timer.take()
        timer.events.record(one.end)
        one.ended_ns = timer.now_ns()
        self._pending.append(one)

    def drop_open(self) -> None:
        """Forget a pass that began and does not end."""
        if self._open is not None:
            self._end_range(self._open)
            self._timer.give_back(self._open.start)
            self._open = None

    def _end_range(self, one: _Pass) -> None:
        range_id, one.range_id = one.range_id, None
        if range_id is not None and self._timer.ranges is not None:
            self._timer.ranges.range_end(range_id)

    def settle(self) -> bool:
        """Read the passes that the device is done with, without waiting.

        Returns:
            Whether that are all of them.
        """
        timer = self._timer
        if not self._pending or timer.events.is_capturing():
            return not self._pending
        with timer.events.asking():
            while self._pending and self._pending[0].end.query():
                self._read(self._pending.popleft())
        return not self._pending

    def abandon(self) -> None:
        """Give up the passes that are not done: they count as unmeasured."""
        self.drop_open()
        self.unmeasured += len(self._pending)
        while self._pending:  # used again though the device may not have come to them yet
            one = self._pending.popleft()
            self._timer.give_back(one.start, one.end)

    def attributes(self, span_started_ns: int) -> dict[str, AttributeValue]:
        """Return what is known now, as attributes; nothing, if no pass was measured."""
        noted: dict[str, AttributeValue] = {}
        if self.unmeasured:
            noted[semconv.DEVICE_UNMEASURED] = self.unmeasured
        if not self._measured:
            return noted
        noted[semconv.DEVICE_ID] = self._timer.events.device_id
        noted[semconv.DEVICE_PASSES] = self._measured
        noted[semconv.DEVICE_DURATION] = round(self._device_ns)
        noted[semconv.DEVICE_LAUNCH] = self._launch_ns
        noted.update(self._placed(span_started_ns))
        return noted

    def _read(self, one: _Pass) -> None:
        timer = self._timer
        seen_ns = timer.now_ns()
        device_ns = one.start.elapsed_time(one.end) * _MS
        self._device_ns += device_ns
        self._launch_ns += one.ended_ns - one.began_ns
        self._measured += 1
        if one.anchor.event.query():  # of another stream it may not be reached yet
            start_ns = one.anchor.event.elapsed_time(one.start) * _MS
            end_ns = start_ns + device_ns
            one.anchor.bound(start_ns, one.began_ns, seen_ns)
            one.anchor.bound(end_ns, one.began_ns, seen_ns)
            self._first = self._first or (one.anchor, start_ns)
            self._last = (one.anchor, end_ns)
            _, queued = self._queued.setdefault(id(one.anchor), (one.anchor, _Queued()))
            queued.passes += 1
            queued.waited_ns += start_ns - one.began_ns
        timer.give_back(one.start, one.end)

    def _placed(self, span_started_ns: int) -> dict[str, AttributeValue]:
        """Return when the device worked, and how long the passes waited for it."""
        if self._first is None or self._last is None:
            return {}
        first = self._first[0].placed(self._first[1])
        last = self._last[0].placed(self._last[1])
        if first is None or last is None:
            return {}
        waited_ns = 0.0
        for anchor, queued in self._queued.values():
            at = anchor.placed(0.0)
            waited_ns += queued.waited_ns + queued.passes * at[0] if at else 0.0
        start_ns = max(0, first[0] - span_started_ns)
        return {
            semconv.DEVICE_START: start_ns,
            semconv.DEVICE_END: max(start_ns, last[0] - span_started_ns),
            semconv.DEVICE_QUEUE_DELAY: max(0, round(waited_ns)),
            semconv.DEVICE_ERROR: max(first[1], last[1]),
        }
