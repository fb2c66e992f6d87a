"""Carries the current span into other processes of the program, by W3C headers."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import name_of
from latencytrace.agent.toolkit.other_process import (
    CarriedRun,
    call_carried,
    carried_headers,
    is_forking,
)

# They serve many requests: a process that does this belongs to none.
_POOL_WORKERS = {"concurrent.futures.process._process_worker", "multiprocessing.pool.worker"}

if TYPE_CHECKING:  # it takes a while to load, and few programs use it
    from multiprocessing.process import BaseProcess


def carry_into_pool(recorder: Recorder, original: Timed) -> Timed:
    """Give each task of a pool of processes the span that is current at its submission."""

    @wraps(original)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        carrying: tuple[Any, ...] = ()
        with guarded("handing work to a pool", recorder.on_fault):
            carried = carried_headers(recorder.on_fault)
            if carried or is_forking(self, "_mp_context"):
                carrying = (call_carried, carried)
        return original(self, *carrying, fn, *args, **kwargs)

    return submit


def carry_into_process(recorder: Recorder, original: Timed) -> Timed:
    """Let a process that a request starts go on with its span, spawned or forked."""

    @wraps(original)
    def start(self: "BaseProcess") -> None:
        run = None
        with guarded("carrying a span into a process", recorder.on_fault):
            run = _carrying_run(recorder, self)
        if run is None:
            original(self)
            return
        self.__dict__["run"] = run  # which travels with it
        try:
            original(self)
        finally:
            self.__dict__.pop("run", None)

    return start


def _carrying_run(recorder: Recorder, process: "BaseProcess") -> CarriedRun | None:
    """Return what a process shall run; None: what it does by itself."""
    if name_of(getattr(process, "_target", None)) in _POOL_WORKERS:
        return None
    if process.ident is not None or "run" in process.__dict__:  # started, or changed by others
        return None
    carried = carried_headers(recorder.on_fault)
    return CarriedRun(carried, process) if carried else None


class ProcessesHook(Hook):
    """Patches the two doors into processes that a program makes itself."""

    patches = (
        Replacement("concurrent.futures.process", "ProcessPoolExecutor.submit", carry_into_pool),
        Replacement("multiprocessing.process", "BaseProcess.start", carry_into_process),
    )
