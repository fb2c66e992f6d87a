"""`latencytrace.request`: a unit of work without a server, which is a request of its own."""

from asyncio import _get_running_loop  # the public one raises where there is none
from collections.abc import Mapping
from typing import Any, Final, cast

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.api.user_stage import UserStage
from latencytrace.agent.budget.detail import SPARED
from latencytrace.agent.context import current, enter
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.http.server import ServedRequest
from latencytrace.model.attributes import AttributeValue

_OURS: Final = "latencytrace."  # how the keys of our own entries in a context begin


class OwnRequest(ServedRequest):
    """A request that no server takes, in a trace of its own.

    Args:
        recorder: Where its span goes.
        name: What breakdowns call its route.
        attributes: Scalars; they travel with the span.
    """

    is_span = True  # for generators: each of their steps runs within it

    def __init__(
        self, recorder: Recorder, name: str, attributes: Mapping[str, AttributeValue]
    ) -> None:
        super().__init__(
            recorder,
            name,
            dict(attributes),
            Context(),
            kind=SpanKind.INTERNAL,
            on_loop=_get_running_loop() is not None,
        )

    @property
    def span(self) -> Span:
        """Its span."""
        return self.timing.span

    def activate(self) -> None:
        """Make its span current, and nothing that we keep of a request around it."""
        try:
            others = {key: value for key, value in current().items() if not key.startswith(_OURS)}
            entries = {**others, _SPAN_KEY: self.timing.span, GAPS: self._gaps}
            if self.is_spared:
                entries[SPARED] = True
            self._token = enter(Context(entries))
        except FAULTS as fault:
            self.recorder.on_fault("making a request current", fault)

    def fail(self, error: BaseException) -> None:
        """Note what the work raised, and end it."""
        super().fail(error)
        self.end()

    def finish(self, _: Any) -> None:  # noqa: ANN401 - whatever a function returned
        """End with the function that it is."""
        self.end()


class UserRequest(UserStage):
    """Times a block or a function as a request; made by `latencytrace.request(name)`."""

    __slots__ = ()

    def _begun(self) -> OwnRequest:
        return OwnRequest(self._recorder(), self._name, self._attributes)

    def _begun_call(self) -> Call:
        return cast("Call", self._begun())  # it does all that is asked of one
