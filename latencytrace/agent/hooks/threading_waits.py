"""Waits of requests for semaphores, conditions, events and queues of Python's `threading`.

`threading.Lock` and `RLock` are types in C, which cannot be patched. Others in their place would
make each acquire dearer, and be no locks to what asks for their type.
"""

from functools import wraps
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.toolkit.waits import note_wait


def time_waits(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits of whatever has a condition: it waits for that only where it has to."""

    @wraps(original)
    def wait(self: object, timeout: float | None = None) -> Any:
        if current().get(GAPS) is None:
            return original(self, timeout)
        started_ns = monotonic_ns()
        try:
            return original(self, timeout)
        finally:
            note_wait(recorder, started_ns)

    return wait


class ThreadingWaitsHook(Hook):
    """Patches the one wait that semaphores, events, barriers and queues are made of."""

    patches = (Replacement("threading", "Condition.wait", time_waits, bare=True),)
