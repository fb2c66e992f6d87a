"""MLServer: the queue of its adaptive batching, and its batches."""

from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Ticket, batch_of, new_ticket
from latencytrace.agent.toolkit.calls import after

_ADAPTIVE = "mlserver.batching.adaptive"

_WAITING = "_latencytrace_waiting"  # our attributes on a batcher: tickets by MLServer's id
_TAKEN = "_latencytrace_taken"  # and of batches that begin, by the id of what they ask


def _see_batches(recorder: Recorder, arguments: Arguments, _: object) -> None:
    """Time each call of the function that a batcher serves its batches with."""
    self: Any = arguments["self"]
    setattr(self, _WAITING, {})
    setattr(self, _TAKEN, {})
    self._predict_fn = _timed(recorder, self._predict_fn, getattr(self, _TAKEN))


def _timed(
    recorder: Recorder, predict: Callable[..., Any], taken: dict[int, list[Ticket | None]]
) -> Callable[..., Any]:
    @wraps(predict)
    async def _predict_fn(merged: Any, *args: Any, **kwargs: Any) -> Any:
        with batch_of(recorder, taken.pop(id(merged), ())) or nullcontext():
            return await predict(merged, *args, **kwargs)

    return _predict_fn


def take_ticket(recorder: Recorder, original: Timed) -> Timed:
    """Take a ticket for what joins the queue, or waits for room in it."""

    @wraps(original)
    async def _queue_request(self: object, *args: Any, **kwargs: Any) -> Any:
        ticket = new_ticket(recorder, None)
        queued = await original(self, *args, **kwargs)
        with guarded("joining a queue", recorder.on_fault):
            vars(self).get(_WAITING, {})[queued[0]] = ticket
        return queued

    return _queue_request


def forget_ticket(recorder: Recorder, original: Timed) -> Timed:
    """Drop the ticket of a request that waits no longer."""

    @wraps(original)
    async def _wait_response(self: object, internal_id: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await original(self, internal_id, *args, **kwargs)
        finally:
            with guarded("leaving a queue", recorder.on_fault):
                vars(self).get(_WAITING, {}).pop(internal_id, None)

    return _wait_response


def name_batches(recorder: Recorder, original: Timed) -> Timed:
    """Note which requests a batch holds."""

    @wraps(original)
    async def _batch_requests(self: object) -> AsyncIterator[Any]:
        async for batched in original(self):
            with guarded("starting a batch", recorder.on_fault):
                waiting, taken = vars(self).get(_WAITING, {}), vars(self).get(_TAKEN, {})
                taken[id(batched.merged_request)] = [
                    waiting.pop(internal_id, None) for internal_id in batched.inference_requests
                ]
            yield batched

    return _batch_requests


class MlserverHook(Hook):
    """Times the wait for a batch, and the batch, in each request's own trace."""

    requires = ("mlserver >= 1.6",)
    patches = (
        Replacement(
            _ADAPTIVE, "AdaptiveBatcher.__init__", after("watching a batcher", _see_batches)
        ),
        Replacement(_ADAPTIVE, "AdaptiveBatcher._queue_request", take_ticket),
        Replacement(_ADAPTIVE, "AdaptiveBatcher._wait_response", forget_ticket),
        Replacement(_ADAPTIVE, "AdaptiveBatcher._batch_requests", name_batches),
    )
