"""Jobs of RQ: when they were sent, and the caller's context in their `meta`."""

from collections.abc import Mapping
from typing import Any

from latencytrace.agent.spans.provider import SHUTDOWN_S
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.queues.messages import Sent, flush, timed_sends, timed_work


def _sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    job = kwargs.get("job") or args[1]
    return Sent(str(job.func_name), job.meta)


def _job(args: tuple[Any, ...], _: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return str(args[0].func_name), args[0].meta


def _flush(recorder: Recorder, arguments: Arguments, _: object) -> None:
    """Send what a process of one job has recorded: it ends without any further step."""
    worker: Any = arguments["self"]
    if worker.is_horse:
        flush(recorder, SHUTDOWN_S)


def _carry(recorder: Recorder, _: Arguments, job: Any) -> None:
    """Put the context into a job as it is made, which another process may queue later."""
    if not recorder.suppressed():
        job.meta = {**job.meta}  # the caller may give the same to other jobs
        propagation.inject(job.meta)


class RqHook(Hook):
    """Times what every way to send a job goes through, and the work in whatever worker."""

    requires = ("rq >= 2.0",)
    patches = (
        Replacement("rq.queue", "Queue.create_job", after("making a job", _carry)),
        Replacement("rq.queue", "Queue._enqueue_job", timed_sends(_sent)),
        Replacement("rq.job", "Job.perform", timed_work(_job)),
        Replacement("rq.worker", "BaseWorker.perform_job", after("ending a job", _flush)),
    )
