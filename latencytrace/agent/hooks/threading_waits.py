"""Waits of requests for locks, semaphores, conditions, events and queues of Python's `threading`.

`threading.Lock`, `RLock` and `queue.SimpleQueue` are types in C, which only the compiled core can
patch: others in their place would be no locks to what asks for their type.
"""

from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.context import current
from latencytrace.agent.native import Lock, RLock
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.hook import UNDO, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS, REQUEST
from latencytrace.agent.toolkit.waits import note_call, note_wait


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

    setattr(wait, UNDO, _time_types_in_c(recorder))
    return wait


def _time_types_in_c(recorder: Recorder) -> Callable[[], None]:
    """Time the waits for locks and simple queues; return what puts their methods back."""
    places: list[tuple[type, str, Any, Any]] = []
    # A condition takes its lock, an `RLock` most often, again unseen: who has it is not known.
    kinds = {type(Lock()): REQUEST, type(RLock()): None} if core is not None else {}
    for kind, key in kinds.items():
        take, release = vars(kind)["acquire"], vars(kind)["release"]
        note = partial(note_call, recorder, f"{kind.__name__}.acquire")
        for name in ("acquire", "__enter__"):
            before = vars(kind)[name]
            timed = core.acquire(before, take, release, note, NOTICED_NS, key)
            places.append((kind, name, before, timed))
    if core is not None:
        in_c: Any = import_module("_queue")
        queue, before = in_c.SimpleQueue, vars(in_c.SimpleQueue)["get"]
        note = partial(note_call, recorder, "SimpleQueue.get")
        timed = core.simple_get(before, in_c.Empty, note, NOTICED_NS)
        places.append((queue, "get", before, timed))
    for kind, name, _, timed in places:
        core.set_in_type(kind, name, timed)

    def restore() -> None:
        for kind, name, before, timed in places:
            if vars(kind)[name] is timed:
                core.set_in_type(kind, name, before)

    return restore


class ThreadingWaitsHook(Hook):
    """Patches locks, and the one wait that semaphores, events, barriers and queues are made of."""

    patches = (Replacement("threading", "Condition.wait", time_waits, bare=True),)
