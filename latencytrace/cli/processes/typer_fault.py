"""A pair of libraries that misreads every command line."""

import importlib.metadata
import re
from collections.abc import Callable

_FIRST_TYPER = (0, 13)  # before: whatever was typed, the new click took it for `--version`
_NEW_CLICK = (8, 2)


def typer_fault(version_of: Callable[[str], str] = importlib.metadata.version) -> str | None:
    """Name a fault of the libraries that read the command line; None: there is none.

    Other packages pin an old Typer, and pip then takes a click that is too new for it.
    """
    typer = version_of("typer")
    if _numbers(typer) >= _FIRST_TYPER:
        return None
    click = version_of("click")
    if _numbers(click) < _NEW_CLICK:
        return None
    return f"typer {typer} misreads every command line with click {click}: pip install 'click<8.2'"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
