"""Waits for anyio's locks, and threads, on which Starlette and FastAPI run what is not async."""

import asyncio
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ref

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import begun_as, begun_as_sampled
from latencytrace.agent.toolkit.waits import note_wait

# The event loop that was asked for last, and anyio's own limiter of it.
_last_seen: tuple[Callable[[], object], Any] = (lambda: None, None)


def _default_limiter() -> Any:
    """Return the one of this event loop, which anyio takes a while to find."""
    global _last_seen  # noqa: PLW0603 - a cache of one
    loop = asyncio._get_running_loop()  # None in trio's, where the other raises
    seen, limiter = _last_seen
    if loop is None or seen() is not loop:
        limiter = sys.modules["anyio.to_thread"].current_default_thread_limiter()
        if loop is not None:
            _last_seen = (ref(loop), limiter)
    return limiter


def _waiting(limiter: Any) -> int:
    """Count the calls that wait for a thread; 0 while one is free."""
    asked = _default_limiter() if limiter is None else limiter
    return 0 if asked.available_tokens > 0 else int(asked.statistics().tasks_waiting)


def time_wait(recorder: Recorder, original: Timed) -> Timed:
    """Note how long work of a request waited for its thread."""
    cost = HookCost()
    waited = (recorder.on_fault, _waiting)

    @wraps(original)
    async def run_sync(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        begun: tuple[Any, ...] = ()
        try:
            pool = kwargs.get("limiter")
            left = cost.left = cost.left - 1
            begun = begun_as(*waited, pool) if left > 0 else begun_as_sampled(cost, *waited, pool)
        except FAULTS as fault:
            recorder.on_fault("handing work to a thread", fault)
        return await original(*begun, func, *args, **kwargs)

    return run_sync


def time_acquire(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits for a lock or a semaphore, which do not go through asyncio's own."""
    cost = HookCost()

    @wraps(original)
    async def acquire(self: Any) -> Any:
        left = cost.left = cost.left - 1
        if _is_free(self) if left > 0 else cost.sampled(_is_free, self):
            return await original(self)
        started_ns = monotonic_ns()
        try:
            return await original(self)
        finally:
            note_wait(recorder, started_ns, type(self).__name__, "acquire")

    return acquire


def _is_free(lock: Any) -> bool:
    """Return whether the lock or semaphore can be taken at once."""
    taken = lock._waiters or getattr(lock, "_owner_task", None) is not None
    return not taken and bool(getattr(lock, "_value", 1))


class AnyioHook(Hook):
    """Patches the one door to the threads, and the locks that newer versions have of their own."""

    requires = ("anyio >= 3.0",)
    patches = (
        Replacement("anyio.to_thread", "run_sync", time_wait, bare=True),  # once a chunk
        Replacement(
            "anyio._backends._asyncio", "Lock.acquire", time_acquire, optional=True, bare=True
        ),
        Replacement(
            "anyio._backends._asyncio", "Semaphore.acquire", time_acquire, optional=True, bare=True
        ),
    )
