"""Calls at the end of multiprocessing's children: before Python 3.13 they skip `atexit`."""

from collections.abc import Callable
from typing import Any

from latencytrace.agent.process.imports import after_import

_LAST = -1000  # of a child's finalizers
_calls: list[Callable[[], None]] = []


def at_end_of_children(flush: Callable[[], None]) -> None:
    """Call `flush` last in each child, should the program ever import multiprocessing."""
    _calls.append(flush)

    def on_import(multiprocessing_util: Any) -> None:
        def in_child(flush: Callable[[], None]) -> None:
            multiprocessing_util.Finalize(None, flush, exitpriority=_LAST)

        multiprocessing_util.register_after_fork(flush, in_child)

    after_import("multiprocessing.util", on_import)


def child_ends() -> None:
    """Make those calls in a child that ends without multiprocessing's finalizers."""
    for call in _calls:
        call()
