"""Counts of a process: requests that joined queues of its own, and steps of its models."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from opentelemetry.trace import Span, get_current_span


class BatchCounts(NamedTuple):
    """Counts of `enqueue()` and `batch()` in this process since the agent started."""

    steps: int = 0  # batches recorded, each one shared span
    members: int = 0  # requests served in them and recorded, each in its own trace
    reused: int = 0  # times that a ticket was served again: a retry, or the next step
    left_out: int = 0  # of these, beyond what is recorded of one ticket
    late: int = 0  # members whose span had ended before their batch began
    unused: int = 0  # tickets let go before any batch served them


class BatchTally:
    """The same while it is being counted."""

    __slots__ = BatchCounts._fields

    def __init__(self) -> None:
        self.steps = self.members = self.reused = self.left_out = self.late = self.unused = 0

    def counts(self) -> BatchCounts:
        return BatchCounts(*(getattr(self, name) for name in BatchCounts._fields))


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
