"""The steps of the models that run in this process, for a profile that counts them."""

from collections.abc import Iterable
from typing import Protocol

from opentelemetry.trace import Span, get_current_span


class StepListener(Protocol):
    """A profile under way, which counts the steps of models."""

    def step(self, trace_ids: Iterable[int], /) -> None:
        """Take note that a step of these traces begins."""


class ModelSteps:
    """Passes, tokens and batches of models as they begin."""

    __slots__ = ("have_begun", "listener")

    def __init__(self) -> None:
        self.have_begun = False  # since the process began
        self.listener: StepListener | None = None

    def begin(self, *spans: Span) -> None:
        """A step begins: a pass, a token or a batch, of these spans or of the current one."""
        self.have_begun = True
        if self.listener is not None:
            of = spans or (get_current_span(),)
            contexts = (span.get_span_context() for span in of)
            self.listener.step([one.trace_id for one in contexts if one.is_valid])
