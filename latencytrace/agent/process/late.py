"""Parts of the agent that are made when they are first asked for, so that a start is short."""

from collections.abc import Callable
from typing import Generic, TypeVar

from latencytrace.agent.process.forks import whole_imports

T = TypeVar("T")


class Late(Generic[T]):
    """Something that few programs need, or none at its start: made when it is first asked for.

    Args:
        make: Imports what it takes, and makes it.
    """

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None  # None: it was not asked for yet

    def __call__(self) -> T:
        if self.made is None:
            with whole_imports.lock:
                if self.made is None:
                    self.made = self._make()
        return self.made
