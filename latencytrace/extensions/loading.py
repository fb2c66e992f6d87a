"""Loads an extension module, where there is one."""

import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

OF_THE_SERVICE: Final = (
    "latencytrace.analysis.columns.compiled",
    "latencytrace.service.otlp.compiled",
)
PACKAGES: Final = ("latencytrace.agent.compiled", *OF_THE_SERVICE)
"""The packages with an extension module."""
FIX: Final = (
    "install a C compiler and Python's headers, then latencytrace anew; LATENCYTRACE_COMPILED "
    "must not be 0"
)
"""Advice where one is missing."""


def extension(package: str) -> ModuleType | None:
    """Return the extension module of a package.

    Args:
        package: The one that its sources are in; the module is its `_core`.

    Returns:
        None: it was not compiled, is older than its sources, or `LATENCYTRACE_COMPILED` is 0.
    """
    if os.environ.get("LATENCYTRACE_COMPILED", "").strip() == "0":  # noqa: TID251 - decided once, as modules load
        return None
    try:
        found = import_module(f"{package}._core")
    except ImportError:
        return None
    return None if is_older(Path(str(found.__file__))) else found


def missing(packages: Iterable[str] = PACKAGES) -> list[str]:
    """Return the packages with an extension that cannot be used."""
    return [package for package in packages if extension(package) is None]


def is_older(built: Path) -> bool:
    """Tell whether an extension is older than its sources, which are there in a checkout alone.

    What it knows of our classes may be wrong then; `pip install -e .` compiles it anew.
    """
    at_ns = built.stat().st_mtime_ns
    sources = (*built.parent.glob("*.[ch]"), *Path(__file__).parent.glob("*.h"))
    return any(source.stat().st_mtime_ns > at_ns for source in sources)
