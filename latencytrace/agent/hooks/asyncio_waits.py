"""Waits of requests for locks, semaphores, conditions, events, queues and futures of asyncio."""

import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from types import CodeType
from typing import Any, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.toolkit.waits import MADE_FUTURE, Wait, begun, is_programs

_LIMITS_IN_A_TASK: Final = sys.version_info < (3, 12)


@cache
def _future_of_room() -> Any:
    """Return a class of futures that note whose code makes room: that had what is waited for."""
    asyncio: Any = sys.modules["asyncio"]  # not whole where this module is imported

    class Future(asyncio.Future):  # type: ignore[misc]
        wait: Wait

        def set_result(self, result: object) -> None:
            self.wait.has_room()
            super().set_result(result)

    return Future


def _beginning(recorder: Recorder) -> Callable[..., Wait | None]:
    """Return what begins a wait of the caller's frame; what that takes is sampled."""
    cost = HookCost()

    def begin(frame: Any) -> Wait | None:
        left = cost.left = cost.left - 1
        begun_here = begun if left > 0 else partial(cost.sampled, begun)
        found: Wait | None = begun_here(recorder, frame, monotonic_ns())
        return found

    return begin


class _NotingLoop:
    """A loop that makes the future of one wait, and notes when that is over."""

    __slots__ = ("_loop", "_wait")

    def __init__(self, loop: Any, wait: Wait) -> None:
        self._loop = loop
        self._wait = wait

    def create_future(self) -> Any:
        """Make the future that the wait is for."""
        future = self._loop.create_future()
        if self._wait.is_for_room:
            noting = _future_of_room()
            if type(future) is noting.__base__:  # no loop's own kind
                future = noting(loop=self._loop)
                future.wait = self._wait
        future.add_done_callback(self._done)
        return future

    def _done(self, _: object) -> None:
        self._wait.end(monotonic_ns())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def time_waits(recorder: Recorder, original: Callable[[Any], Any]) -> Timed:
    """Time the waits of whatever is bound to a loop: it asks for the loop only to wait."""
    begin = _beginning(recorder)

    @wraps(original)
    def _get_loop(self: object) -> Any:
        loop = original(self)
        if current().get(GAPS) is None:
            return loop
        try:
            wait = begin(sys._getframe(1))
            return loop if wait is None else _NotingLoop(loop, wait)
        except FAULTS as fault:
            recorder.on_fault("noting a wait", fault)
        return loop

    return _get_loop


def time_wait_for(recorder: Recorder, original: Timed) -> Timed:
    """Time the waits that have a limit, which a task of its own waits for."""
    asyncio = sys.modules["asyncio"]  # not whole where this module is imported
    results = {
        wait.__code__ for wait in (asyncio.Condition.wait, asyncio.Event.wait, asyncio.Queue.get)
    }

    @wraps(original)
    async def wait_for(fut: Any, timeout: float | None) -> Any:  # noqa: ASYNC109 - as asyncio's
        wait = None
        try:
            if current().get(GAPS) is not None and getattr(fut, "cr_code", None) in results:
                called = fut.cr_code.co_qualname
                wait = begun(recorder, sys._getframe(1), monotonic_ns(), called)
        except FAULTS as fault:
            recorder.on_fault("noting a wait", fault)
        try:
            return await original(fut, timeout)
        finally:
            if wait is not None:
                wait.end(monotonic_ns())

    return wait_for


def _note_future(recorder: Recorder, wraps_future: CodeType, future: Any, frame: Any) -> None:
    if frame.f_code is wraps_future:  # of another thread
        frame = frame.f_back
    if is_programs(frame.f_code):
        wait = begun(recorder, frame, monotonic_ns(), MADE_FUTURE)
        if wait is not None:
            future.add_done_callback(lambda _: wait.end(monotonic_ns()))


def note_future(recorder: Recorder, original: Callable[[Any], Any]) -> Timed:
    """Time what the program's own code makes futures for, as a batcher does for each request."""
    cost = HookCost()
    note = partial(_note_future, recorder, sys.modules["asyncio.futures"].wrap_future.__code__)

    @wraps(original)
    def create_future(self: object) -> Any:
        future = original(self)
        if current().get(GAPS) is None:
            return future
        try:
            left = cost.left = cost.left - 1
            if left > 0:
                note(future, sys._getframe(1))
            else:
                cost.sampled(note, future, sys._getframe(1))
        except FAULTS as fault:
            recorder.on_fault("noting a wait", fault)
        return future

    return create_future


class AsyncioWaitsHook(Hook):
    """Patches what the waiting branches go through, and no other."""

    patches = (
        Replacement("asyncio.base_events", "BaseEventLoop.create_future", note_future, bare=True),
        Replacement("uvloop", "Loop.create_future", note_future, bare=True),
        Replacement("asyncio.mixins", "_LoopBoundMixin._get_loop", time_waits, bare=True),
        *((Replacement("asyncio", "wait_for", time_wait_for, bare=True),) * _LIMITS_IN_A_TASK),
    )
