"""Waits for one of anyio's threads, on which Starlette and FastAPI run what is not async."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import begun_as


def _waiting(limiter: Any) -> int:  # noqa: ANN401 - anyio's CapacityLimiter, or None
    """Count who waits for a thread; nobody does while one is free."""
    to_thread = sys.modules["anyio.to_thread"]
    asked = to_thread.current_default_thread_limiter() if limiter is None else limiter
    return 0 if asked.available_tokens > 0 else int(asked.statistics().tasks_waiting)


def time_wait(recorder: Recorder, original: Timed) -> Timed:
    """Note how long work of a request waited for its thread."""

    @wraps(original)
    async def run_sync(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begun: tuple[Any, ...] = ()
        with guarded("handing work to a thread", recorder.on_fault):
            begun = begun_as(recorder.on_fault, lambda: _waiting(kwargs.get("limiter")))
        return await original(*begun, func, *args, **kwargs)

    return run_sync


class AnyioHook(Hook):
    """Patches the one door to the threads."""

    requires = ("anyio >= 3.0",)
    patches = (Replacement("anyio.to_thread", "run_sync", time_wait),)
