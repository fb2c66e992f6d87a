"""Phases of one HTTP call: connected, encrypted, sent, waited, received."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from latencytrace.agent.clock import monotonic_ns

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


class NetworkPhases:
    """Listens to httpcore's `trace` extension during one exchange.

    Args:
        other: The program's own listener, which is still called with everything.
    """

    __slots__ = ("_ends", "_other", "_starts")

    def __init__(self, other: Trace | None) -> None:
        self._other = other
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}

    def listen(self, event: str, details: Mapping[str, object]) -> object:
        """Note one step of a blocking exchange."""
        self._note(event)
        return self._other(event, details) if self._other is not None else None

    async def alisten(self, event: str, details: Mapping[str, object]) -> None:
        """Note one step of an asynchronous exchange."""
        self._note(event)
        if self._other is not None:
            answer = self._other(event, details)
            if isinstance(answer, Awaitable):
                await answer

    def packed(self, started_ns: int, ended_ns: int) -> str:
        """The value of `latencytrace.network.phases`, empty if nothing was reported.

        Args:
            started_ns: The monotonic start of the exchange's span.
            ended_ns: When the last byte had come.
        """
        ends_ns = dict(self._ends)
        starts_ns = dict(self._starts)
        if "wait" in ends_ns:
            starts_ns["receive"], ends_ns["receive"] = ends_ns["wait"], ended_ns
        return ";".join(
            f"{phase}:{starts_ns[phase] - started_ns}+{end_ns - starts_ns[phase]}"
            for phase, end_ns in ends_ns.items()
            if started_ns <= starts_ns[phase] <= end_ns
        )

    def _note(self, event: str) -> None:
        step, _, state = event.partition(".")[2].partition(".")
        phase = _STEPS.get(step)
        if phase is None:
            return
        now_ns = monotonic_ns()
        if state == "started":
            self._starts.setdefault(phase, now_ns)
        else:  # complete, or failed
            self._ends[phase] = now_ns
