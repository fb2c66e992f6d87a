"""Waiting for another thread or process, on a machine that may be busy."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 40.0

T = TypeVar("T")


def until(
    holds: Callable[[], T | None],
    why_not: Callable[[], object] = lambda: "no more is known",
    patience_s: float = PATIENCE_S,
) -> T:
    """Return what `holds` returns, once that is something."""
    deadline_s = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < deadline_s, f"not within {patience_s} s: {why_not()}"
        time.sleep(0.005)
    return found
