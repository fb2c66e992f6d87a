"""The one clock of the agent: monotonic, anchored to the wall once a process.

Spans hold monotonic times, so that a stepped wall clock bends none of them; the
anchor is added where a time leaves the process.
"""

import time

monotonic_ns = time.monotonic_ns
cpu_ns = time.thread_time_ns
process_cpu_ns = time.process_time_ns
system_ns = time.time_ns  # to compare with what other programs say; may step

ANCHOR_NS = time.time_ns() - time.monotonic_ns()  # monotonic + anchor = Unix time


def wall_ns() -> int:
    """Nanoseconds since the Unix epoch, never stepping back."""
    return monotonic_ns() + ANCHOR_NS
