"""Tickets of what waits in a library's queue, found again where a batch serves it."""

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Batch, Ticket, new_ticket
from latencytrace.model.stage import Stage


class Tickets:
    """Those of one library, by the futures of what waits, which takes no attributes itself."""

    def __init__(self) -> None:
        self._tickets: WeakKeyDictionary[Any, Ticket] = WeakKeyDictionary()

    def take(self, recorder: Recorder, *futures: object) -> None:
        """Take one ticket for all that a request puts into the queue."""
        self.share(new_ticket(recorder, None), *futures)

    def share(self, ticket: Ticket | None, *futures: object) -> None:
        """Let all of these have a ticket, if there is one."""
        if ticket is not None:
            self._tickets.update((future, ticket) for future in futures)

    def of(self, futures: Iterable[object]) -> list[Ticket | None]:
        """Return the ticket of each; None: it came before the hook did."""
        return [self._tickets.get(future) for future in futures]


def batch_of(
    recorder: Recorder, tickets: Iterable[Ticket | None], stage: Stage = Stage.FORWARD
) -> Batch | None:
    """Return the batch that serves these tickets; None: there is none among them."""
    found = list(tickets)
    return Batch(lambda: recorder, found, stage, {}) if any(found) else None
