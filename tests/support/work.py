"""Work that is counted, not timed: so a cost is the same on any machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of Python that `work` runs in this thread."""
    count = 0

    def on_event(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return on_event

    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work_on: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many times as many lines twice the size takes: 2 if linear, 4 if quadratic.

    Args:
        work_on: Makes the work on something of a size.
        size: The smaller one.
    """
    return lines_run(work_on(2 * size)) / lines_run(work_on(size))
