"""Counts of a GPU over a short stretch of time, and the work that was on it."""

from dataclasses import dataclass

from latencytrace.model.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWindow:
    """Means over `[start_ns, end_ns)` of one GPU, as ratios; None: not read."""

    start_ns: int
    end_ns: int
    bandwidth_ratio: float | None = None  # of memory's peak
    tensor_ratio: float | None = None
    fp32_ratio: float | None = None
    sm_ratio: float | None = None
    engine_ratio: float | None = None  # of time with work, of whomever
    throttled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWork:
    """The work that one span had a GPU do, as the device timer measured it."""

    trace_id: str
    span_id: str
    service: str
    model: str | None
    stage: Stage
    gpu: str  # its UUID
    start_ns: int  # Unix time: of the first work on the device
    end_ns: int  # of the last
    device_ns: int  # how long the device worked in between, the gaps between passes left out
    wall_ns: int  # of the span
    launch_ns: int  # how long the host took to hand the work over
    queue_ns: int | None = None  # how long the work waited for earlier work of the device
    error_ns: int | None = None  # by how much start and end may be wrong
    moved_bytes: int | None = None  # of weights, at the least; None: not known
    flops: int | None = None  # operations in half precision, at the least; None: not known
