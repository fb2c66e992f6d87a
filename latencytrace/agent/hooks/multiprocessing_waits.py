"""Waits of requests for locks, queues and connections of `multiprocessing`."""

import sys
from functools import wraps
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.toolkit.waits import note_call, note_wait


def time_entering(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits for a lock in `with`, after what it does itself for one that is free."""

    @wraps(original)
    def __enter__(self: Any) -> Any:
        if self._semlock.acquire(False):  # noqa: FBT003 - it takes no name
            return True
        started_ns = monotonic_ns()
        try:
            return original(self)
        finally:
            _note_lock(recorder, type(self), started_ns)

    return __enter__


def time_acquiring(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits of each lock's own `acquire`, a method of a type in C."""

    @wraps(original)
    def _make_methods(self: Any) -> None:
        original(self)
        take, kind = self.acquire, type(self)

        @wraps(take)
        def acquire(block: object = True, timeout: float | None = None) -> Any:  # noqa: FBT002
            if timeout is None:
                if take(False):  # noqa: FBT003 - it takes no name
                    return True
                if not block:
                    return False
            started_ns = monotonic_ns()
            try:
                return take(block, timeout)
            finally:
                _note_lock(recorder, kind, started_ns)

        self.acquire = acquire

    return _make_methods


def _note_lock(recorder: Recorder, kind: type, started_ns: int) -> None:
    """Note a wait of what calls the caller."""
    ended_ns = monotonic_ns()
    if ended_ns - started_ns >= NOTICED_NS:
        caller = sys._getframe(2)
        note_call(recorder, f"{kind.__name__}.acquire", started_ns, ended_ns, caller=caller)


def time_waits(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits for another process: for what it sends, or for its end."""

    @wraps(original)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        if current().get(GAPS) is None:
            return original(*args, **kwargs)
        started_ns = monotonic_ns()
        try:
            return original(*args, **kwargs)
        finally:
            if monotonic_ns() - started_ns >= NOTICED_NS:
                note_wait(recorder, started_ns)

    return waiting


class MultiprocessingWaitsHook(Hook):
    """Patches what locks and semaphores wait by, and queues, pipes and managers."""

    patches = (
        Replacement("multiprocessing.synchronize", "SemLock.__enter__", time_entering, bare=True),
        Replacement(
            "multiprocessing.synchronize", "SemLock._make_methods", time_acquiring, bare=True
        ),
        Replacement("multiprocessing.connection", "Connection._recv_bytes", time_waits, bare=True),
        Replacement("multiprocessing.connection", "wait", time_waits, bare=True),
    )
