"""An event loop for which waiting takes no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Moves a clock instead of waiting."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += timeout or 0.0
        return super().select(0 if timeout else timeout)


class _HurriedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s


def hurried(work: Coroutine[None, None, T]) -> T:
    """Return what a coroutine does that waits for nothing but its loop's clock."""
    with asyncio.Runner(loop_factory=_HurriedLoop) as runner:
        return runner.run(work)
