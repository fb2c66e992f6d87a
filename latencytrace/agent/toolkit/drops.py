"""Calls something when an object is dropped, for a third of the time of `weakref.finalize`.

Nothing is called at the end of the process.
"""

from collections.abc import Callable
from typing import Final
from weakref import ref

_awaited: Final[dict[int, tuple[ref[object], Callable[[], object]]]] = {}


def when_dropped(held: object, call: Callable[[], object]) -> None:
    """Call something once nothing refers to an object any more.

    Args:
        held: The object; it must allow weak references.
        call: Must not raise, nor refer to the object.
    """
    reference = ref(held, _dropped)
    _awaited[id(reference)] = reference, call


def _dropped(reference: ref[object]) -> None:
    _, call = _awaited.pop(id(reference))
    call()
