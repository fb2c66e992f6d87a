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

    __slots__ = ("ends", "other", "starts")

    def __init__(self, other: Trace | None) -> None:
        self.other = other
        self.starts: dict[str, int] = {}
        self.ends: dict[str, int] = {}

    def __call__(self, event: str, details: Mapping[str, object]) -> object:
        """Note one step of a blocking exchange."""
        self._note(event)
        return self.other(event, details) if self.other is not None else None

    def begun(self, phase: str) -> None:
        """Note that a step of a phase begins now."""
        self.starts.setdefault(phase, monotonic_ns())

    def over(self, phase: str) -> None:
        """Note that one is over, or failed."""
        self.ends[phase] = monotonic_ns()

    def taken(self, started_ns: int, ended_ns: int) -> Deferred | None:
        """Return the attribute `latencytrace.network.phases`; None: nothing was reported.

        Args:
            started_ns: The monotonic start of the exchange's span.
            ended_ns: When the last byte had come.
        """
        if not self.ends:
            return None
        return Deferred(lambda: self._attributes(started_ns, ended_ns), _WEIGHT)

    def _attributes(self, started_ns: int, ended_ns: int) -> Mapping[str, AttributeValue]:
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
        phase = _STEPS.get(step)
        if phase is None:
            return
        if state == "started":
            self.begun(phase)
        else:
            self.over(phase)


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


_Note = Callable[[Any, str], None]


def _taking(recorder: Recorder, kind: type[NetworkPhases], note: _Note) -> Callable[[Any], bool]:
    """Return a function that notes a step; False: another listener wants it, or it failed."""
    cost, phase_of = HookCost(), _STEPS.get

    def takes(step: Any) -> bool:
        try:
            phases = step.trace_extension
            if type(phases) is not kind or step.debug or phases.other is not None:
                return False
            phase = phase_of(step.name)
            if phase is None:
                return True
            left = cost.left = cost.left - 1
            if left > 0:
                note(phases, phase)
            else:
                cost.sampled(note, phases, phase)
        except FAULTS as fault:
            recorder.on_fault(_NOTING, fault)
            return False
        return True

    return takes


def begin_step(recorder: Recorder, original: Timed) -> Timed:
    """Note the beginning of each step of a blocking exchange, where ours alone listens to it."""
    takes = _taking(recorder, NetworkPhases, NetworkPhases.begun)

    @wraps(original)
    def __enter__(self: Any) -> Any:  # noqa: N807 - httpcore's
        return self if takes(self) else original(self)

    return __enter__


def end_step(recorder: Recorder, original: Timed) -> Timed:
    """Note its end."""
    takes = _taking(recorder, NetworkPhases, NetworkPhases.over)

    @wraps(original)
    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807 - httpcore's
        return None if takes(self) else original(self, *error)

    return __exit__


def begin_async_step(recorder: Recorder, original: Timed) -> Timed:
    """Note the beginning of each step of an asynchronous exchange."""
    takes = _taking(recorder, AsyncNetworkPhases, AsyncNetworkPhases.begun)

    @wraps(original)
    async def __aenter__(self: Any) -> Any:  # noqa: N807 - httpcore's
        return self if takes(self) else await original(self)

    return __aenter__


def end_async_step(recorder: Recorder, original: Timed) -> Timed:
    """Note its end."""
    takes = _taking(recorder, AsyncNetworkPhases, AsyncNetworkPhases.over)

    @wraps(original)
    async def __aexit__(self: Any, *error: Any) -> Any:  # noqa: N807 - httpcore's
        return None if takes(self) else await original(self, *error)

    return __aexit__
