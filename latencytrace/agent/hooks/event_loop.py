"""Waits of requests while other code held an event loop, asyncio's own or uvloop's."""

import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import update_wrapper, wraps
from typing import Any
from weakref import WeakKeyDictionary

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.holds import NOTICED_NS
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.turns import Turns, note_turn

_WAITED, _HELD = "noting a wait for the event loop", "noting a held event loop"
_scheduled: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # when handles of asyncio were
_turns = Turns()


def time_callback(recorder: Recorder, original: Timed) -> Timed:
    """Time each callback of asyncio's loop, once a server or a request runs on one."""
    requests = recorder.open_requests
    began, ended = _stepping(recorder)

    def _run(self: Any) -> None:
        if not (requests.open or requests.serves):
            original(self)
            return
        started_ns = monotonic_ns()
        began(self._context, _scheduled.pop(self, 0), started_ns)
        original(self)
        ended(self._context, started_ns, self)

    if core is None:
        return _run
    return update_wrapper(core.handle_run(original, _run_in_c(recorder)), original)


def note_scheduled(recorder: Recorder, original: Timed) -> Timed:
    """Note when asyncio's loop is given what it is to run."""
    requests, scheduled = recorder.open_requests, _scheduling(recorder)

    @wraps(original)
    def _call_soon(self: object, *args: Any, **kwargs: Any) -> Any:
        since_ns = scheduled() if requests.open or requests.serves else 0
        handle = original(self, *args, **kwargs)
        if handle._source_traceback:  # of a loop in debug mode, which leaves out its own frames
            del handle._source_traceback[-1]
        if since_ns:
            _scheduled[handle] = since_ns
        return handle

    if core is None:
        return _call_soon
    handles = sys.modules["asyncio.events"].Handle
    return update_wrapper(core.handle_scheduled(original, _run_in_c(recorder), handles), original)


def time_scheduled(recorder: Recorder, original: Timed) -> Timed:
    """Time what uvloop is given to call soon, as each step of a task is."""
    requests, run = recorder.open_requests, _timed_run(recorder)
    are_open, scheduled = requests.open, _scheduling(recorder)

    @wraps(original)
    def call_soon(self: object, callback: Any, *args: Any, context: Any = None) -> Any:
        if (are_open or requests.serves) and callable(callback):
            args = (scheduled(), callback, *args)
            callback = run
        return original(self, callback, *args, context=context)

    if core is None:
        return call_soon
    return update_wrapper(core.call_soon(original, _run_in_c(recorder)), original)


def _noting(recorder: Recorder) -> tuple[Callable[..., None], ...]:
    """Return what notes that a held loop was waited for, that one was held, and a turn."""
    requests = recorder.open_requests
    cost_of_wait, cost_of_hold, cost_of_turn = HookCost(), HookCost(), HookCost()

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

    def turned(variables: Context, since_ns: int, started_ns: int, *_: object) -> None:
        with guarded(_WAITED, recorder.on_fault):
            left = cost_of_turn.left = cost_of_turn.left - 1
            if left > 0:
                note_turn(recorder, variables, since_ns, started_ns)
            else:
                cost_of_turn.sampled(note_turn, recorder, variables, since_ns, started_ns)

    return waited, held, turned


def _run_in_c(recorder: Recorder) -> Any:
    """Return what calls a callback in C, and notes here what is to be noted."""
    return core.timed_run(recorder.open_requests, *_noting(recorder))


def _scheduling(recorder: Recorder) -> Callable[[], int]:
    """Return what tells since when what is scheduled now waits; 0: that is unknown."""

    def scheduled() -> int:
        with guarded(_WAITED, recorder.on_fault):
            return _turns.scheduled()
        return 0

    return scheduled


def _stepping(recorder: Recorder) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return what notes that a callback begins to run, and that it has run."""
    requests = recorder.open_requests
    waited, held, turned = _noting(recorder)

    def began(variables: Context, scheduled_ns: int, started_ns: int) -> None:
        with guarded(_WAITED, recorder.on_fault):
            requests.callbacks += 1
            if started_ns < requests.resumed_by_ns:
                waited(variables, started_ns)
            since_ns = _turns.begin(variables, scheduled_ns, started_ns)
            if since_ns:
                turned(variables, since_ns, started_ns)

    def ended(variables: Context, started_ns: int, callback: object) -> None:
        with guarded(_HELD, recorder.on_fault):
            ended_ns = monotonic_ns()
            _turns.end(variables, started_ns, ended_ns)
            if ended_ns - started_ns >= NOTICED_NS:
                held(variables, started_ns, ended_ns, callback)

    return began, ended


def _timed_run(recorder: Recorder) -> Callable[..., None]:
    """Return what calls a callback and notes how long it took."""
    began, ended = _stepping(recorder)

    def run(scheduled_ns: int, callback: Timed, *args: object) -> None:
        """Call it, in the context that it was given."""
        started_ns, variables = monotonic_ns(), copy_context()
        began(variables, scheduled_ns, started_ns)
        try:
            if args:
                callback(*args)
            else:
                callback()
        finally:
            ended(copy_context(), started_ns, callback)

    return run


class EventLoopHook(Hook):
    """Patches what asyncio's own loop runs each callback with, and where uvloop is given them."""

    patches = (
        Replacement("asyncio.events", "Handle._run", time_callback),
        Replacement("asyncio.base_events", "BaseEventLoop._call_soon", note_scheduled, bare=True),
        Replacement("uvloop", "Loop.call_soon", time_scheduled),
        Replacement("uvloop", "Loop.call_soon_threadsafe", time_scheduled),
    )
