"""Ordinary routes whose time is counted, not measured: `counted_server.py PORT HOW SERVICE`.

Each instruction of Python's bytecode, in any thread, moves the agent's clocks on by so many
nanoseconds, and nothing else does. The compiled core is to be off: what it does is not seen.
"""

import gc
import importlib.util
import sys
import threading
from contextvars import Context
from functools import partial
from operator import getitem
from pathlib import Path
from types import FrameType
from typing import Any, Final

AN_INSTRUCTION_NS: Final = 30
FLUSH_S: Final = 60.0

passed_ns = [0]
updates_ns = [0]  # of it, what is left out
here = threading.local()


def count(frame: FrameType, event: str, _: object) -> Any:
    """Count an instruction; what this function itself takes is not traced."""
    if event == "call":
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
    elif event == "opcode":
        passed_ns[0] += AN_INSTRUCTION_NS
        here.ns = getattr(here, "ns", 0) + AN_INSTRUCTION_NS
    return count


def count_from_now_on() -> None:
    """Put clocks that count in the place of the agent's, before anything of it is imported."""
    package = importlib.util.find_spec("latencytrace")
    assert package is not None
    assert package.origin is not None
    name, file = "latencytrace.agent.clock", Path(package.origin).parent / "agent" / "clock.py"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    clock: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(clock)
    clock.monotonic_ns = partial(getitem, passed_ns, 0)  # in C, so that it is not counted
    clock.process_cpu_ns = clock.monotonic_ns
    clock.cpu_ns = partial(getattr, here, "ns", 0)
    clock.ANCHOR_NS = clock.system_ns()
    sys.modules[name] = clock
    threading.settrace(count)
    sys.settrace(count)


def account() -> dict[str, int]:
    """Say what has been done so far, and what the agent says of it, in nanoseconds.

    What the agent reports and what it takes to find prices are left out of both.
    """
    said_ns = 0
    agent: Any = getattr(sys.modules.get("latencytrace.agent.start"), "_running", None)
    if agent is not None:
        agent._exporter.flush(FLUSH_S, reports=False)
        own = agent._reports.own()
        before_ns = passed_ns[0]
        counts, queued = agent._exporter.counts, agent._exporter.queued
        outside = Context()  # of this request, as the agent's own thread is
        outside.run(partial(own.update, counts, queued, may_sample=False))
        updates_ns[0] += passed_ns[0] - before_ns
        said_ns = own.cost.cpu_ns - own.cost.reporting_cpu_ns
    done_ns = passed_ns[0] - updates_ns[0]
    gc.collect()
    gc.freeze()
    updates_ns[0] = passed_ns[0] - done_ns
    return {"done_ns": done_ns, "said_ns": said_ns}


if __name__ == "__main__":
    count_from_now_on()
    from tests.benchmarks.request_server import serve, trace
    from tests.benchmarks.routes_server import CLIENTS, app

    trace(sys.argv[2], app, CLIENTS)
    if sys.argv[2] == "latencytrace":
        sys.modules["latencytrace.agent.start"]._running._exporter.report(on=False)
    app.get("/account")(account)
    serve(app)
