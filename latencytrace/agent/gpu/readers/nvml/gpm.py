"""Counters of Hopper and newer GPUs between two looks ("GPM")."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from latencytrace.agent.gpu.readers.nvml.calls import NvmlCalls
from latencytrace.model.gpu import BandwidthMethod, GpuMetric, Pipe, Reading

# NVIDIA's header: the counters are refreshed every 100 ms, shorter windows are invalid.
SHORTEST_WINDOW_NS: Final = 105_000_000
_TOO_MUCH: Final = 1.05  # a share above this is no reading; a little above 1 is rounding
_MIB: Final = 1024 * 1024

# By the metric's number in `nvml.h`, which does not change between versions.
_SHARES: Final = {
    1: (GpuMetric.ENGINE_ACTIVE, None),
    2: (GpuMetric.SM_ACTIVE, None),
    3: (GpuMetric.SM_OCCUPANCY, None),
    4: (GpuMetric.PIPE_ACTIVE, Pipe.INT),
    5: (GpuMetric.PIPE_ACTIVE, Pipe.TENSOR_ANY),
    7: (GpuMetric.PIPE_ACTIVE, Pipe.TENSOR_HMMA),
    9: (GpuMetric.PIPE_ACTIVE, Pipe.TENSOR_IMMA),
    10: (GpuMetric.BANDWIDTH_UTILIZATION, BandwidthMethod.GPM),
    11: (GpuMetric.PIPE_ACTIVE, Pipe.FP64),
    12: (GpuMetric.PIPE_ACTIVE, Pipe.FP32),
    13: (GpuMetric.PIPE_ACTIVE, Pipe.FP16),
}
_RATES: Final = {  # MiB per second
    20: (GpuMetric.PCIE, "transmit"),
    21: (GpuMetric.PCIE, "receive"),
    60: (GpuMetric.NVLINK, "receive"),
    61: (GpuMetric.NVLINK, "transmit"),
}
_NUMBERS: Final = (*_SHARES, *_RATES)


@dataclass(frozen=True, slots=True)
class Window:
    """Means over `[start_ns, end_ns)`."""

    start_ns: int
    end_ns: int
    readings: tuple[Reading, ...]


class GpmWindows:
    """The windows of one GPU, each beginning where the one before ended.

    Args:
        wall_ns: Unix time.
    """

    def __init__(
        self,
        calls: NvmlCalls,
        uuid: str,
        handle: Any,
        wall_ns: Callable[[], int],
    ) -> None:
        self._calls = calls
        self._uuid = uuid
        self._handle = handle
        self._wall_ns = wall_ns
        self._buffers: list[Any] = []
        self._taken_ns: int | None = None  # of the first buffer; None: it holds nothing
        self._useless: set[int] = set()  # numbers that this GPU does not know

    def open(self) -> bool:
        """Tell whether this GPU counts."""
        support = self._calls.ask(self._uuid, "nvmlGpmQueryDeviceSupport", self._handle)
        if support is None or not support.isSupportedDevice:
            return False
        for _ in range(2):
            buffer = self._calls.ask(self._uuid, "nvmlGpmSampleAlloc")
            if buffer is None:
                self.close()
                return False
            self._buffers.append(buffer)
        return True

    def close(self) -> None:
        """Free the buffers."""
        while self._buffers:
            self._calls.ask(self._uuid, "nvmlGpmSampleFree", self._buffers.pop())

    def next(self) -> Window | None:
        """The window since the last call; None: it is too short yet, or cannot be read."""
        if not self._buffers:
            return None
        before_ns = self._wall_ns()
        if self._taken_ns is not None and before_ns - self._taken_ns < SHORTEST_WINDOW_NS:
            return None
        older, newer = self._buffers
        if self._calls.ask(self._uuid, "nvmlGpmSampleGet", self._handle, newer) is None:
            self._taken_ns = None  # a window across the failure would hide it
            return None
        taken_ns = (before_ns + self._wall_ns()) // 2
        start_ns, self._taken_ns = self._taken_ns, taken_ns
        self._buffers = [newer, older]
        if start_ns is None:
            return None
        readings = self._readings(older, newer)
        return Window(start_ns, taken_ns, readings) if readings else None

    def _readings(self, older: object, newer: object) -> tuple[Reading, ...]:
        binding = self._calls.binding
        numbers = [number for number in _NUMBERS if number not in self._useless]
        asked = binding.c_nvmlGpmMetricsGet_t()
        asked.version = binding.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(numbers)
        asked.sample1, asked.sample2 = older, newer
        for place, number in enumerate(numbers):
            asked.metrics[place].metricId = number
        if self._calls.ask(self._uuid, "nvmlGpmMetricsGet", asked) is None:
            return ()
        found = (self._reading(asked.metrics[place]) for place in range(len(numbers)))
        return tuple(reading for reading in found if reading is not None)

    def _reading(self, metric: Any) -> Reading | None:
        number, value = metric.metricId, metric.value
        if metric.nvmlReturn != 0:
            self._useless.add(number)
            self._calls.count("nvmlGpmMetricsGet", f"metric_{number}")
            return None
        share = _SHARES.get(number)
        if not math.isfinite(value) or value < 0 or (share and value / 100 > _TOO_MUCH):
            self._calls.count("nvmlGpmMetricsGet", "no_number")
            return None
        if share is not None:
            return Reading(share[0], min(value / 100, 1.0), share[1])
        name, direction = _RATES[number]
        return Reading(name, value * _MIB, direction)


def bandwidth(share: Sequence[Reading], peak_bytes_per_s: float | None) -> list[Reading]:
    """The bytes per second that shares of the peak bandwidth are."""
    if peak_bytes_per_s is None:
        return []
    return [
        Reading(GpuMetric.BANDWIDTH, reading.value * peak_bytes_per_s, reading.label)
        for reading in share
        if reading.metric is GpuMetric.BANDWIDTH_UTILIZATION
    ]
