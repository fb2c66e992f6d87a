"""Events of Gradio, which its queue works on apart from the requests that brought them."""

from functools import wraps
from time import monotonic
from typing import Any

from opentelemetry.context import Context

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.queues.messages import Work, fail_work, timed_work
from latencytrace.model import semconv


def _event(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Work:
    events = kwargs["events"] if "events" in kwargs else args[1]
    found = getattr(events[0], "fn", None)
    name = getattr(found, "api_name", None) or getattr(found, "name", None) or "event"
    joined_s = getattr(events[0], "enqueue_time", None)  # None: an older Gradio notes none
    noted: HookAttributes = {}
    if isinstance(joined_s, float):
        noted[semconv.QUEUED_NS] = max(round((monotonic() - joined_s) * 1e9), 0)
    # The request that started the queue was answered long ago.
    return f"event {name}", {}, noted, Context()


def time_errors(recorder: Recorder, original: Timed) -> Timed:
    """Note what a step of an event raised, which the queue tells its client."""

    @wraps(original)
    async def process_api(*args: Any, **kwargs: Any) -> Any:
        try:
            return await original(*args, **kwargs)
        except Exception as error:
            with guarded("noting an exception", recorder.on_fault):
                fail_work(error)
            raise

    return process_api


class GradioHook(Hook):
    """Times each event as a request of its own, with all steps of one that streams."""

    requires = ("gradio >= 4.0",)
    patches = (
        Replacement("gradio.queueing", "Queue.process_events", timed_work(_event)),
        Replacement("gradio.blocks", "Blocks.process_api", time_errors),
    )
