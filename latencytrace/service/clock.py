"""The one clock of the service."""

import time


def now_ns() -> int:
    """Nanoseconds since the Unix epoch."""
    return time.time_ns()
