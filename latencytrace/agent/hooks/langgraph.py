"""Runs of LangGraph's API server, which wait in a queue until one of its workers is free."""

from collections.abc import Mapping
from functools import wraps
from typing import Any, Final

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from latencytrace.agent.clock import monotonic_ns, wall_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import Stage

_W3C: Final = TraceContextTextMapPropagator()  # as the server itself writes and reads it


def _note_wait(recorder: Recorder, run: Mapping[str, Any], attempt: int) -> None:
    """Add the wait to the request that asked for a run: from its creation until now."""
    configured = run["kwargs"]["config"]["configurable"]
    caller = {name: configured.get(f"__otel_{name}__") for name in ("traceparent", "tracestate")}
    is_asked_for_later = bool(configured.get("__after_seconds__"))
    if attempt > 1 or is_asked_for_later or not caller["traceparent"]:
        return
    waited_ns = wall_ns() - round(run["created_at"].timestamp() * 1e9)
    context = _W3C.extract({name: value for name, value in caller.items() if value})
    if waited_ns > 0:
        recorder.start(
            "wait for a worker",
            Stage.QUEUE,
            context=context,
            started_ns=monotonic_ns() - waited_ns,
        ).end()


def time_waits(recorder: Recorder, original: Timed) -> Timed:
    @wraps(original)
    async def worker(run: Any, attempt: int, *args: Any, **kwargs: Any) -> Any:
        with guarded("noting a wait", recorder.on_fault):
            _note_wait(recorder, run, attempt)
        return await original(run, attempt, *args, **kwargs)

    return worker


class LanggraphHook(Hook):
    """Notes how long each run waited for a worker; its own spans go on below the request's."""

    requires = ("langgraph-api >= 0.16",)
    patches = (Replacement("langgraph_api.worker", "worker", time_waits),)
