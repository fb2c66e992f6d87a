"""When the requests came that uvicorn reads, which may have waited for its event loop."""

from functools import wraps
from typing import Any

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.arrival import ARRIVED, arrived_ns


def note_arrival(recorder: Recorder, original: Timed) -> Timed:
    """Note when a request came that is begun with now, as its headers are read."""
    requests, cost = recorder.open_requests, HookCost()

    def note(self: Any, before: Any) -> None:
        cycle = self.cycle
        # One behind another that is not answered yet does not wait for the loop.
        if cycle is not before and (before is None or before.response_complete):
            cycle.scope[ARRIVED] = arrived_ns(requests, self.transport)

    @wraps(original)
    def read(self: Any) -> None:
        before = getattr(self, "cycle", None)
        requests.serves = True
        original(self)
        try:
            left = cost.left = cost.left - 1
            if left > 0:
                note(self, before)
            else:
                cost.sampled(note, self, before)
        except FAULTS as fault:
            recorder.on_fault("noting when a request came", fault)

    return read


class UvicornHook(Hook):
    """Patches where both of its protocols begin with a request."""

    requires = ("uvicorn >= 0.20",)
    patches = (
        Replacement(
            "uvicorn.protocols.http.h11_impl",
            "H11Protocol.handle_events",
            note_arrival,
            bare=True,
        ),
        Replacement(
            "uvicorn.protocols.http.httptools_impl",
            "HttpToolsProtocol.on_headers_complete",
            note_arrival,
            bare=True,
        ),
    )
