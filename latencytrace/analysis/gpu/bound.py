"""The bound of a stage on its GPU: arithmetic, memory, copies, the host, or nothing we know."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from latencytrace.analysis.gpu.join import DeviceUse
from latencytrace.model.gpu import DeviceWork

# What real kernels reach of the peaks that are counted against; measured on one H200: a copy
# 0.875 of the bandwidth, a product of bf16 matrices 0.80 of the tensor cores.
REACHED_BANDWIDTH: Final = 0.85
REACHED_TENSOR: Final = 0.80
REACHED_FP32: Final = 0.90
# Judgement, not measured yet: where a roof begins.
NEAR_ROOF: Final = 0.6
IDLE_RATIO: Final = 0.7
HOST_RATIO: Final = 0.8
QUEUED_RATIO: Final = 0.2
OFTEN_RATIO: Final = 0.1  # of its windows: worth saying
MOSTLY_RATIO: Final = 0.5  # of its windows: nothing else is known
LEAST_COVERAGE_RATIO: Final = 0.5


class Bound(StrEnum):
    """The thing that held a stage up."""

    COMPUTE = "compute"
    MEMORY_BANDWIDTH = "memory_bandwidth"
    COPY = "copy"
    LAUNCH_OR_SYNC = "launch_or_sync"  # the host feeds the device too slowly, or waits for it
    GPU_IDLE = "gpu_idle"  # the device had nothing of this stage to do
    LATENCY_OR_MIXED = "latency_or_mixed"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """The certainty of a verdict."""

    HIGH = "high"  # counters of the device
    MEDIUM = "medium"  # times of the device, what it must move, or counters far from every roof
    LOW = "low"  # how fast the host was, alone; what must be computed, by a table of peaks
    NONE = "none"


_UNSURE: Final = frozenset({Confidence.LOW, Confidence.NONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimes:
    """Pieces of work added up."""

    wall_ns: int
    device_ns: int
    launch_ns: int
    queue_ns: int | None
    moved_bytes: int | None = None  # at the least; None: not known of all of them
    flops: int | None = None  # likewise

    @classmethod
    def of(cls, work: Sequence[DeviceWork]) -> "DeviceTimes":
        """All of them together."""
        queues = [one.queue_ns for one in work if one.queue_ns is not None]
        return cls(
            wall_ns=sum(one.wall_ns for one in work),
            device_ns=sum(one.device_ns for one in work),
            launch_ns=sum(one.launch_ns for one in work),
            queue_ns=sum(queues) if queues else None,
            moved_bytes=_sum_if_known([one.moved_bytes for one in work]),
            flops=_sum_if_known([one.flops for one in work]),
        )

    def modelled_bandwidth(self, peak_bytes_per_s: float | None) -> float | None:
        """The least share of memory's peak bandwidth that was used while the device worked.

        Returns:
            None: it is not known, or cannot be: more than there is would be used.
        """
        return self._least(self.moved_bytes, peak_bytes_per_s)

    def modelled_tensor(self, peak_flops_per_s: float | None) -> float | None:
        """The least share of the tensor cores' peak that was used, likewise."""
        return self._least(self.flops, peak_flops_per_s)

    def _least(self, amount: int | None, peak_per_s: float | None) -> float | None:
        if amount is None or not peak_per_s or self.device_ns <= 0:
            return None
        ratio = amount / (self.device_ns / 1e9) / peak_per_s
        return ratio if ratio <= 1 else None


