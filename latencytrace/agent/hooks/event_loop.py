"""Who waited while another request's code held asyncio's event loop."""

from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.hook import Hook, Replacement, Timed
from latencytrace.agent.recorder import Recorder
from latencytrace.agent.runtime_gaps import NOTICED_NS


def time_callback(recorder: Recorder, original: Timed) -> Timed:
    """Time each callback of a loop while a request is under way."""
    requests = recorder.open_requests

    def _run(self: Any) -> None:  # noqa: ANN401 - asyncio's Handle
        if not requests.open:
            original(self)
            return
        started_ns = monotonic_ns()
        if started_ns < requests.resumed_by_ns:
            with guarded("noting a wait for the event loop", recorder.on_fault):
                requests.resumed(self._context, started_ns)
        original(self)
        ended_ns = monotonic_ns()
        if ended_ns - started_ns >= NOTICED_NS:
            with guarded("noting a held event loop", recorder.on_fault):
                requests.loop_held(self._context, started_ns, ended_ns)

    return _run


class EventLoopHook(Hook):
    """Patches what asyncio's own loop runs each callback with; uvloop has no such place."""

    patches = (Replacement("asyncio.events", "Handle._run", time_callback),)
