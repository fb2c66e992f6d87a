"""A budget and its burn rates over time: counts by slot in, a value for each column out."""

from dataclasses import dataclass
from math import ceil

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
    def of(
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
            bad: Bad requests of each slot that is known.
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
        left_ratio: Share of the budget that is left now.
        ends: Ends of the columns, in slots.
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
        ends: Ends of the columns, in slots.
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


_ENOUGH = 12  # requests that would be bad in a stretch that is well
_HALF = 0.5  # of the share that fires: below, a stretch of requests was well


def burning_since(
    bad: NDArray[np.int64], total: NDArray[np.int64], least_ratio: float, calm_slots: int
) -> int | None:
    """Find where the burn that goes on now began: after the last stretch that was well.

    An incident before that stretch is another one, though a long window may hold both.

    Args:
        bad: Bad requests of each slot, the newest last.
        total: All requests of each.
        least_ratio: The share of bad requests that fires.
        calm_slots: How long a stretch is well before it parts two incidents, at least: of few
            requests it is longer, for chance has none of a few be bad.

    Returns:
        The place of the first slot; None: no request was bad.
    """
    well_ratio = _HALF * least_ratio
    a_slot = max(total.sum() / max(len(total), 1), 1 / max(len(total), 1))
    calm_slots = max(calm_slots, min(ceil(_ENOUGH / (least_ratio * a_slot)), len(total) // 2))
    requests, faults = rolling(total, calm_slots), rolling(bad, calm_slots)
    well = np.flatnonzero((requests > 0) & (faults <= well_ratio * requests))
    first = int(well[-1]) + 1 if len(well) else 0
    # The end of that stretch may hold the first slots of the burn.
    while first > 0 and bad[first - 1] > well_ratio * total[first - 1]:
        first -= 1
    burning = np.flatnonzero(bad[first:])
    return first + int(burning[0]) if len(burning) else None


def rolling(counts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Sum each slot with those before it, so many in all."""
    sums = np.concatenate(([0], np.cumsum(counts)))
    starts = np.maximum(np.arange(1, len(sums)) - length, 0)
    return np.asarray(sums[1:] - sums[starts], np.int64)
