"""A request in a trace of its own, whatever is current where it begins."""

from asyncio import _get_running_loop  # the public one raises where there is none
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation import (
    _SPAN_KEY,  # what set_span_in_context sets, four calls deep
)

from latencytrace.agent.budget.detail import SPARED
from latencytrace.agent.context import current, enter
from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.runtime_gaps import GAPS
from latencytrace.agent.toolkit.http.server import ServedRequest
from latencytrace.agent.toolkit.streaming import ANSWER
from latencytrace.model.attributes import AttributeValue

_OURS: Final = "latencytrace."  # how the keys of our own entries in a context begin


class OwnRequest(ServedRequest):
    """A request that has no server of HTTP, in a trace of its own.

    Args:
        name: What breakdowns call its route.
        attributes: Scalars; they travel with the span.
        started_ns: A monotonic time; None: now.
    """

    is_span = True  # for generators: each of their steps runs within it

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        attributes: Mapping[str, AttributeValue],
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        started_ns: int | None = None,
    ) -> None:
        super().__init__(
            recorder,
            name,
            dict(attributes),
            Context(),
            kind=kind,
            on_loop=_get_running_loop() is not None,
            started_ns=started_ns,
        )

    @property
    def span(self) -> Span:
        return self.timing.span

    def activate(self) -> None:
        """Make its span current, and nothing that we keep of a request around it."""
        try:
            others = {key: value for key, value in current().items() if not key.startswith(_OURS)}
            entries = {**others, _SPAN_KEY: self.timing.span, GAPS: self._gaps}
            if self.is_spared:
                entries[SPARED] = True
            elif self.answering is not None:
                entries[ANSWER] = self.answering
            self._token = enter(Context(entries))
        except FAULTS as fault:
            self.recorder.on_fault("making a request current", fault)

    def fail(self, error: BaseException) -> None:
        """Note what the work raised, and end it."""
        super().fail(error)
        self.end()

    def finish(self, _: Any) -> None:
        """End with the function that it is."""
        self.end()
