"""Carries the current span into threads, where Python itself loses it."""

from collections.abc import Callable
from functools import partial, wraps
from threading import Thread
from types import MethodType
from typing import Any

from opentelemetry.context import get_current

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import begun_as, begun_as_sampled
from latencytrace.agent.toolkit.calls import name_of

# They serve many requests: a thread that does this belongs to none.
_POOL_WORKERS = {
    "anyio._backends._asyncio.WorkerThread.run",
    "concurrent.futures.thread._worker",
    "multiprocessing.pool.worker",
    "trio._core._thread_cache.WorkerThread._work",
}


def carry_into_thread(recorder: Recorder, original: Timed) -> Timed:
    """Let a thread that a request starts go on with the request's span."""

    @wraps(original)
    def start(self: Thread) -> None:
        with guarded("carrying a span into a thread", recorder.on_fault):
            _carry_into(self)
        original(self)

    return start


def _carry_into(thread: Thread) -> None:
    context = get_current()
    if (
        context  # also of a span that has ended, is not sampled or is another process's
        and name_of(getattr(thread, "_target", None) or type(thread).run) not in _POOL_WORKERS
        and thread.ident is None  # else it has been started, and starting it will raise
    ):
        run = thread.run

        def runcall_in(self: Thread) -> None:
            if getattr(self.__dict__.get("run"), "__func__", None) is runcall_in:
                del self.__dict__["run"]  # the instance's own: nothing outlives its run
            call_in(context, run)

        # A bound method, as it was: other tools call its function with the thread.
        thread.run = MethodType(runcall_in, thread)  # type: ignore[method-assign]


def carry_into_pool(recorder: Recorder, original: Timed) -> Timed:
    """Give each task of a pool the span that is current at its submission; note its wait."""
    cost = HookCost()
    waited = (recorder.on_fault, _queued)

    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        begun: tuple[Any, ...] = ()
        with guarded("handing work to a pool", recorder.on_fault):
            left = cost.left = cost.left - 1
            begun = begun_as(*waited, self) if left > 0 else begun_as_sampled(cost, *waited, self)
        return original(self, *begun, fn, *args, **kwargs)

    return submit


def _queued(pool: Any) -> int:
    return int(pool._work_queue.qsize())


def carry_into_callback(_recorder: Recorder, original: Timed) -> Timed:
    """Give the callbacks of a pool's task the span that is current where they are added."""

    @wraps(original)
    def add_done_callback(self: object, fn: Callable[..., Any]) -> Any:
        context = get_current()
        return original(self, partial(call_in, context, fn) if context else fn)

    return add_done_callback


class ThreadsHook(Hook):
    """Patches the doors into threads that `asyncio.to_thread` does not stand behind."""

    patches = (
        Replacement("threading", "Thread.start", carry_into_thread),
        Replacement(
            "concurrent.futures.thread", "ThreadPoolExecutor.submit", carry_into_pool, bare=True
        ),
        Replacement(
            "concurrent.futures._base", "Future.add_done_callback", carry_into_callback, bare=True
        ),
    )
