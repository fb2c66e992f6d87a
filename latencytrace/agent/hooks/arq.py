"""Jobs of arq: when they were sent, and the caller's context with their arguments."""

import pickle
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.calls import before
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.queues.messages import Sent, begun_work, timed_sends

# The span of the job that this task runs; one is begun once its message has been read.
_under_way: ContextVar[list[Timing] | None] = ContextVar("latencytrace_arq_job", default=None)
_NAME: Final = "f"  # where a message names the function


def _sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    is_due = kwargs.get("_defer_until") is None and not kwargs.get("_defer_by")
    return Sent(str(kwargs.get("function") or args[1]), None, is_due)


def carry(recorder: Recorder, original: Timed) -> Timed:
    """Put the caller's context into a message, where no worker without this hook looks."""

    @wraps(original)
    def serialize_job(*args: Any, serializer: Any = None, **kwargs: Any) -> Any:
        carried: dict[str, str] = {}
        with guarded("sending a message", recorder.on_fault):
            if not recorder.suppressed():
                propagation.inject(carried)
        dumps: Callable[[Any], bytes] = serializer or pickle.dumps
        return original(*args, serializer=lambda job: dumps({**job, **carried}), **kwargs)

    return serialize_job


def read_message(recorder: Recorder, original: Timed) -> Timed:
    """Begin the work once its message has been read, in the sender's trace."""

    @wraps(original)
    def deserialize_job_raw(r: bytes, *, deserializer: Any = None) -> Any:
        loads: Callable[[bytes], Mapping[str, Any]] = deserializer or pickle.loads

        def read(message: bytes) -> Mapping[str, Any]:
            job = loads(message)
            under_way = _under_way.get()
            timing = begun_work(recorder, str(job[_NAME]), job) if under_way == [] else None
            if timing is not None and under_way is not None:
                timing.activate()
                under_way.append(timing)
            return job

        return original(r, deserializer=read)

    return deserialize_job_raw


def time_jobs(recorder: Recorder, original: Timed) -> Timed:
    """End the work of a job once its result is written."""

    @wraps(original)
    async def run_job(*args: Any, **kwargs: Any) -> Any:
        under_way: list[Timing] = []
        token = _under_way.set(under_way)
        try:
            return await original(*args, **kwargs)
        finally:
            _under_way.reset(token)
            for timing in under_way:
                timing.deactivate()
                with guarded("ending a job", recorder.on_fault):
                    timing.end()

    return run_job


def _note_failure(_: Recorder, arguments: Arguments) -> None:
    """Note what a job raised, which is written as its result."""
    error = arguments["result"]
    if not arguments["success"] and isinstance(error, BaseException):
        for timing in _under_way.get() or ():
            timing.fail(error)


class ArqHook(Hook):
    """Patches where a job is sent, and where a worker reads, runs and ends it."""

    requires = ("arq >= 0.25",)
    patches = (
        Replacement("arq.connections", "ArqRedis.enqueue_job", timed_sends(_sent)),
        Replacement("arq.connections", "serialize_job", carry),
        Replacement("arq.worker", "Worker.run_job", time_jobs),
        Replacement("arq.worker", "deserialize_job_raw", read_message),
        Replacement("arq.worker", "serialize_result", before("ending a job", _note_failure)),
    )
