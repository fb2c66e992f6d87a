"""Compiles in another process, once for each version: its memory ends with it."""

import logging
import platform
import subprocess
import sys
import zlib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Final

from latencytrace.analysis import columns
from latencytrace.analysis.columns.requests import PLAIN
from latencytrace.service.otlp.compiled import loading

_log = logging.getLogger(__name__)

_PROGRAM: Final = "column_attribution"
_COMPILED: Final = ("numba", "llvmlite")  # of other versions nothing can be read back
_CPUINFO: Final = Path("/proc/cpuinfo")
_OF_CPU: Final = ("model name", "flags", "CPU part", "Features")  # the latter two are ARM's


def is_compiled_ahead(cache: Path | None) -> bool:
    """Whether everything was compiled for these sources, so that it only has to be read."""
    return _mark(cache).exists()


def compile_ahead(cache: Path | None) -> None:
    """Have another process compile everything, and wait for it; without it, it is done here.

    Args:
        cache: See `ColumnAttribution`.
    """
    if is_compiled_ahead(cache) or not sys.executable:
        return
    named = [] if cache is None else [str(cache.absolute())]
    command = [sys.executable, "-P", "-m", f"{__package__}.{_PROGRAM}", *named]
    try:
        with subprocess.Popen(  # noqa: S603 - a program of ours
            command,
            stdin=subprocess.PIPE,  # it ends when we do
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as child:
            child.wait()
    except OSError as error:
        _log.info("no other process can be started to compile in: %s", error)


def note_compiled(cache: Path | None) -> None:
    """Note that everything was compiled, and is kept.

    Raises:
        OSError: It cannot be kept.
    """
    mark = _mark(cache)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def functions_folder(cache: Path | None) -> Path:
    """The folder for what is compiled of the array functions: of others it is not read back.

    The compiler looks whether the file of a function is newer. But numbers of other files are
    compiled in, and a file that was copied or unpacked may be as old as the one before it.

    Args:
        cache: See `ColumnAttribution`.
    """
    here = Path(str(columns.__file__)).parent
    base = cache if cache is not None and not loading.is_writable(here) else here / "__pycache__"
    modules = [sys.modules[name] for name in sorted({one.__module__ for one in PLAIN})]
    key = b"".join(_compiled_of(module) for module in modules)
    return base / f"compiled-{zlib.crc32(key):08x}"


def _compiled_of(module: ModuleType) -> bytes:
    """The source of a module, and the numbers that it has of others."""
    numbers = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, int | float)
        or (isinstance(value, tuple) and all(isinstance(one, int | float) for one in value))
    }
    return Path(str(module.__file__)).read_bytes() + repr(sorted(numbers.items())).encode()


def _mark(cache: Path | None) -> Path:
    wire = loading.folder_of(cache).name
    key = "".join((wire, *(version(name) for name in _COMPILED), processor())).encode()
    return functions_folder(cache) / f"all-{zlib.crc32(key):08x}"


def processor() -> str:
    """Describe this machine's processor, which decides whether compiled code can be read back."""
    found = {"machine": platform.machine(), "processor": platform.processor()}
    try:
        for line in _CPUINFO.read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in _OF_CPU:
                found.setdefault(name.strip(), value.strip())
    except (OSError, ValueError):  # no Linux
        pass
    return repr(sorted(found.items()))
