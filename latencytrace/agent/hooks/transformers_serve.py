"""`transformers serve`: the wait for its inference thread, and the request it works for."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from opentelemetry.context import Context, get_current
from opentelemetry.trace import get_current_span

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.calls import outside_requests
from latencytrace.model.stage import Stage

_UTILS = "transformers.cli.serving.utils"
_MANAGER = "transformers.cli.serving.model_manager"


def carry_into_queue(recorder: Recorder, original: Timed) -> Timed:
    """Let the inference thread work for the request that asked, and time its wait until then."""

    def dequeued(waiting: Timing | None, context: Context, work: Callable[..., Any]) -> Timed:
        def run(*args: Any, **kwargs: Any) -> Any:
            if waiting is not None:
                with guarded("ending a wait", recorder.on_fault):
                    waiting.end()
            return call_in(context, work, *args, **kwargs)

        return run

    @wraps(original)
    def submit(self: object, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        waiting = None
        with guarded("starting a wait", recorder.on_fault):
            if get_current_span().is_recording() and not recorder.suppressed():
                waiting = recorder.start("queue", Stage.QUEUE)
        return original(self, dequeued(waiting, get_current(), fn), *args, **kwargs)

    return submit


class TransformersServeHook(Hook):
    """Times what only the server knows; what it serves with is timed by the other hooks."""

    requires = ("transformers >= 5.0",)
    patches = (
        Replacement(_UTILS, "InferenceThread._run", outside_requests),
        Replacement(_UTILS, "InferenceThread.submit", carry_into_queue),
        Replacement(_UTILS, "InferenceThread.async_submit", carry_into_queue),
        Patch(_UTILS, "DirectStreamer.put", Stage.DETOKENIZE, interleaved=True),
        Patch(_MANAGER, "ModelManager._load_processor", Stage.LOAD, within=True),
        Patch(_MANAGER, "ModelManager._load_model", Stage.LOAD, within=True),
    )
