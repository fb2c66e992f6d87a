"""Carries the current span into threads, where Python itself loses it."""

from collections.abc import Callable
from concurrent.futures import thread
from threading import Thread
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import get_current_span

from latencytrace.agent.hook import Hook, Replacement, Timed
from latencytrace.agent.recorder import Recorder

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

            def run_in_context() -> None:
                del self.run  # the instance's own: nothing lives longer than its run
                _in_context(context, run)

            self.run = run_in_context  # type: ignore[method-assign]
        original(self)

    return start


def carry_into_pool(_recorder: Recorder, original: Timed) -> Timed:
    """Let each task of a pool go on with the span of who submitted it, or with none."""

    def submit(self: object, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return original(self, _in_context, get_current(), fn, *args, **kwargs)

    return submit


def _in_context(context: Context, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    token = attach(context)
    try:
        return call(*args, **kwargs)
    finally:
        detach(token)


class ThreadsHook(Hook):
    """Patches the two doors into threads that `asyncio.to_thread` does not stand behind."""

    patches = (
        Replacement("threading", "Thread.start", carry_into_thread),
        Replacement("concurrent.futures.thread", "ThreadPoolExecutor.submit", carry_into_pool),
    )
