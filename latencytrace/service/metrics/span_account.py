"""The account of all spans: each that was acknowledged has one end."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Without(StrEnum):
    """The reason why spans have no ledger."""

    NO_REQUEST = "no_request"  # their root has not come in all the time that it was remembered
    SHARED_STEP = "shared_step"  # a batch's own trace; its members' ledgers hold what it did
    LATE = "late"  # they came too late for their trace
    OUTDATED = "outdated"  # the other spans of their trace are no longer kept
    FAULT = "fault"  # a fault of the service's own stopped their trace
    REFUSED = "refused"  # the store's engine cannot read them
    LOST = "lost"  # the store has lost them


@dataclass(slots=True)
class Account:
    """Spans, from their arrival to their end; conserved: the first is the sum of the others."""

    taken: int = 0
    open: int = 0
    rootless: int = 0  # their trace holds no request so far, and is remembered
    attributed: int = 0
    without: Counter[Without] = field(default_factory=Counter)

    def take(self, count: int) -> None:
        """Take note that so many arrived."""
        self.taken += count
        self.open += count

    @property
    def ended(self) -> int:
        """Spans that wait no more, whatever became of them."""
        return self.taken - self.open

    @property
    def unaccounted(self) -> int:
        """Spans that went nowhere: not 0 is a fault of ours."""
        known = self.open + self.rootless + self.attributed + self.without.total()
        return self.taken - known
