"""Waiting for another thread or process, on a machine that may be busy."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

PATIENCE_S = 40.0
TURNS = 5

T = TypeVar("T")


def until(
    holds: Callable[[], T | None],
    why_not: Callable[[], object] = lambda: "no more is known",
    patience_s: float = PATIENCE_S,
) -> T:
    """Return what `holds` returns, once that is something.

    The longer it waits, the less often it asks: whoever is asked has other work.
    """
    began_s = time.monotonic()
    while not (found := holds()):
        waited_s = time.monotonic() - began_s
        assert waited_s < patience_s, f"not within {patience_s} s: {why_not()}"
        time.sleep(min(max(0.005, waited_s / 20), 0.05))
    return found


def again(attempt: Callable[[], T]) -> T:
    """Return what `attempt` returns, tried a few times where what it asserts of times fails.

    A machine that is busy with something else for a moment is not at each turn; a fault is there
    at every one.
    """
    for _ in range(TURNS - 1):
        with suppress(AssertionError):
            return attempt()
    return attempt()
