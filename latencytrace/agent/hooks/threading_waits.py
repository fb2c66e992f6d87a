"""Waits of requests for semaphores, conditions, events and queues of Python's `threading`.

`threading.Lock` and `RLock` are types in C, which cannot be patched. Others in their place would
make each acquire dearer, and be no locks to what asks for their type.
"""

import sys
from functools import wraps
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.toolkit.waits import begun

_NOTES = "noting a wait"


def time_waits(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits of whatever has a condition: it waits for that only where it has to."""

    @wraps(original)
    def wait(self: object, timeout: float | None = None) -> Any:
        if current().get(GAPS) is None:
            return original(self, timeout)
        noted = None
        try:
            noted = begun(recorder, sys._getframe(1), monotonic_ns())
        except FAULTS as fault:
            recorder.on_fault(_NOTES, fault)
        try:
            return original(self, timeout)
        finally:
            with guarded(_NOTES, recorder.on_fault):
                if noted is not None:
                    noted.end(monotonic_ns())

    return wait


class ThreadingWaitsHook(Hook):
    """Patches the one wait that semaphores, events, barriers and queues are made of."""

    patches = (Replacement("threading", "Condition.wait", time_waits, bare=True),)
