"""Calls of NVIDIA's management library through its binding, and what their failures mean."""

import ctypes
import importlib
from collections import Counter
from typing import Any, Final

from latencytrace.agent.process.forks import whole_imports
from latencytrace.errors import GpuUnavailableError, LatencytraceError

LIBRARY: Final = "libnvidia-ml.so.1"
LONGEST_PAUSE: Final = 256  # asks that are passed over after a call failed again and again
_UNINITIALIZED, _INVALID, _UNSUPPORTED, _FORBIDDEN, _NOT_FOUND = 1, 2, 3, 4, 6
_NO_DRIVER, _TIMEOUT, _NO_LIBRARY, _NO_FUNCTION = 9, 10, 12, 13
_LOST, _RESET_REQUIRED, _MISMATCH, _OTHER_STRUCTURE = 15, 16, 18, 25
_FOR_GOOD = frozenset({_INVALID, _UNSUPPORTED, _FORBIDDEN, _NO_FUNCTION, _OTHER_STRUCTURE})
_ALL_GONE = frozenset({_UNINITIALIZED, _NO_DRIVER, _MISMATCH})
_NAMES: Final = {
    _UNINITIALIZED: "uninitialized",
    _INVALID: "invalid_argument",
    _UNSUPPORTED: "not_supported",
    _FORBIDDEN: "no_permission",
    _NOT_FOUND: "not_found",
    _NO_DRIVER: "driver_not_loaded",
    _TIMEOUT: "timeout",
    _NO_LIBRARY: "library_not_found",
    _NO_FUNCTION: "function_not_found",
    _LOST: "gpu_is_lost",
    _RESET_REQUIRED: "reset_required",
    _MISMATCH: "driver_library_mismatch",
    _OTHER_STRUCTURE: "argument_version_mismatch",
}


class GpuLostError(LatencytraceError):
    """One GPU does not answer any more; the others may."""


class NvmlCalls:
    """Asks the library; what it refuses for good it is not asked again.

    Args:
        binding: The module `pynvml`, of whatever supported version.
    """

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.errors: Counter[tuple[str, str]] = Counter()
        # In newer versions not every error of the binding is an `NVMLError`.
        mismatch = getattr(binding, "NVMLLibraryMismatchError", binding.NVMLError)
        self.error_types: tuple[type[Exception], ...] = (binding.NVMLError, mismatch)
        self._refused: set[tuple[str, str]] = set()
        self._failing: dict[tuple[str, str], list[int]] = {}  # failures in a row, asks to pass

    def ask(self, of: str, name: str, *arguments: object) -> Any:
        """The answer of one function; None: there is none, which is counted.

        Args:
            of: The device that is read: a refusal holds for it alone.
            arguments: Arguments of the function.

        Raises:
            GpuLostError: The device does not answer.
            GpuUnavailableError: No device does.
        """
        key = (of, name)
        if key in self._refused or self._is_paused(key):
            return None
        function = getattr(self.binding, name, None)
        if function is None:  # this version of the binding is older than the function
            self._refuse(key, _NAMES[_NO_FUNCTION])
            return None
        try:
            answer = function(*arguments)
        except self.error_types as error:
            self._failed(key, getattr(error, "value", _OTHER_STRUCTURE))
            return None
        self._failing.pop(key, None)
        return answer

    def count(self, name: str, error: str) -> None:
        """Count an answer that cannot be used."""
        self.errors[name, error] += 1

    def _is_paused(self, key: tuple[str, str]) -> bool:
        failing = self._failing.get(key)
        if failing is None or failing[1] == 0:
            return False
        failing[1] -= 1
        return True

    def _refuse(self, key: tuple[str, str], error: str) -> None:
        self._refused.add(key)
        self.errors[key[1], error] += 1

    def _failed(self, key: tuple[str, str], code: int) -> None:
        error = _NAMES.get(code, f"nvml_{code}")
        if code in _FOR_GOOD:
            self._refuse(key, error)
            return
        self.errors[key[1], error] += 1
        if code in {_LOST, _RESET_REQUIRED}:
            raise GpuLostError(f"{key[0]}: {error}")
        if code in _ALL_GONE:
            raise unavailable(code)
        failing = self._failing.setdefault(key, [0, 0])
        failing[0] += 1
        failing[1] = min(2 ** failing[0] - 2, LONGEST_PAUSE)  # none after the first


def opened(library: str = LIBRARY) -> NvmlCalls:
    """Load the library and its binding, and begin.

    Raises:
        GpuUnavailableError: It cannot be used; the message says what to do.
    """
    try:
        ctypes.CDLL(library)  # before the binding: importing that takes 60 ms
    except OSError:
        raise GpuUnavailableError(
            f"{library} is not there: no NVIDIA driver is installed, or the container was "
            "started without NVIDIA_DRIVER_CAPABILITIES=utility",
            is_final=True,
            is_absent=True,
        ) from None
    try:
        with whole_imports.lock:
            binding = importlib.import_module("pynvml")
    except ImportError:
        raise GpuUnavailableError(
            "the binding of NVIDIA's library is not installed: pip install 'latencytrace[gpu]'",
            is_final=True,
            is_absent=True,
        ) from None
    calls = NvmlCalls(binding)
    try:
        binding.nvmlInit()
    except calls.error_types as error:
        raise unavailable(getattr(error, "value", _OTHER_STRUCTURE)) from None
    return calls


def unavailable(code: int) -> GpuUnavailableError:
    """Return what an error that no GPU survives means to the user."""
    match code:
        case 9:
            return GpuUnavailableError("the NVIDIA driver is not loaded", is_final=False)
        case 12:
            return GpuUnavailableError(f"{LIBRARY} is not there", is_final=True, is_absent=True)
        case 18:
            return GpuUnavailableError(
                "the NVIDIA driver was upgraded under its library: start the program again, and "
                "the machine, if it has not been since",
                is_final=True,
            )
        case 4:
            return GpuUnavailableError(
                "this user may not read the GPUs: see the permissions of /dev/nvidia*",
                is_final=True,
            )
        case _:
            name = _NAMES.get(code, f"error {code}")
            return GpuUnavailableError(f"NVML does not start: {name}", is_final=False)
