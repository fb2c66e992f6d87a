"""Counts of the latest while, in slots of equal length."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Tally


class TallyRing:
    """Two numbers a slot; a window is at most two stretches of the ring, and so quickly summed.

    Args:
        slot_ns: The length of a slot.
        span_ns: How much of the past is kept.
    """

    def __init__(self, slot_ns: int, span_ns: int) -> None:
        self.slot_ns = slot_ns
        self._size = span_ns // slot_ns + 2  # a window begins and ends within a slot
        self._bad = np.zeros(self._size, dtype=np.int64)
        self._total = np.zeros(self._size, dtype=np.int64)
        self._changed: set[int] = set()
        self._latest: int | None = None  # the number of the last slot that has requests

    def add(self, at_ns: int, tally: Tally) -> bool:
        """Count requests at a moment; false: it is too long ago."""
        number = at_ns // self.slot_ns
        if self._latest is None or number > self._latest:
            self._advance(number)
        elif number <= self._latest - self._size:
            return False
        place = number % self._size
        self._bad[place] += tally.bad
        self._total[place] += tally.total
        self._changed.add(number)
        return True

    def add_all(self, at_ns: NDArray[np.int64], is_bad: NDArray[np.bool_]) -> int:
        """Count requests, as `add` does one after the other; how many came too late."""
        if not len(at_ns):
            return 0
        numbers = at_ns // self.slot_ns
        before = numbers[0] if self._latest is None else self._latest
        latest = np.maximum.accumulate(np.concatenate(([before], numbers)))[1:]
        in_time = numbers > latest - self._size
        if self._latest is None or latest[-1] > self._latest:
            self._advance(int(latest[-1]))
        left = in_time & (numbers > latest[-1] - self._size)  # of the others the slot is reused
        places = numbers[left] % self._size
        np.add.at(self._bad, places, is_bad[left])
        np.add.at(self._total, places, 1)
        self._changed.update(np.unique(numbers[in_time]).tolist())
        return int(np.count_nonzero(~in_time))

    def tally(self, until_ns: int, window_ns: int) -> Tally:
        """The counts of a window; the slots at both its ends are part of it as a whole."""
        bad = total = 0
        for _, stretch in self._stretches(until_ns, window_ns):
            bad += int(self._bad[stretch].sum())
            total += int(self._total[stretch].sum())
        return Tally(bad=bad, total=total)

    def slots(
        self, until_ns: int, window_ns: int
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """The slots of a window: the start of the first, and of each its bad and all requests."""
        stretches = list(self._stretches(until_ns, window_ns))
        if not stretches:
            return until_ns, np.zeros(0, np.int64), np.zeros(0, np.int64)
        bad, total = (
            np.concatenate([counts[stretch] for _, stretch in stretches])
            for counts in (self._bad, self._total)
        )
        return stretches[0][0] * self.slot_ns, bad, total

    def coverage_ratio(self, until_ns: int, window_ns: int, silence_ns: int) -> float:
        """The share of a window in which requests came, pauses up to `silence_ns` included."""
        found = [
            first + np.flatnonzero(self._total[stretch])
            for first, stretch in self._stretches(until_ns, window_ns)
        ]
        numbers = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
        if len(numbers) == 0:
            return 0.0
        starts_ns = np.append(numbers * self.slot_ns, until_ns)
        ends_ns = np.append(until_ns - window_ns, (numbers + 1) * self.slot_ns)
        silences_ns = starts_ns - ends_ns
        silent_ns = int(silences_ns[silences_ns > silence_ns].sum())
        return max(0.0, 1 - silent_ns / window_ns)

    def last_ns(self) -> int | None:
        """The start of the latest slot that has requests."""
        return None if self._latest is None else self._latest * self.slot_ns

    def changes(self) -> Iterator[tuple[int, Tally]]:
        """The slots that have changed since this was asked last: start and counts."""
        changed, self._changed = self._changed, set()
        for number in changed:
            if self._latest is not None and number > self._latest - self._size:
                place = number % self._size
                tally = Tally(bad=int(self._bad[place]), total=int(self._total[place]))
                yield number * self.slot_ns, tally

    def restore(self, slots: Iterable[tuple[int, Tally]]) -> None:
        """Take up what was kept."""
        for at_ns, tally in slots:
            self.add(at_ns, tally)
        self._changed.clear()

    def _advance(self, number: int) -> None:
        """Clear what the ring's places held a turn ago."""
        if self._latest is not None:
            for stretch in self._places(max(self._latest + 1, number - self._size + 1), number):
                self._bad[stretch] = 0
                self._total[stretch] = 0
        self._latest = number

    def _stretches(self, until_ns: int, window_ns: int) -> Iterator[tuple[int, slice]]:
        """The places of a window's slots, and the number of each stretch's first slot."""
        if self._latest is None:
            return
        first = max((until_ns - window_ns) // self.slot_ns, self._latest - self._size + 1)
        for stretch in self._places(first, min(until_ns // self.slot_ns, self._latest)):
            yield first, stretch
            first += stretch.stop - stretch.start

    def _places(self, first: int, last: int) -> Iterator[slice]:
        """The places of the slots from one number to another, in at most two stretches."""
        if last < first:
            return
        start, stop = first % self._size, last % self._size + 1
        if start < stop:
            yield slice(start, stop)
        else:
            yield slice(start, self._size)
            yield slice(0, stop)
