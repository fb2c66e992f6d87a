"""The events of CUDA devices, as torch has them."""

import ctypes
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class TorchEvents:
    """The events of one CUDA device.

    Args:
        cuda: The module `torch.cuda`, in use.
        index: Torch's number of the device.
    """

    def __init__(self, cuda: Any, index: int) -> None:
        self._cuda = cuda
        self._index = index
        uuid = getattr(cuda.get_device_properties(index), "uuid", None)
        self.device_id = f"cuda:{index}" if uuid is None else f"GPU-{uuid}"
        self._library = _driver()

    def event(self) -> Any:
        return self._cuda.Event(enable_timing=True)

    def record(self, event: Any) -> None:
        event.record(self._cuda.current_stream(self._index))

    def is_capturing(self) -> bool:
        return bool(self._cuda.is_current_stream_capturing())

    def asking(self) -> AbstractContextManager[object]:
        """Allow this thread alone to ask, whatever another thread captures meanwhile."""
        return nullcontext() if self._library is None else _Relaxed(self._library)


class _Relaxed:
    """The capture mode of this thread, exchanged for as long as it lasts."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._exchange = library.cuThreadExchangeStreamCaptureMode
        self._mode = ctypes.c_int(_RELAXED)

    def __enter__(self) -> None:
        self._exchange(ctypes.byref(self._mode))

    def __exit__(self, *_: object) -> None:
        self._exchange(ctypes.byref(self._mode))


def _driver() -> ctypes.CDLL | None:
    """The driver's library, which a process that computes has loaded already."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if hasattr(library, "cuThreadExchangeStreamCaptureMode") else None
