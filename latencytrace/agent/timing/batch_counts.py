"""Counts the requests that joined queues of the program's own."""

from dataclasses import dataclass


@dataclass(slots=True)
class BatchCounts:
    """Counts of `enqueue()` and `batch()` in this process since the agent started."""

    steps: int = 0  # batches recorded, each one shared span
    members: int = 0  # requests served in them and recorded, each in its own trace
    reused: int = 0  # times that a ticket was served again: a retry, or the next step
    left_out: int = 0  # of these, beyond what is recorded of one ticket
    late: int = 0  # members whose span had ended before their batch began
    unused: int = 0  # tickets let go before any batch served them
