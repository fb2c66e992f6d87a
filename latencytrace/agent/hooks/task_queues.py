"""Messages of Dramatiq, and jobs of RQ and of RunPod workers."""

from collections.abc import Mapping
from typing import Any

from latencytrace.agent.spans.provider import SHUTDOWN_S
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.http import propagation
from latencytrace.agent.toolkit.queues.messages import Sent, flush, timed_sends, timed_work


def _dramatiq_sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    message = kwargs.get("message") or args[1]
    return Sent(message.actor_name, message.options, kwargs.get("delay") is None)


def _message(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    message = kwargs.get("message") or args[1]
    return message.actor_name, message.options


def _dramatiq_failure(args: tuple[Any, ...], _: object) -> BaseException | None:
    """Find what an actor raised, which is kept with its message."""
    found = getattr(args[1], "_exception", None)
    return found if isinstance(found, BaseException) else None


class DramatiqHook(Hook):
    """Times how every broker takes a message, and a worker's thread that works on it."""

    requires = ("dramatiq >= 1.15",)
    patches = (
        Replacement("dramatiq.broker", "Broker.enqueue", timed_sends(_dramatiq_sent), later=True),
        # A name of old, which its newer versions keep.
        Replacement(
            "dramatiq.worker",
            "_WorkerThread.process_message",
            timed_work(_message, _dramatiq_failure),
        ),
    )


def _rq_sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    job = kwargs.get("job") or args[1]
    return Sent(str(job.func_name), job.meta)


def _rq_job(args: tuple[Any, ...], _: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
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
        Replacement("rq.queue", "Queue._enqueue_job", timed_sends(_rq_sent)),
        Replacement("rq.job", "Job.perform", timed_work(_rq_job)),
        Replacement("rq.worker", "BaseWorker.perform_job", after("ending a job", _flush)),
    )


def _runpod_job(_: tuple[Any, ...], __: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return "run job", {}


class JobError(Exception):
    """A job that RunPod's worker answers with an error."""


def _runpod_failure(_: tuple[Any, ...], answer: Any) -> Exception | None:
    return JobError() if isinstance(answer, Mapping) and answer.get("error") else None


class RunpodHook(Hook):
    """Times each job as a request of its own; a streaming handler is not timed."""

    requires = ("runpod >= 1.6",)
    patches = (
        Replacement(
            "runpod.serverless.modules.rp_job", "run_job", timed_work(_runpod_job, _runpod_failure)
        ),
    )
