"""Requests that are left out: not recorded at all, or with nothing but their own span.

Speed is the point here: what is left out to keep a budget must itself cost next to nothing
(`tests/benchmarks/bench_overhead.py`).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import Token
from typing import Any

from opentelemetry.context import Context

from latencytrace.agent.budget.detail import SPARED
from latencytrace.agent.context import current, enter, leave
from latencytrace.agent.guard import FAULTS, edge_faults
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.http.server import ServedRequest

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class DroppedRequest:
    """A request that is not recorded; the services it calls learn so.

    Args:
        within: The context of all that it does.
    """

    __slots__ = ("_token", "_within")
    is_spared = True

    def __init__(self, within: Context) -> None:
        self._within = within
        self._token: Token[Context] | None = None

    def activate(self) -> None:
        """Tell the services it calls that its trace is not recorded."""
        try:
            self._token = enter(self._within)
        except FAULTS as fault:
            edge_faults("making a request current", fault)

    def deactivate(self) -> None:
        """Make the span before it current again."""
        token, self._token = self._token, None
        try:
            if token is not None:
                leave(token)
        except FAULTS as fault:
            edge_faults("leaving a request", fault)

    @staticmethod
    def received(receive: Receive) -> Receive:
        return receive

    @staticmethod
    def sent(send: Send) -> Send:
        return send

    def fail(self, error: BaseException) -> None:
        """Note nothing."""

    def end(self) -> None:
        """Note nothing."""


def decided_on(recorder: Recorder, caller: Context) -> tuple[DroppedRequest | None, Context]:
    """Decide whether a request is recorded, before anything is made for it.

    Returns:
        The request, if it is not; and the context that it is to begin in.
    """
    detail = recorder.detail
    if not caller and not current():  # nothing that it may be part of
        caller = detail.begin()
        return (DroppedRequest(caller) if SPARED in caller else None), caller
    decision = detail.decide(caller)
    if decision.detail is not None:
        return None, decision.caller
    detail.count(None)
    within = Context({**current(), **decision.caller, SPARED: True})
    return DroppedRequest(within), decision.caller


def sending(request: ServedRequest, send: Send, has_left: Callable[[], None]) -> Send:
    """Return what notes the status of such a request, and calls `has_left` with its last byte."""
    if request.detail is None:
        return send

    async def ending_send(message: Message) -> None:
        await send(message)
        try:
            if message["type"] == "http.response.start":
                request.note_status(message["status"])
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                has_left()
        except FAULTS as fault:
            request.recorder.on_fault("timing a send", fault)

    return ending_send
