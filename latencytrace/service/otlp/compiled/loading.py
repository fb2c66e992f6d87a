"""Compiles in the background, or reads what was compiled before from disk: nobody waits.

Compiling takes 10 seconds of CPU, once for each version and machine; reading it back, half a
second. Until then the plain way serves (see `block_builder`).
"""

import logging
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
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
        cache: The folder for what was compiled, if there cannot be one beside the package.
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
        with raised_as_runtime_errors():
            kernels = _loaded(cache)
            warm(kernels)
    except (EOFError, ImportError, OSError, RuntimeError, UnpicklingError) as error:
        _log.info("OTLP is decoded the plain way, for nothing can be compiled: %s", error)
        return
    _ready.append(kernels)
    _log.info("the decoder of OTLP is compiled")


def _loaded(cache: Path | None) -> Kernels:
    with kept_in(folder_of(cache)):
        from latencytrace.service.otlp.compiled import columns, wire  # noqa: PLC0415 - as above
    return Kernels(wire, columns)


@contextmanager
def raised_as_runtime_errors() -> Iterator[None]:
    """Raise what the compiler refuses as `RuntimeError`."""
    from numba.core.errors import NumbaError  # noqa: PLC0415 - half a second

    try:
        yield
    except NumbaError as error:
        raise RuntimeError(f"the compiler refuses it: {error}") from error


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Keep what numba compiles meanwhile in a folder."""
    import numba  # noqa: PLC0415 - half a second

    before = numba.config.CACHE_DIR  # type: ignore[attr-defined] # made when it is loaded
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined] # likewise
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined] # likewise


def is_writable(package: Path) -> bool:
    """Return whether something can be kept beside a package's sources."""
    return os.access(package / "__pycache__", os.W_OK)


def folder_of(cache: Path | None) -> Path:
    """The folder for what is compiled of these sources: of others it could not be read back."""
    here = Path(__file__).parent
    sources = b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))
    base = cache if cache is not None and not is_writable(here) else here / "__pycache__"
    return base / f"compiled-{zlib.crc32(sources):08x}"
