"""A device of which the host knows only events, faithful to CUDA's: with the host's clock."""

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tests.support.fakes.contracts import FakeClock


class FakeEvent:
    """As `torch.cuda.Event(enable_timing=True)`."""

    def __init__(self, cuda: "FakeCuda") -> None:
        self._cuda = cuda
        self.reached_ns: int | None = None  # None: never recorded
        self.is_captured = False

    def query(self) -> bool:
        """True if it was never recorded, too."""
        self._cuda.asked()
        return self.reached_ns is None or self.reached_ns <= self._cuda.clock()

    def elapsed_time(self, end: "FakeEvent", /) -> float:
        """In float32; raises unless both are recorded and complete."""
        if self.is_captured or end.is_captured:
            raise RuntimeError("cudaErrorInvalidValue")
        if self.reached_ns is None or end.reached_ns is None:
            raise RuntimeError("both events must be recorded before calculating elapsed time")
        if not (self.query() and end.query()):
            raise RuntimeError("cudaErrorNotReady")
        elapsed_ms = (end.reached_ns - self.reached_ns) * self._cuda.pace / 1e6
        return float(struct.unpack("f", struct.pack("f", elapsed_ms))[0])


class FakeCuda:
    """One device with one stream: work is done in order, each piece as soon as it can be.

    Args:
        clock: The host's.
        pace: How fast the device's clock goes.
    """

    device_id = "GPU-a"

    def __init__(self, clock: FakeClock, pace: float = 1.0) -> None:
        self.clock = clock
        self.pace = pace
        self.made = 0
        self.asked_while_capturing = False
        self.captures = False  # this thread
        self.captures_elsewhere = False  # another one, in the default mode
        self.free_ns = 0
        self._may_ask = False
        self.questions = 0  # whether an event was reached

    def work(self, milliseconds: float) -> None:
        """Hand over work, which takes no time of the host's."""
        if not self.captures:
            self.free_ns = max(self.free_ns, self.clock()) + round(milliseconds * 1e6)

    def wait(self) -> None:
        """Have the host wait for all of it, as `.item()` does."""
        self.clock.now_ns = max(self.clock.now_ns, self.free_ns)

    def event(self) -> FakeEvent:
        """See `DeviceEvents.event`."""
        self.made += 1
        return FakeEvent(self)

    def record(self, event: FakeEvent) -> None:
        """See `DeviceEvents.record`; while capturing it becomes a part of the graph."""
        event.is_captured = self.captures
        event.reached_ns = max(self.free_ns, self.clock())

    def is_capturing(self) -> bool:
        """See `DeviceEvents.is_capturing`."""
        return self.captures

    def asking(self) -> AbstractContextManager[object]:
        """See `DeviceEvents.asking`."""
        return self._asking() if self.captures_elsewhere else nullcontext()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._may_ask = True
        yield
        self._may_ask = False

    def asked(self) -> None:
        """A question breaks a capture under way, but for where it is allowed."""
        self.questions += 1
        if self.captures or (self.captures_elsewhere and not self._may_ask):
            self.asked_while_capturing = True
