"""Carries the current span into other processes of the program, by W3C headers."""

from collections.abc import Callable
from functools import wraps
from multiprocessing.process import BaseProcess
from typing import Any

from opentelemetry import propagate
from opentelemetry.trace import get_current_span

from latencytrace.agent.carried_call import call_carried
from latencytrace.agent.guard import guarded
from latencytrace.agent.hook import Hook, Replacement, Timed
from latencytrace.agent.recorder import Recorder


def _carried(recorder: Recorder) -> dict[str, str]:
    """The current span as headers; none outside of any."""
    carried: dict[str, str] = {}
    with guarded("carrying a span into a process", recorder.on_fault):
        if get_current_span().is_recording():
            propagate.inject(carried)
    return carried


def carry_into_pool(recorder: Recorder, original: Timed) -> Timed:
    """Let each task of a pool of processes go on with the span of who submitted it."""

    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        carried = _carried(recorder)
        if not carried and not _is_forking(self):
            return original(self, fn, *args, **kwargs)
        return original(self, call_carried, carried, fn, *args, **kwargs)

    return submit


def _is_forking(pool: Any) -> bool:  # noqa: ANN401
    """Whether a worker may have been forked from within a request, whose span it still has."""
    how = getattr(getattr(pool, "_mp_context", None), "get_start_method", None)
    return how is not None and how() == "fork"


def carry_into_process(recorder: Recorder, original: Timed) -> Timed:
    """Let a process that a request starts go on with its span, spawned or forked."""

    @wraps(original)
    def start(self: BaseProcess) -> None:
        carried = _carried(recorder)
        told: Any = self  # what `run` calls, and with what, has no public name
        target = getattr(self, "_target", None)
        if carried and target is not None and self.ident is None:
            told._target, told._args = call_carried, (carried, target, *told._args)  # noqa: SLF001
        original(self)

    return start


class ProcessesHook(Hook):
    """Patches the two doors into processes that a program makes itself."""

    patches = (
        Replacement("concurrent.futures.process", "ProcessPoolExecutor.submit", carry_into_pool),
        Replacement("multiprocessing.process", "BaseProcess.start", carry_into_process),
    )