def _sum_if_known(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVerdict:
    """The bound of a stage, how sure that is, and what else is worth knowing."""

    bound: Bound
    confidence: Confidence
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The most that a GPU can do at its highest clocks; None: not known."""

    bytes_per_s: float | None = None  # of its memory
    flops_per_s: float | None = None  # of its tensor cores in half precision


NO_PEAKS: Final = Peaks()


def verdict(
    times: DeviceTimes,
    use: DeviceUse,
    *,
    peaks: Peaks = NO_PEAKS,
    copies: bool = False,
) -> GpuVerdict:
    """Judge a stage by its times on the device, and by what it used there if that is known.

    Args:
        times: Times of the stage, from the device timer.
        use: What work of its kind used.
        copies: Whether the work is copies between host and device.
    """
    notes = tuple(_notes(times, use))
    bound, confidence = _judged(times, use, copies=copies)
    modelled = _modelled(times, peaks) if confidence in _UNSURE else None
    if modelled is not None and times.wall_ns > 0:
        return GpuVerdict(bound=modelled[0], confidence=modelled[1], notes=(*notes, "modelled"))
    return GpuVerdict(bound=bound, confidence=confidence, notes=notes)


def _modelled(times: DeviceTimes, peaks: Peaks) -> tuple[Bound, Confidence] | None:
    """By what the work must move and compute: both at the least, so that near a roof is near it.

    None: it is near none, or may be.
    """
    memory = (times.modelled_bandwidth(peaks.bytes_per_s) or 0) / REACHED_BANDWIDTH
    arithmetic = (times.modelled_tensor(peaks.flops_per_s) or 0) / REACHED_TENSOR
    if max(memory, arithmetic) < NEAR_ROOF:
        return None
    if memory >= arithmetic:
        return Bound.MEMORY_BANDWIDTH, Confidence.MEDIUM
    return Bound.COMPUTE, Confidence.LOW


def _judged(times: DeviceTimes, use: DeviceUse, *, copies: bool) -> tuple[Bound, Confidence]:
    if times.wall_ns <= 0 or times.device_ns <= 0:
        return Bound.UNKNOWN, Confidence.NONE
    if copies:
        return Bound.COPY, Confidence.MEDIUM
    if 1 - times.device_ns / times.wall_ns > IDLE_RATIO:
        return Bound.GPU_IDLE, Confidence.MEDIUM
    is_host_slow = times.launch_ns / times.device_ns >= HOST_RATIO
    memory, arithmetic = _to_roofs(use)
    if memory is not None and arithmetic is not None:
        return _by_roofs(memory, arithmetic, is_host_slow=is_host_slow)
    if is_host_slow and (use.foreign_ratio or 0) < MOSTLY_RATIO:
        return Bound.LAUNCH_OR_SYNC, Confidence.LOW
    return Bound.UNKNOWN, Confidence.NONE


def _by_roofs(memory: float, arithmetic: float, *, is_host_slow: bool) -> tuple[Bound, Confidence]:
    if max(memory, arithmetic) >= NEAR_ROOF:
        nearer = Bound.MEMORY_BANDWIDTH if memory >= arithmetic else Bound.COMPUTE
        return nearer, Confidence.HIGH
    if is_host_slow:
        return Bound.LAUNCH_OR_SYNC, Confidence.MEDIUM
    return Bound.LATENCY_OR_MIXED, Confidence.MEDIUM


def _to_roofs(use: DeviceUse) -> tuple[float | None, float | None]:
    """Return how near the stage came to the roof of memory, and to that of arithmetic."""
    if use.coverage_ratio < LEAST_COVERAGE_RATIO or (use.foreign_ratio or 0) >= MOSTLY_RATIO:
        return None, None
    bandwidth = use.ratio("bandwidth_ratio")
    pipes = [
        ratio / reached
        for ratio, reached in (
            (use.ratio("tensor_ratio"), REACHED_TENSOR),
            (use.ratio("fp32_ratio"), REACHED_FP32),
        )
        if ratio is not None
    ]
    if bandwidth is None or not pipes:
        return None, None
    return bandwidth / REACHED_BANDWIDTH, max(pipes)


def _notes(times: DeviceTimes, use: DeviceUse) -> Iterable[str]:
    if (use.throttled_ratio or 0) >= OFTEN_RATIO:
        yield "throttled"
    if (use.foreign_ratio or 0) >= OFTEN_RATIO:
        yield "foreign_load"
    if times.queue_ns is not None and times.queue_ns > QUEUED_RATIO * times.device_ns:
        yield "queued"
