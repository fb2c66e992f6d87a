"""Waiting for another thread or process, on a machine that may be busy."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0  # a guard against what never comes, and no measure of speed

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
