"""When the requests came that uvicorn reads, which may have waited for its event loop."""

from functools import wraps
from typing import Any

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.arrival import ARRIVED, arrived_ns


def note_arrival(recorder: Recorder, original: Timed) -> Timed:
    """Note when a request came whose task is made now, as its bytes are read."""
    requests = recorder.open_requests
    requests.serves = True

    @wraps(original)
    def run_asgi(self: Any, app: object) -> Any:  # noqa: ANN401 - a cycle of uvicorn's
        try:
            self.scope[ARRIVED] = arrived_ns(requests, self.transport)
        except FAULTS as fault:
            recorder.on_fault("noting when a request came", fault)
        return original(self, app)

    return run_asgi


class UvicornHook(Hook):
    """Patches where both of its protocols begin with a request."""

    requires = ("uvicorn >= 0.20",)
    patches = (
        Replacement(
            "uvicorn.protocols.http.h11_impl", "RequestResponseCycle.run_asgi", note_arrival
        ),
        Replacement(
            "uvicorn.protocols.http.httptools_impl", "RequestResponseCycle.run_asgi", note_arrival
        ),
    )
