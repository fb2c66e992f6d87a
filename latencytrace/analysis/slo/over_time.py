"""A budget and its burn rates over time: counts by slot in, a value for each column out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Bad and all requests in slots of equal length, one after the other."""

    since_ns: int  # where the first slot begins
    slot_ns: int
    bad: Counts
    total: Counts

    @classmethod
    def of(  # noqa: PLR0913 - what a ring knows, and for which time
        cls,
        slot_ns: int,
        first_ns: int,
        bad: Counts,
        total: Counts,
        since_ns: int,
        until_ns: int,
    ) -> "Slots":
        """Return the slots of a time of which some are known: the others have no request.

        Args:
            slot_ns: The length of a slot.
            first_ns: Where the first that is known begins.
            bad: Of those that are known.
            total: All requests of each slot, in the same order.
            since_ns: The slot of this moment is the first.
            until_ns: The slot of this moment is the last.
        """
        begin = since_ns // slot_ns
        counts = np.zeros((2, max(until_ns // slot_ns + 1 - begin, 0)), dtype=np.int64)
        place = first_ns // slot_ns - begin
        left, right = max(place, 0), min(place + len(bad), counts.shape[1])
        if left < right:
            counts[:, left:right] = np.stack([bad, total])[:, left - place : right - place]
        return cls(since_ns=begin * slot_ns, slot_ns=slot_ns, bad=counts[0], total=counts[1])

    def columns(self, most: int) -> Counts:
        """Return where columns of about equal length end, in slots; at least one of each."""
        count = len(self.bad)
        return np.linspace(0, count, min(most, count) + 1).round().astype(np.int64)[1:]

    def end_ns(self, slot: int) -> int:
        """Return the moment at which so many slots end."""
        return self.since_ns + slot * self.slot_ns


def budget_over_time(
    slots: Slots, left_ratio: float, ends: Counts
) -> list[tuple[int, float | None]]:
    """Return what was left of a budget at the end of each column; None: before any request.

    Each bad request took the same part, so that the last value is what is left now.

    Args:
        slots: Counts of the period.
        left_ratio: Of the budget, now.
        ends: Of the columns, in slots.
    """
    spent = np.concatenate(([0], np.cumsum(slots.bad)))
    seen = np.concatenate(([0], np.cumsum(slots.total)))
    each = (1 - left_ratio) / int(spent[-1]) if spent[-1] else 0.0
    return [
        (slots.end_ns(end), 1 - float(spent[end]) * each if seen[end] else None)
        for end in ends.tolist()
    ]


def burn_over_time(
    slots: Slots, window_ns: int, budget_ratio: float, ends: Counts
) -> list[float | None]:
    """Return the burn rate of a window that ended with each column; None: it had no request.

    Args:
        slots: Counts, of which those before the first column's window are taken as none.
        budget_ratio: The share of requests that may be bad.
        ends: Of the columns, in slots.
    """
    long = max(-(-window_ns // slots.slot_ns), 1)
    bad, total = (
        (sums := np.concatenate(([0], np.cumsum(counts))))[ends] - sums[np.maximum(ends - long, 0)]
        for counts in (slots.bad, slots.total)
    )
    return [
        spent / seen / budget_ratio if seen else None
        for spent, seen in zip(bad.tolist(), total.tolist(), strict=True)
    ]
