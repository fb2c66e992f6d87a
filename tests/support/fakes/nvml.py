"""Builds the fake of NVIDIA's library, and holds its controls."""

import ctypes
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
IN_PROCESS = "libfakenvml.so"  # not the real name, by which the loader would find it for others
SONAME = "libnvidia-ml.so.1"

NOT_SUPPORTED, NO_PERMISSION, NO_DRIVER, NO_FUNCTION, GPU_LOST, MISMATCH, UNKNOWN = (
    3, 4, 9, 13, 15, 18, 999,
)  # fmt: skip
FOR_EVER = -1
DRAM, SM, ENGINE, TENSOR = 10, 2, 1, 5  # GPM's numbers


def compiler() -> str | None:
    """A C compiler, if this machine has one."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path, name: str = IN_PROCESS) -> Path:
    """Compile it.

    Args:
        folder: Where to.
        name: Its own name; `SONAME` for a process that shall take it for the real one.
    """
    library = folder / name
    command = [
        compiler() or "cc", "-shared", "-fPIC", "-O1", f"-Wl,-soname,{name}",
        "-o", str(library), str(SOURCE), "-lpthread",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return library


class FakeNvml:
    """The controls of the fake, in this process.

    Args:
        library: As `build` made it.
    """

    def __init__(self, library: Path) -> None:
        self.path = str(library)
        self.library = ctypes.CDLL(self.path)
        self.library.fake_set_clock.argtypes = [ctypes.c_double]
        self.library.fake_set_rate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
        self.library.fake_set_instance_rate.argtypes = [*[ctypes.c_int] * 3, ctypes.c_double]
        self.library.fake_set.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_double]
        self.library.fake_calls.restype = ctypes.c_long
        self.library.fake_live_gpm_samples.restype = ctypes.c_long

    def reset(self, gpus: int = 1) -> None:
        """Begin anew with so many GPUs, all idle."""
        self.library.fake_reset(gpus)

    def set_clock_s(self, seconds: float) -> None:
        """Move its clock."""
        self.library.fake_set_clock(seconds)

    def rate(self, metric: int, value: float, gpu: int = 0) -> None:
        """What a counter of the device counts a second, from now on."""
        self.library.fake_set_rate(gpu, metric, value)

    def instance_rate(self, instance: int, metric: int, value: float) -> None:
        """The same of an instance of a divided GPU."""
        self.library.fake_set_instance_rate(0, instance, metric, value)

    def metric_fails(self, metric: int, code: int) -> None:
        """One metric of GPM fails, from now on."""
        self.library.fake_set_metric_rc(metric, code)

    def set(self, name: str, value: float, gpu: int = 0) -> None:
        """One of its plain values."""
        assert self.library.fake_set(gpu, name.encode(), value) == 0

    def fails(self, function: str, code: int, times: int = FOR_EVER) -> None:
        """A function fails so many times."""
        self.library.fake_set_rc(function.encode(), code, times)

    def hangs(self, function: str, seconds: float) -> None:
        """A function takes this long."""
        self.library.fake_set_delay_us(function.encode(), round(seconds * 1e6))

    def strict_after_fork(self) -> None:
        """From now on a forked child has to begin anew, as with the real one."""
        self.library.fake_fork_strict()

    def calls(self, function: str) -> int:
        """How often a function was called."""
        return int(self.library.fake_calls(function.encode()))

    def xid(self, number: int, gpu: int = 0) -> None:
        """Report a fault."""
        self.library.fake_xid(gpu, number)

    @property
    def live_gpm_samples(self) -> int:
        """Buffers that were taken and not given back."""
        return int(self.library.fake_live_gpm_samples())
