"""When the requests came that uvicorn reads, which may have waited for its event loop."""

from functools import wraps
from typing import Any

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.arrival import ARRIVED, arrived_ns


def note_arrival(recorder: Recorder, original: Timed) -> Timed:
    """Note when a request came that is begun with now, as its headers are read."""
    requests = recorder.open_requests
    requests.serves = True

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807 - a cycle of uvicorn's
        original(self, *args, **kwargs)
        try:
            before = self.on_response.__self__.cycle  # of the same connection
            if before is None or before.response_complete:  # else its client did not wait for that
                self.scope[ARRIVED] = arrived_ns(requests, self.transport)
        except FAULTS as fault:
            recorder.on_fault("noting when a request came", fault)

    return __init__


class UvicornHook(Hook):
    """Patches where both of its protocols begin with a request."""

    requires = ("uvicorn >= 0.20",)
    patches = (
        Replacement(
            "uvicorn.protocols.http.h11_impl", "RequestResponseCycle.__init__", note_arrival
        ),
        Replacement(
            "uvicorn.protocols.http.httptools_impl", "RequestResponseCycle.__init__", note_arrival
        ),
    )
