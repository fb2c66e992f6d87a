"""Requests, queues and batches that a program names itself."""

from collections.abc import Iterable
from typing import cast

from latencytrace.agent.api.stages import UserStage
from latencytrace.agent.guard import contained
from latencytrace.agent.start import recorder
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.batching import Batch, Ticket, new_ticket
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.model.attributes import AttributeValue


class UserRequest(UserStage):
    """Times a block or a function as a request; made by `latencytrace.request(name)`."""

    __slots__ = ()

    def _begun(self) -> OwnRequest:
        return OwnRequest(self._recorder(), self._name, self._attributes)

    def _begun_call(self) -> Call:
        return cast("Call", self._begun())  # it does all that is asked of one


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
        tickets: Tickets of its requests; one named twice counts once, None is passed over.
        stage: One of latencytrace's stages, or a name of your own.
        attributes: Scalars to keep with the shared span. No prompts: they are stored.
    """
    return Batch(recorder, tickets, stage, attributes)
