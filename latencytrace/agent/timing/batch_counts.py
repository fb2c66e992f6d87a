"""Counts the requests that joined queues of the program's own."""

from typing import NamedTuple


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
