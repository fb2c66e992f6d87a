"""Compiles in the background, or reads what was compiled before from disk: nobody waits.

Compiling takes 10 to 20 seconds of CPU, once for each version and machine; reading it back, half
a second. Until then the plain way serves (see `block_builder`).
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_log = logging.getLogger(__name__)


class Kernels(NamedTuple):
    """The modules of compiled functions."""

    wire: Any
    columns: Any


Warm = Callable[[Kernels], None]
"""Calls each function once with the types that it will be called with."""

_ready: list[Kernels] = []  # at most one
_compiling: list[threading.Thread] = []
_lock = threading.Lock()


def ready() -> Kernels | None:
    """The compiled functions; None: they are not compiled yet."""
    return _ready[0] if _ready else None


def start(cache: Path | None, warm: Warm) -> threading.Thread:
    """Begin to compile, if nobody has, and return at once.

    Args:
        cache: The folder for what was compiled; None: beside the package, or wherever numba
            may write.
        warm: Makes sure that everything is compiled before it is used.
    """
    with _lock:
        if not _compiling:
            thread = threading.Thread(
                target=_compile, args=(cache, warm), name="latencytrace-compile-wire", daemon=True
            )
            _compiling.append(thread)
            thread.start()
        return _compiling[0]


def _compile(cache: Path | None, warm: Warm) -> None:
    try:
        kernels = _loaded(cache)
        warm(kernels)
    except (ImportError, RuntimeError) as error:  # there is no folder to write to, and the like
        _log.info("OTLP is decoded the plain way, for nothing can be compiled: %s", error)
        return
    _ready.append(kernels)
    _log.info("the decoder of OTLP is compiled")


def _loaded(cache: Path | None) -> Kernels:
    import numba  # noqa: PLC0415 - half a second

    if cache is not None:
        numba.config.CACHE_DIR = str(cache)  # type: ignore[attr-defined] # made when it is loaded
    from latencytrace.service.otlp.compiled import columns, wire  # noqa: PLC0415 - as above

    return Kernels(_module(wire), _module(columns))


def _module(module: ModuleType) -> ModuleType:
    return module
