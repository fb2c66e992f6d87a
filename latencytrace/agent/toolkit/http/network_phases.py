"""Phases of one HTTP call: connected, encrypted, sent, waited, received.

Speed is the point here: httpcore reports some ten events a call (`bench_routes.py`).
Without other listeners its steps are noted as they begin and end, without the texts and calls of
a report, and they are put together once the span is sent.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.timing.costs import HookCost
from latencytrace.agent.timing.hook import Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue

Trace = Callable[[str, Any], object]

# httpcore reports the beginning and the end of each step: `http11.send_request_headers.started`.
_STEPS: Mapping[str, str] = {
    "connect_tcp": "connect",
    "connect_unix_socket": "connect",
    "start_tls": "tls",
    "send_request_headers": "send",
    "send_request_body": "send",
    "receive_response_headers": "wait",
}
_NOTING: Final = "noting a step of a connection"
_WEIGHT: Final = 1000  # bytes that a call's phases keep


class NetworkPhases:
    """Listens to httpcore's `trace` extension during one exchange.

    Args:
        other: The program's own listener, which is still called with everything.
    """

    __slots__ = ("_ended_ns", "_started_ns", "ends", "other", "starts")

    def __init__(self, other: Trace | None) -> None:
        self.other = other
        self._started_ns = self._ended_ns = 0  # of the exchange, once it is over
        self.starts: dict[str, int] = {}
        self.ends: dict[str, int] = {}

    def __call__(self, event: str, details: Mapping[str, object]) -> object:
        """Note one step of a blocking exchange."""
        self._note(event)
        return self.other(event, details) if self.other is not None else None

    def begun(self, step: str) -> None:
        """Note that a step begins now, if it is of a phase."""
        phase = _STEPS.get(step)
        if phase is not None:
            self.starts.setdefault(phase, monotonic_ns())

    def over(self, step: str) -> None:
        """Note that one is over, or failed."""
        phase = _STEPS.get(step)
        if phase is not None:
            self.ends[phase] = monotonic_ns()

    def taken(self, started_ns: int, ended_ns: int) -> Deferred | None:
        """Return the attribute `latencytrace.network.phases`; None: nothing was reported.

        Args:
            started_ns: The monotonic start of the exchange's span.
            ended_ns: When the last byte had come.
        """
        if not self.ends:
            return None
        self._started_ns, self._ended_ns = started_ns, ended_ns
        return Deferred(self._attributes, _WEIGHT)

    def _attributes(self) -> Mapping[str, AttributeValue]:
        started_ns, ended_ns = self._started_ns, self._ended_ns
        ends_ns = dict(self.ends)
        starts_ns = dict(self.starts)
        if "wait" in ends_ns:
            starts_ns["receive"], ends_ns["receive"] = ends_ns["wait"], ended_ns
        packed = ";".join(
            f"{phase}:{starts_ns[phase] - started_ns}+{end_ns - starts_ns[phase]}"
            for phase, end_ns in ends_ns.items()
            if started_ns <= starts_ns[phase] <= end_ns
        )
        return {semconv.NETWORK_PHASES: packed} if packed else {}

    def _note(self, event: str) -> None:
        step, _, state = event.partition(".")[2].partition(".")
        if state == "started":
            self.begun(step)
        else:
            self.over(step)


class AsyncNetworkPhases(NetworkPhases):
    """The same of an asynchronous exchange."""

    __slots__ = ()

    async def __call__(self, event: str, details: Mapping[str, object]) -> None:
        """Note one step, and let the program's own listener hear of it."""
        self._note(event)
        if self.other is not None:
            answer = self.other(event, details)
            if isinstance(answer, Awaitable):
                await answer


def _steps(  # noqa: C901 - each step of a call goes through it
    kind: type[NetworkPhases], *, begins: bool
) -> Callable[[Recorder, Timed], Timed]:
    """Return what notes the beginning or the end of each step of a blocking exchange.

    Where another listener wants it too, or where noting fails, httpcore's own goes on.
    """
    note = kind.begun if begins else kind.over

    def build(recorder: Recorder, original: Timed) -> Timed:  # noqa: C901 - likewise
        cost = HookCost()

        @wraps(original)
        def step(self: Any, *error: Any) -> Any:
            try:
                phases = self.trace_extension
                if type(phases) is kind and not self.debug and phases.other is None:
                    left = cost.left = cost.left - 1
                    if left > 0:
                        note(phases, self.name)
                    else:
                        cost.sampled(note, phases, self.name)
                    return self if begins else None
            except FAULTS as fault:
                recorder.on_fault(_NOTING, fault)
            return original(self, *error)

        @wraps(original)
        async def async_step(self: Any, *error: Any) -> Any:  # the same; a call less is a tenth
            try:
                phases = self.trace_extension
                if type(phases) is kind and not self.debug and phases.other is None:
                    left = cost.left = cost.left - 1
                    if left > 0:
                        note(phases, self.name)
                    else:
                        cost.sampled(note, phases, self.name)
                    return self if begins else None
            except FAULTS as fault:
                recorder.on_fault(_NOTING, fault)
            return await original(self, *error)

        return async_step if kind is AsyncNetworkPhases else step

    return build


begin_step: Final = _steps(NetworkPhases, begins=True)
end_step: Final = _steps(NetworkPhases, begins=False)
begin_async_step: Final = _steps(AsyncNetworkPhases, begins=True)
end_async_step: Final = _steps(AsyncNetworkPhases, begins=False)
