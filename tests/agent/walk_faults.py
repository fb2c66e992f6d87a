"""Breaks every function of the agent's in turn, and prints what a program sees of it.

In a process of its own, for a broken `close` leaves a socket open, and a broken thread dies.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from fnmatch import fnmatchcase
from types import CodeType, FrameType
from typing import Any
from unittest.mock import Mock

from latencytrace.agent.guard import FaultCounter, guarded
from latencytrace.agent.start import start, uninstrument
from latencytrace.agent.timing import costs
from latencytrace.settings import agent_settings
from tests.agent.broken_functions import InjectedError, Target, targets
from tests.support.programs.served_program import run

HOOKS = (
    "anyio", "asgi", "event_loop", "faiss", "fastapi", "httpx", "logging", "requests",
    "threads", "wsgi",
)  # fmt: skip
# What the program, a library or the interpreter calls itself. No function of ours stands above
# an edge, so none can help it; it keeps in whatever is raised by what it calls.
EDGES = (
    "guard:*",
    "start:instrument",  # the public API, and what tests call in its place
    "start:start",
    "start:uninstrument",
    "start:flush",
    "start:agent_status",
    "api.requests:[a-z]*",
    "api.stages:[a-z]*",
    "start:_at_exit",
    "spans.tracer:RecordingTracer.start_*span",
    "spans.provider:RecordingProvider.get_tracer",
    "spans.current_span:*",
    "spans.sdk_view:SdkView.*",
    "spans.span:RecordedSpan.[a-z]*",
    "spans.span:RecordedSpan.__*",
    "api.stages:UserStage.__*",
    "toolkit.batching:Batch.__*",
    "toolkit.batching:Batch.[a-z]*",
    "toolkit.batching:Ticket.__*",
    "toolkit.batching:new_ticket",
    "timing.wrapping:_begun",
    "timing.wrapping:_failed",
    "timing.wrapping:_finished",
    "timing.wrapping:Call.[a-z]*",
    "timing.wrapping:_Within.*",
    "*:*.<locals>.begin",
    "timing.recorder:Timing.activate",
    "timing.recorder:Timing.deactivate",
    "process.imports:_Finder.find_spec",
    "process.imports:_Loader.*",
    "export.exporter:Exporter._run",
    "export.exporter:Exporter._send_queue",
    "export.exporter:Exporter.reset_after_fork",
    "context:call_in",  # around what a thread or a pool runs
    "timing.runtime_gaps:_call_pooled",
    "timing.costs:HookCost.around",  # likewise, where it is measured
    "timing.costs:_beside*",
    "hooks.asgi:RequestTiming.*<locals>.*",  # what an application is given
    "hooks.threads:_carry_into.<locals>.runcall_in",  # around what a thread runs
    "hooks.*:_begun",
    "hooks.*:_sampled",
    "hooks.*:_taken_up",
    "hooks.*:RequestTiming.[a-z]*",
    "hooks.*:TimedBody.*",
    "hooks.httpx:_TimedStream.*",
    *(f"toolkit.http.client:ClientCall.{name}" for name in ("finish", "fail", "end")),
    *(f"toolkit.http.server:ServedRequest.{name}" for name in ("fail", "end")),
    "toolkit.http.*:*.activate",
    "toolkit.http.*:*.deactivate",
    "toolkit.http.client:*.release_conn",
)


def is_edge(target: Target) -> bool:
    return any(fnmatchcase(target.name, edge) for edge in EDGES)


def called_by(call: Callable[[], object], codes: set[CodeType]) -> set[CodeType]:
    """Which of these codes a call runs, in whatever thread."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def changed_by(target: Target, call: Callable[[], object], untraced: object) -> str | None:
    """What the program sees of a fault; None: nothing."""
    try:
        with target.broken():
            outcome = copy_context().run(call)
    except InjectedError:
        return f"{target.name}: the program sees the fault"
    return None if outcome == untraced else f"{target.name}: {outcome}"


def sample(*, is_sampled: bool) -> None:
    """Measure the cost of each call of a hook from now on, or of none."""
    stride = 1 if is_sampled else sys.maxsize
    costs.FIRST = stride  # type: ignore[misc]
    costs._random = Mock(randrange=lambda *_: stride)  # type: ignore[misc]
    for cost in costs.all_costs():
        cost.reset()


def started(endpoint: str) -> None:
    """Start the agent, as `instrument` does."""
    settings = agent_settings(
        endpoint=endpoint,
        service_name="program",
        hooks=HOOKS,
        environ={
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "LATENCYTRACE_OVERHEAD": "off",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            "OTEL_PYTHON_LOG_CORRELATION": "1",
            "LATENCYTRACE_SERVER_TIMING": "1",
        },
    )
    with guarded("starting", FaultCounter()):
        start(settings, FaultCounter())


def walk(endpoint: str) -> dict[str, Any]:
    """How many functions were broken, and of which of them the program saw anything."""
    untraced = run()
    every = targets()
    gone = [edge for edge in EDGES if not any(fnmatchcase(one.name, edge) for one in every)]
    inner = [target for target in every if not is_edge(target)]
    codes = {target.code for target in inner}

    sample(is_sampled=True)

    def started_and_run() -> object:
        started(endpoint)
        try:
            return run()
        finally:
            uninstrument()

    of_all = called_by(started_and_run, codes)
    changes: list[str | None] = []
    while_running: set[CodeType] = set()
    for is_sampled in (False, True):  # what measures a call stands between its parts
        started(endpoint)
        sample(is_sampled=is_sampled)
        more = called_by(run, codes) - while_running
        changes += [changed_by(t, run, untraced) for t in inner if t.code in more]
        while_running |= more
        uninstrument()
    at_the_ends = [t for t in inner if t.code in of_all - while_running]
    changes += [changed_by(t, started_and_run, untraced) for t in at_the_ends]
    changes.append(None if run() == untraced else "the program is not what it was before")
    found = [change for change in changes if change]
    return {"broken": len(of_all), "changes": found, "edges_that_are_gone": gone}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda _: None
    sys.unraisablehook = lambda _: None
    sys.stdout.write(json.dumps(walk(sys.argv[1])))
