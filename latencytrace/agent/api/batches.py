"""Queues and batches that a program names itself."""

from collections.abc import Iterable

from latencytrace.agent.guard import contained
from latencytrace.agent.start import recorder
from latencytrace.agent.toolkit.batching import Batch, Ticket, new_ticket
from latencytrace.model.attributes import AttributeValue


def enqueue(*, tokens: int | None = None) -> Ticket:
    """Take a ticket where a request joins a queue of your own: its wait begins.

    Hand it on with the request's work, and to `batch` where that is done. Call it in
    what the caller waits for, not in a helper that returns before.

    Args:
        tokens: How much work it brings, if you know; `latencytrace trace` then apportions
            a batch by tokens instead of equally.
    """
    return new_ticket(contained("joining a queue")(recorder)(), tokens)


def batch(
    tickets: Iterable[Ticket | None], stage: str = "forward", **attributes: AttributeValue
) -> Batch:
    """Time what serves many requests at once; a context manager, sync or async.

    The block is one span in a trace of its own, and each request gets its wait and the
    block's time in its own trace. Hand the results out after the block.

    Args:
        tickets: Of the requests it serves; one named twice counts once, None is passed over.
        stage: One of latencytrace's stages, or a name of your own.
        attributes: Scalars to keep with the shared span. No prompts: they are stored.
    """
    return Batch(recorder, tickets, stage, attributes)
