"""Carries the current span into the pools of `multiprocessing`, of processes and of threads."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from opentelemetry.context import get_current

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.other_process import call_carried, carried_headers, is_forking


def _carrying(recorder: Recorder, pool: object, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call, to run with the span that is current now."""
    with guarded("handing work to a pool", recorder.on_fault):
        from multiprocessing.pool import ThreadPool

        if isinstance(pool, ThreadPool):
            return partial(call_in, get_current(), call)
        carried = carried_headers(recorder.on_fault)
        if carried or is_forking(pool, "_ctx"):
            return partial(call_carried, carried, call)
    return call


def carry_one(recorder: Recorder, original: Timed) -> Timed:
    """Carry the span into one call."""

    @wraps(original)
    def apply_async(self: object, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(self, _carrying(recorder, self, func), *args, **kwargs)

    return apply_async


def carry_all(recorder: Recorder, original: Timed) -> Timed:
    """Carry the span into each call, or each chunk of calls, of what is mapped."""

    @wraps(original)
    def _guarded_task_generation(
        self: object, result_job: object, func: Callable[..., Any], iterable: object
    ) -> Any:
        return original(self, result_job, _carrying(recorder, self, func), iterable)

    return _guarded_task_generation


class MultiprocessingPoolsHook(Hook):
    """Patches the two doors that every call goes through."""

    patches = (
        Replacement("multiprocessing.pool", "Pool.apply_async", carry_one),
        Replacement("multiprocessing.pool", "Pool._guarded_task_generation", carry_all),
    )
