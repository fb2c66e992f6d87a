"""Stages, queues and batches that a program names itself."""

from collections.abc import Iterable

from latencytrace.agent.api.user_request import UserRequest
from latencytrace.agent.api.user_stage import UserStage
from latencytrace.agent.guard import contained
from latencytrace.agent.start import recorder
from latencytrace.agent.toolkit.batching import Batch, Ticket, new_ticket
from latencytrace.model.attributes import AttributeValue

_new = object.__new__


def stage(name: str, **attributes: AttributeValue) -> UserStage:
    """Time a block, or each call of a function, as a stage of the request.

    Use it as `with latencytrace.stage("rerank"):` or `@latencytrace.stage("rerank")`;
    sync, async and generator functions alike. Without a running agent it records
    into the program's own tracer provider, if there is one.

    Args:
        name: One of latencytrace's stages (`retrieve`, `rerank`, …), or a name of your
            own, which is counted as stage `application` with that name kept.
        attributes: Scalars to keep with the span. No prompts: they are stored.
    """
    made = _new(UserStage)
    made.__init__(recorder, name, attributes)  # type: ignore[misc]  # half of what the call of a class costs
    return made


def request(name: str, **attributes: AttributeValue) -> UserRequest:
    """Time a unit of work that no server takes, as a request in a trace of its own.

    Use it as `with latencytrace.request("nightly"):` or `@latencytrace.request("nightly")`;
    sync, async and generator functions alike. Inside of another request it is none of its parts.

    Args:
        name: What breakdowns call its route; of low cardinality.
        attributes: Scalars to keep with the span. No prompts: they are stored.
    """
    return UserRequest(recorder, name, attributes)


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
        stage: One of latencytrace's stages, or a name of your own (see `stage`).
        attributes: Scalars to keep with the shared span. No prompts: they are stored.
    """
    return Batch(recorder, tickets, stage, attributes)
