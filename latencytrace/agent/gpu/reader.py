"""The contract of a GPU reader: one vendor's counters; and the readers that are installed."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.process.forks import whole_imports
from latencytrace.model.gpu import GpuDevice, GpuSample
from latencytrace.plugins import GPU_READERS, plugins


class Detail(IntEnum):
    """Detail of the readings of one tick; each level contains those before it."""

    FAST = 0  # counters over a window, clocks: every tick
    SLOW = 1  # power, memory, temperature: every second or so
    RARE = 2  # what hardly ever changes, or costs more


class GpuReader(Protocol):
    """Reads the GPUs of one vendor; every call comes from the one sampling thread.

    A reading that cannot be had is left out of its sample and counted in `errors`: it
    never becomes a 0. A call may hang for as long as a broken driver likes; nothing
    but the sampling thread waits for it, so it must release the interpreter.
    """

    @property
    def errors(self) -> Mapping[tuple[str, str], int]:
        """Return how often a call failed, by the names of the call and of the error."""
        ...

    def open(self) -> Sequence[GpuDevice]:
        """Begin to read; the GPUs there are, none of them is an answer too.

        Raises:
            GpuUnavailableError: Nothing can be read, now or ever.
        """
        ...

    def read(self, detail: Detail) -> Sequence[GpuSample]:
        """One sample of each GPU that still answers.

        Raises:
            GpuUnavailableError: No GPU answers any more: open again, later.
        """
        ...

    def close(self) -> None:
        """Give back what `open` took."""
        ...

    def reset_after_fork(self) -> None:
        """In a forked child: forget everything, without a call into the library."""
        ...


def installed_gpu_readers(on_fault: OnFault) -> list[GpuReader]:
    """One of each kind; one that cannot be loaded is logged and left out."""
    readers: list[GpuReader] = []
    for plugin in plugins(GPU_READERS):
        with guarded(f"loading the GPU reader {plugin.name!r}", on_fault):
            with whole_imports.lock:
                kind = plugin.load()
            readers.append(kind())
    return readers
