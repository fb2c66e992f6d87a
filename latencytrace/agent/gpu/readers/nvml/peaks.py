"""Peak rates of NVIDIA's GPUs, at their highest clocks."""

from collections.abc import Callable
from typing import Final

from latencytrace.agent.gpu.readers.nvml.calls import NvmlCalls

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
