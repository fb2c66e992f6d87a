"""BentoML: the queue of a batchable API, and its batches."""

import sys
from contextvars import ContextVar
from functools import wraps
from typing import Any

import wrapt
from opentelemetry.trace import NoOpTracerProvider

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Tickets, batch_of
from latencytrace.agent.toolkit.calls import after

_CONTAINERS = "bentoml._internal.configuration.containers"
_DISPATCHER = "bentoml._internal.marshal.dispatcher"

_tickets = Tickets()  # of the jobs
_splitting: ContextVar[bool] = ContextVar("latencytrace.bentoml.splitting", default=False)


def _take_ticket(recorder: Recorder, arguments: Arguments, _: object) -> None:
    """Take a ticket for a job, unless it is half of another one."""
    job: Any = arguments["self"]
    if not _splitting.get():
        _tickets.take(recorder, job.future)


def share_ticket(recorder: Recorder, original: Timed) -> Timed:
    """Let both halves of a job that is too large for one batch have its ticket."""

    @wraps(original)
    def split_job(self: object, job: Any, *args: Any, **kwargs: Any) -> Any:
        splitting = _splitting.set(True)
        try:
            halves = original(self, job, *args, **kwargs)
        finally:
            _splitting.reset(splitting)
        with guarded("splitting a job", recorder.on_fault):
            (ticket,) = _tickets.of([job.future])
            _tickets.share(ticket, *(half.future for half in halves))
        return halves

    return split_job


def time_batch(recorder: Recorder, original: Timed) -> Timed:
    """Time one call of a batchable API, for all requests in it."""

    @wraps(original)
    async def outbound_call(self: object, inputs_info: Any, *args: Any, **kwargs: Any) -> Any:
        batch = batch_of(recorder, _tickets.of(job.future for job in inputs_info))
        if batch is None:
            return await original(self, inputs_info, *args, **kwargs)
        batch.begin()
        batch.activate()
        try:
            return await original(self, inputs_info, *args, **kwargs)
        finally:
            batch.deactivate()
            error = None
            with guarded("ending a batch", recorder.on_fault):
                error = _error(inputs_info[0].future)
            batch.end(error)

    return outbound_call


def _error(future: Any) -> BaseException | None:
    """Return what the batch raised, which BentoML returns as a result."""
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    result = future.result()
    return result if isinstance(result, BaseException) else None


class ProviderWhereOff(wrapt.ObjectProxy):  # type: ignore[type-arg] # wrapt 1 takes none
    """BentoML's tracer provider, of which nothing is left while its tracing is off.

    BentoML wraps every application in contrib's middleware, with a provider of its own that
    by default records nothing: its spans would hide our request from what the application does.
    """

    def get(self) -> Any:
        """BentoML's own where its tracing is on.

        It is made in any case: that names the service in BentoML's log.
        """
        own = self.__wrapped__.get()
        container = sys.modules[_CONTAINERS].BentoMLContainer
        return own if container.tracing.sample_rate.get() else NoOpTracerProvider()


def provider_where_off(_recorder: Recorder, original: Any) -> Any:
    return ProviderWhereOff(original)


class BentomlHook(Hook):
    """Times the wait for a batch, and the batch, in each request's own trace."""

    requires = ("bentoml >= 1.4",)
    patches = (
        Replacement(_CONTAINERS, "_BentoMLContainerClass.tracer_provider", provider_where_off),
        Replacement(_DISPATCHER, "Job.__init__", after("joining a queue", _take_ticket)),
        Replacement(_DISPATCHER, "CorkDispatcher.split_job", share_ticket),
        Replacement(_DISPATCHER, "CorkDispatcher.outbound_call", time_batch),
    )
