"""Stand-ins that keep our own contracts, for what cannot be had in a test."""

from collections.abc import Mapping, Sequence
from typing import Self

from latencytrace.agent.gpu.reader import Detail
from latencytrace.errors import GpuUnavailableError, SinkError, StoreError
from latencytrace.model.gpu import GpuDevice, GpuMetric, GpuSample, Reading
from latencytrace.service.sink import Notification
from latencytrace.service.store import Partition

GPU = GpuDevice(uuid="GPU-a", index=0, name="NVIDIA H200", vendor="nvidia", driver="580.1")


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        """What time it is."""
        return self.now_ns

    def move_s(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(seconds * 1e9)


class PartitionedStore:
    """A store, as far as partitions go.

    Args:
        partitions: Those that it has.
    """

    def __init__(self, *partitions: Partition) -> None:
        self.kept = list(partitions)
        self.fails: StoreError | None = None

    def partitions(self) -> list[Partition]:
        """See `Store.partitions`."""
        return list(self.kept)

    def drop(self, partition: Partition) -> None:
        """See `Store.drop`."""
        if self.fails is not None:
            raise self.fails
        self.kept.remove(partition)


class ScriptedGpuReader:
    """GPUs that do what a test says: each call of `read` takes the next of `script`.

    Args:
        clock: Moved by what a call takes.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.devices = [GPU]
        self.refusals: list[GpuUnavailableError] = []  # of the next openings
        self.fails: GpuUnavailableError | None = None  # of the next reading
        self.takes_s = 0.0  # each reading
        self.details: list[Detail] = []
        self.read_at_ns: list[int] = []
        self.calls: list[str] = []
        self.errors: Mapping[tuple[str, str], int] = {}

    def open(self) -> Sequence[GpuDevice]:
        """See `GpuReader.open`."""
        self.calls.append("open")
        if self.refusals:
            raise self.refusals.pop(0)
        return self.devices

    def read(self, detail: Detail) -> Sequence[GpuSample]:
        """See `GpuReader.read`."""
        self.details.append(detail)
        self.read_at_ns.append(self.clock())
        self.clock.move_s(self.takes_s)
        if self.fails is not None:
            failure, self.fails = self.fails, None
            raise failure
        reading = Reading(GpuMetric.POWER, 75.0)
        return [
            GpuSample(device=device, start_ns=None, end_ns=self.clock(), readings=(reading,))
            for device in self.devices
        ]

    def close(self) -> None:
        """See `GpuReader.close`."""
        self.calls.append("close")

    def reset_after_fork(self) -> None:
        """See `GpuReader.reset_after_fork`."""
        self.calls.append("reset_after_fork")


class RecordingSink:
    """A sink that keeps what it is sent, or refuses it."""

    def __init__(self, repeat_s: float | None = None, ends: int = 1) -> None:
        self.repeat_s = repeat_s
        self.ends = ends
        self.refuses = False
        self.retry_after_s: float | None = None  # that it asks for where it refuses
        self.sent: list[Notification] = []

    @classmethod
    def open(cls, address: str) -> Self:
        """See `Sink.open`."""
        del address
        return cls()

    def send(self, notice: Notification, now_ns: int) -> None:
        """See `Sink.send`."""
        del now_ns
        if self.refuses:
            raise SinkError("it refuses", self.retry_after_s)
        self.sent.append(notice)

    def keys(self) -> list[str]:
        """What was sent, without which alert it was about."""
        return [notice.key.partition(":")[2] for notice in self.sent]
