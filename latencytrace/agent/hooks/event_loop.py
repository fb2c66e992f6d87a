"""Waits of requests while other code held an event loop, asyncio's own or uvloop's."""

from collections.abc import Callable
from contextvars import Context, copy_context
from functools import update_wrapper, wraps
from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder

_WAITED, _HELD = "noting a wait for the event loop", "noting a held event loop"


def time_callback(recorder: Recorder, original: Timed) -> Timed:
    """Time each callback of asyncio's loop, once a server or a request runs on one."""
    requests = recorder.open_requests
    waited, held = _noting(recorder)

    def _run(self: Any) -> None:
        if not (requests.open or requests.serves):
            original(self)
            return
        requests.callbacks += 1
        started_ns = monotonic_ns()
        if started_ns < requests.resumed_by_ns:
            waited(self._context, started_ns)
        original(self)
        ended_ns = monotonic_ns()
        if ended_ns - started_ns >= NOTICED_NS:
            held(self._context, started_ns, ended_ns, self)

    if core is None:
        return _run
    return update_wrapper(core.handle_run(original, _run_in_c(recorder)), original)


def time_scheduled(recorder: Recorder, original: Timed) -> Timed:
    """Time what uvloop is given to call soon, as each step of a task is."""
    requests, run = recorder.open_requests, _timed_run(recorder)
    are_open = requests.open

    @wraps(original)
    def call_soon(self: object, callback: Any, *args: Any, context: Any = None) -> Any:
        if args or context is None:
            if (are_open or requests.serves) and callable(callback):
                return original(self, run, callback, *args, context=context)
            return original(self, callback, *args, context=context)
        if (are_open or requests.serves) and callable(callback):  # a task's step: the quickest way
            return original(self, run, callback, context=context)
        return original(self, callback, context=context)

    if core is None:
        return call_soon
    return update_wrapper(core.call_soon(original, _run_in_c(recorder)), original)


def _noting(recorder: Recorder) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return what notes that a callback was waited for, and that one held its loop."""
    requests = recorder.open_requests
    cost_of_wait, cost_of_hold = HookCost(), HookCost()

    def waited(variables: Context, at_ns: int, *_: object) -> None:
        with guarded(_WAITED, recorder.on_fault):
            left = cost_of_wait.left = cost_of_wait.left - 1
            if left > 0:
                requests.resumed(variables, at_ns)
            else:
                cost_of_wait.sampled(requests.resumed, variables, at_ns)

    def held(variables: Context, started_ns: int, ended_ns: int, callback: object) -> None:
        with guarded(_HELD, recorder.on_fault):
            left = cost_of_hold.left = cost_of_hold.left - 1
            if left > 0:
                requests.loop_held(variables, started_ns, ended_ns, callback)
            else:
                cost_of_hold.sampled(requests.loop_held, variables, started_ns, ended_ns, callback)

    return waited, held


def _run_in_c(recorder: Recorder) -> Any:
    """Return what calls a callback in C, and notes here what is to be noted."""
    return core.timed_run(recorder.open_requests, *_noting(recorder))


def _timed_run(recorder: Recorder) -> Callable[..., None]:
    """Return what calls a callback and notes how long it took."""
    requests, now_ns, noticed_ns = recorder.open_requests, monotonic_ns, NOTICED_NS
    waited, held = _noting(recorder)

    def run(callback: Timed, *args: object) -> None:
        """Call it, in the context that it was given."""
        requests.callbacks += 1
        started_ns = now_ns()
        if started_ns < requests.resumed_by_ns:
            waited(copy_context(), started_ns)
        try:
            if args:
                callback(*args)
            else:
                callback()
        finally:
            ended_ns = now_ns()
            if ended_ns - started_ns >= noticed_ns:
                held(copy_context(), started_ns, ended_ns, callback)

    return run


class EventLoopHook(Hook):
    """Patches what asyncio's own loop runs each callback with, and where uvloop is given them."""

    patches = (
        Replacement("asyncio.events", "Handle._run", time_callback),
        Replacement("uvloop", "Loop.call_soon", time_scheduled),
        Replacement("uvloop", "Loop.call_soon_threadsafe", time_scheduled),
    )
