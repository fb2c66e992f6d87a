"""Readings of NVML from one GPU, or from one instance of a partitioned one."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from latencytrace.agent.gpu.reader import Detail
from latencytrace.agent.gpu.readers.nvml.calls import NvmlCalls
from latencytrace.agent.gpu.readers.nvml.gpm import GpmWindows, Window, bandwidth
from latencytrace.model.gpu import (
    ClockEvent,
    GpuDevice,
    GpuMetric,
    GpuSample,
    Reading,
)

_SM_CLOCK, _MEMORY_CLOCK = 1, 2

# By compute capability: CUDA cores of a multiprocessor, and the operations of its tensor cores in
# a cycle, in half precision and dense. Source: NVIDIA's white papers of each architecture.
_MULTIPROCESSORS: Final = {
    (7, 0): (64, 1024),
    (7, 2): (64, 1024),
    (7, 5): (64, 1024),
    (8, 0): (64, 2048),
    (8, 6): (128, 1024),
    (8, 7): (128, 2048),
    (8, 9): (128, 1024),
    (9, 0): (128, 4096),
    (10, 0): (128, 8192),
    (10, 3): (128, 8192),
    (12, 0): (128, 1024),
}

Number = Callable[..., float | None]  # asks a GPU for a number by a call's name


def bandwidth_peak(number: Number) -> float | None:
    """Bytes a second: both edges of the clock, over the width of the bus: of HBM and of GDDR."""
    width_bits = number("nvmlDeviceGetMemoryBusWidth")
    clock_mhz = number("nvmlDeviceGetMaxClockInfo", _MEMORY_CLOCK)
    if not width_bits or not clock_mhz:
        return None
    return width_bits / 8 * 2 * clock_mhz * 1e6


def tensor_peak(calls: NvmlCalls, uuid: str, handle: object, number: Number) -> float | None:
    """Operations a second of all tensor cores; None: of a GPU that is not known."""
    capability = calls.ask(uuid, "nvmlDeviceGetCudaComputeCapability", handle)
    known = _MULTIPROCESSORS.get(tuple(capability)) if capability else None
    if known is None:
        return None
    cores = number("nvmlDeviceGetNumGpuCores")
    clock_mhz = number("nvmlDeviceGetMaxClockInfo", _SM_CLOCK)
    if not cores or not clock_mhz:
        return None
    cores_each, operations = known
    return cores / cores_each * operations * clock_mhz * 1e6


_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_DIE = 0  # a temperature sensor
_MEMORY_TEMPERATURE = 82  # a field
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
_NO_VALUE: Final = 0xFFFF_FFFF  # what the library puts where there is nothing
_NO_LONG_VALUE: Final = 0xFFFF_FFFF_FFFF_FFFF
_CLOCK_EVENTS: Final = {
    0x1: ClockEvent.IDLE,
    0x2: ClockEvent.APPLICATION_CLOCKS,
    0x4: ClockEvent.SW_POWER_CAP,
    0x8: ClockEvent.HW_SLOWDOWN,
    0x10: ClockEvent.SYNC_BOOST,
    0x20: ClockEvent.SW_THERMAL,
    0x40: ClockEvent.HW_THERMAL,
    0x80: ClockEvent.HW_POWER_BRAKE,
    0x100: ClockEvent.DISPLAY_CLOCKS,
}


class NvmlDevice:
    """Reads one GPU.

    Args:
        windows: What it counts by itself; None: nothing.
        wall_ns: Unix time.
    """

    def __init__(
        self,
        calls: NvmlCalls,
        device: GpuDevice,
        handle: Any,
        windows: GpmWindows | None,
        wall_ns: Callable[[], int],
    ) -> None:
        self.device = device
        self.handle = handle
        self.xids: Counter[str] = Counter()
        self._calls = calls
        self._windows = windows
        self._wall_ns = wall_ns
        # Of an instance the library tells the whole GPU's peak, which it has only a part of.
        whole = device.parent_uuid is None
        self._peak = bandwidth_peak(self._number) if whole else None
        self._tensor_peak = (
            tensor_peak(calls, device.uuid, handle, self._number) if whole else None
        )

    def sample(self, detail: Detail) -> GpuSample:
        """Read it.

        Raises:
            GpuLostError: The GPU does not answer any more.
        """
        window = self._windows.next() if self._windows else None
        readings = [*self._counted(window), *self._clock_readings()]
        if detail >= Detail.SLOW:
            readings += [*self._slow()]
        if detail >= Detail.RARE:
            readings += [*self._rare()]
        return GpuSample(
            device=self.device,
            start_ns=window.start_ns if window else None,
            end_ns=window.end_ns if window else self._wall_ns(),
            readings=tuple(readings),
        )

    def close(self) -> None:
        """Free what reading it took."""
        if self._windows is not None:
            self._windows.close()

    def _ask(self, name: str, *arguments: object) -> Any:
        return self._calls.ask(self.device.uuid, name, self.handle, *arguments)

    def _number(self, name: str, *arguments: object) -> float | None:
        """A number, unless the library says that it has none."""
        answer = self._ask(name, *arguments)
        if answer is None or answer in {_NO_VALUE, _NO_LONG_VALUE}:
            return None
        return float(answer)

    def _counted(self, window: Window | None) -> list[Reading]:
        if window is None:
            return []
        return [*window.readings, *bandwidth(window.readings, self._peak)]

    def _clock_readings(self) -> Iterator[Reading]:
        if self.device.parent_uuid:  # an instance has its GPU's
            return
        clock_mhz = self._number("nvmlDeviceGetClockInfo", _SM_CLOCK)
        if clock_mhz is not None:
            yield Reading(GpuMetric.CLOCK, clock_mhz * 1e6, "sm")
        reasons = self._clock_events()
        if reasons is not None:
            for bit, event in _CLOCK_EVENTS.items():
                yield Reading(GpuMetric.CLOCK_EVENT, float(bool(reasons & bit)), event)

    def _clock_events(self) -> int | None:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # drivers before 535 know it by its old name
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if reasons is None else int(reasons)

    def _slow(self) -> Iterator[Reading]:
        yield from self._memory()
        if self.device.parent_uuid:
            return
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        if utilization is not None and max(utilization.gpu, utilization.memory) <= 100:  # noqa: PLR2004 - percent
            yield Reading(GpuMetric.KERNEL_ACTIVE, utilization.gpu / 100)
            yield Reading(GpuMetric.MEMORY_CONTROLLER_BUSY, utilization.memory / 100)
        power_mw = self._number("nvmlDeviceGetPowerUsage")
        if power_mw is not None:
            yield Reading(GpuMetric.POWER, power_mw / 1000)
        energy_mj = self._number("nvmlDeviceGetTotalEnergyConsumption")
        if energy_mj is not None:
            yield Reading(GpuMetric.ENERGY, energy_mj / 1000)
        celsius = self._number("nvmlDeviceGetTemperature", _DIE)
        if celsius is not None:
            yield Reading(GpuMetric.TEMPERATURE, celsius, "gpu")
        for xid, number in self.xids.items():
            yield Reading(GpuMetric.XID_ERRORS, float(number), xid)

    def _memory(self) -> Iterator[Reading]:
        version = getattr(self._calls.binding, "nvmlMemory_v2", None)
        memory = self._ask("nvmlDeviceGetMemoryInfo", version) if version else None
        if memory is not None:
            yield Reading(GpuMetric.MEMORY_RESERVED, float(memory.reserved))
        else:  # drivers before 515; what is used then includes what the driver keeps
            memory = self._calls.ask(
                f"{self.device.uuid} v1", "nvmlDeviceGetMemoryInfo", self.handle
            )
        if memory is not None:
            yield Reading(GpuMetric.MEMORY_USED, float(memory.used))
            yield Reading(GpuMetric.MEMORY_TOTAL, float(memory.total))

    def _rare(self) -> Iterator[Reading]:
        if self.device.parent_uuid:
            return
        clock_mhz = self._number("nvmlDeviceGetClockInfo", _MEMORY_CLOCK)
        if clock_mhz is not None:
            yield Reading(GpuMetric.CLOCK, clock_mhz * 1e6, "memory")
        if self._peak is not None:
            yield Reading(GpuMetric.BANDWIDTH_PEAK, self._peak)
        if self._tensor_peak is not None:
            yield Reading(GpuMetric.TENSOR_PEAK, self._tensor_peak)
        for kind, name in ((_CORRECTED, "corrected"), (_UNCORRECTED, "uncorrected")):
            errors = self._number("nvmlDeviceGetTotalEccErrors", kind, _VOLATILE)
            if errors is not None:
                yield Reading(GpuMetric.ECC_ERRORS, errors, name)
        fields = self._ask("nvmlDeviceGetFieldValues", [_MEMORY_TEMPERATURE])
        if fields is not None and fields[0].nvmlReturn == 0:
            yield Reading(GpuMetric.TEMPERATURE, float(fields[0].value.uiVal), "memory")
