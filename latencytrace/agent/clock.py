"""The one clock of the agent: monotonic, anchored to the wall once a process.

Spans hold monotonic times, so that a stepped wall clock bends none of them; the
anchor is added where a time leaves the process.

Its functions are those of a `time` of its own: a program's tests may freeze the clock
(`freezegun`), by putting others in the place of these functions in every module that has them.
"""

import time
from collections.abc import Callable
from importlib.util import module_from_spec
from typing import Any, Final

_time: Final[Any] = module_from_spec(time.__spec__)
_time.__spec__.loader.exec_module(_time)

Clock = Callable[[], int]
monotonic_ns: Clock = _time.monotonic_ns
cpu_ns: Clock = _time.thread_time_ns
process_cpu_ns: Clock = _time.process_time_ns
system_ns: Clock = _time.time_ns  # to compare with what other programs say; may step

ANCHOR_NS: Final[int] = system_ns() - monotonic_ns()  # monotonic + anchor = Unix time


def wall_ns() -> int:
    """Nanoseconds since the Unix epoch, never stepping back."""
    return monotonic_ns() + ANCHOR_NS
