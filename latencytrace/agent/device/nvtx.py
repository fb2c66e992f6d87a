"""Ranges in NVIDIA's profilers (NVTX), named by our stages, around what a device is timed for."""

import sys
from typing import Any, Protocol

from latencytrace.agent.guard import attempted, logger


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
