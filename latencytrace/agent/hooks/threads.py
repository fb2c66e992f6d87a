"""Carries the current span into threads, where Python itself loses it."""

from collections.abc import Callable
from concurrent.futures import thread
from threading import Thread
from typing import Any

from opentelemetry.context import get_current
from opentelemetry.trace import get_current_span

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.hook import Hook, Replacement, Timed
from latencytrace.agent.recorder import Recorder
from latencytrace.agent.runtime_gaps import begun_as

_POOL_WORKER = getattr(thread, "_worker", None)  # serves many requests: belongs to none


def carry_into_thread(_recorder: Recorder, original: Timed) -> Timed:
    """Let a thread that a request starts go on with the request's span."""

    def start(self: Thread) -> None:
        if (
            get_current_span().is_recording()
            and getattr(self, "_target", None) is not _POOL_WORKER
            and self.ident is None  # else it has been started, and this call will raise
        ):
            context, run = get_current(), self.run

            def runcall_in() -> None:
                self.__dict__.pop("run", None)  # the instance's own: nothing outlives its run
                call_in(context, run)

            self.run = runcall_in  # type: ignore[method-assign]
        original(self)

    return start


def carry_into_pool(recorder: Recorder, original: Timed) -> Timed:
    """Let each task of a pool go on with the span of who submitted it; note its wait."""

    def submit(self: object, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begun: tuple[Any, ...] = ()
        with guarded("handing work to a pool", recorder.on_fault):
            begun = begun_as(recorder.on_fault)
        return original(self, *begun, fn, *args, **kwargs)

    return submit


class ThreadsHook(Hook):
    """Patches the two doors into threads that `asyncio.to_thread` does not stand behind."""

    patches = (
        Replacement("threading", "Thread.start", carry_into_thread),
        Replacement("concurrent.futures.thread", "ThreadPoolExecutor.submit", carry_into_pool),
    )
