"""The compiled array functions, if they are there."""

from collections.abc import Mapping
from types import ModuleType
from typing import Final

from latencytrace.extensions.loading import extension

core: Final = extension("latencytrace.analysis.columns.compiled")


def bind(numbers: Mapping[str, int]) -> None:
    """Hand numbers to the core, if there is one: functions refuse to work without theirs.

    Args:
        numbers: By the names that C knows them by.
    """
    if core is not None:
        core.bind(numbers)


def needed() -> ModuleType:
    """Return the core.

    Raises:
        RuntimeError: There is none.
    """
    if core is None:
        raise RuntimeError("the array functions are not compiled: objects have to do the work")
    return core
