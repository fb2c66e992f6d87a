"""Counts of the latest while, in slots of equal length: of requests, or of slices of time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.slo.over_time import rolling
from latencytrace.model import Objective, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS, SLICE_PARTS, TimeSlices

FINE_NS, FINE_SPAN_NS = 10 * 10**9, 8 * HOUR_NS
COARSE_NS, COARSE_EXTRA_NS = 5 * MINUTE_NS, 24 * HOUR_NS
SETTLE_NS = 30 * 10**9  # after its end a slice is judged, when its requests have settled
_NONE = Tally(bad=0, total=0)
T = TypeVar("T")
Weights = NDArray[np.int64] | None  # how many each request stands for; None: itself


def _row(tally: Tally) -> tuple[int, int, int, int]:
    return tally.bad, tally.total, tally.unseen_bad, tally.unseen


def _tally(row: NDArray[np.int64]) -> Tally:
    bad, total, unseen_bad, unseen = row.tolist()
    return Tally(bad=bad, total=total, unseen_bad=unseen_bad, unseen=unseen)


class TallyRing:
    """Four numbers a slot; a window is at most two stretches of the ring, and so quickly summed.

    Args:
        slot_ns: The length of a slot.
        span_ns: How much of the past is kept.
    """

    def __init__(self, slot_ns: int, span_ns: int) -> None:
        self.slot_ns = slot_ns
        self._size = span_ns // slot_ns + 2  # a window begins and ends within a slot
        self._counts = np.zeros((4, self._size), dtype=np.int64)  # as `_row` has them
        self._changed: set[int] = set()
        self._latest: int | None = None  # the number of the last slot that has requests

    def add(self, at_ns: int, tally: Tally) -> bool:
        """Count requests at a moment; false: it is too long ago."""
        number = at_ns // self.slot_ns
        if self._latest is None or number > self._latest:
            self._advance(number)
        elif number <= self._latest - self._size:
            return False
        self._counts[:, number % self._size] += _row(tally)
        self._changed.add(number)
        return True

    def add_all(
        self, at_ns: NDArray[np.int64], is_bad: NDArray[np.bool_], weights: Weights = None
    ) -> int:
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
        each = np.ones(len(places), np.int64) if weights is None else weights[left]
        counted = [is_bad[left] * each, each]
        if weights is not None:
            counted += [is_bad[left] * (each - 1), each - 1]
        for counts, added in zip(self._counts, counted, strict=False):
            np.add.at(counts, places, added)
        self._changed.update(np.unique(numbers[in_time]).tolist())
        return int(np.count_nonzero(~in_time))

    def tally(self, until_ns: int, window_ns: int) -> Tally:
        """The counts of a window; the slots at both its ends are part of it as a whole."""
        found = _NONE
        for _, stretch in self._stretches(until_ns, window_ns):
            found += _tally(self._counts[:, stretch].sum(axis=1))
        return found

    def slots(
        self, until_ns: int, window_ns: int
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """The slots of a window: the start of the first, and of each its bad and all requests."""
        stretches = list(self._stretches(until_ns, window_ns))
        if not stretches:
            return until_ns, np.zeros(0, np.int64), np.zeros(0, np.int64)
        bad, total = np.concatenate([self._counts[:2, each] for _, each in stretches], axis=1)
        return stretches[0][0] * self.slot_ns, bad, total

    def fewest(self, until_ns: int, window_ns: int, look_ns: int) -> int | None:
        """The fewest requests that came in so long, within a window.

        Returns:
            None: nothing is known of it, for the first request came later.
        """
        if self._latest is None:
            return None
        numbers = np.arange(self._latest - self._size + 1, self._latest + 1)
        came = (self._counts[1] - self._counts[3])[numbers % self._size]
        known = np.arange(self._size) >= np.argmax(came > 0)
        first, last = (until_ns - window_ns) // self.slot_ns, until_ns // self.slot_ns
        length = -(-look_ns // self.slot_ns)
        of_slot = came[known & (first <= numbers) & (numbers <= last)]
        looks = rolling(of_slot, length)[length - 1 :]
        return int(looks.min()) if len(looks) else None

    def coverage_ratio(self, until_ns: int, window_ns: int, silence_ns: int) -> float:
        """The share of a window in which requests came, pauses up to `silence_ns` included."""
        found = [
            first + np.flatnonzero(self._counts[1, stretch])
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
                yield number * self.slot_ns, _tally(self._counts[:, number % self._size])

    def restore(self, slots: Iterable[tuple[int, Tally]]) -> None:
        """Take up what was kept."""
        for at_ns, tally in slots:
            self.add(at_ns, tally)
        self._changed.clear()

    def _advance(self, number: int) -> None:
        """Clear what the ring's places held a turn ago."""
        if self._latest is not None:
            for stretch in self._places(max(self._latest + 1, number - self._size + 1), number):
                self._counts[:, stretch] = 0
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


class CountRings:
    """Counts of requests: in fine slots for hours, in coarse ones for the whole period.

    Attributes:
        requests: Those of the latest hours, whatever is judged.
        since_start: What was judged since this process began.
        delay_ns: How long after a slot begins it can be judged.
    """

    def __init__(self, period_ns: int) -> None:
        self._fine = TallyRing(FINE_NS, FINE_SPAN_NS)
        self._coarse = TallyRing(COARSE_NS, period_ns + COARSE_EXTRA_NS)
        self.requests = self._fine
        self.since_start = _NONE
        self.delay_ns = 0

    def of(self, window_ns: int) -> TallyRing:
        """The ring that holds a window."""
        return self._fine if window_ns + self.delay_ns <= FINE_SPAN_NS else self._coarse

    def add(self, at_ns: int, tally: Tally) -> bool:
        """Count requests at a moment; false: that is too long ago."""
        self.since_start += tally
        self._fine.add(at_ns, tally)
        return self._coarse.add(at_ns, tally)

    def add_all(
        self, at_ns: NDArray[np.int64], is_bad: NDArray[np.bool_], weights: Weights = None
    ) -> int:
        """Count requests, as `add` does one after the other; how many came too late."""
        bad = came_bad = int(np.count_nonzero(is_bad))
        total = len(is_bad)
        if weights is not None:
            bad, total = int(weights[is_bad].sum()), int(weights.sum())
        self.since_start += Tally(
            bad=bad, total=total, unseen_bad=bad - came_bad, unseen=total - len(is_bad)
        )
        self._fine.add_all(at_ns, is_bad, weights)
        return self._coarse.add_all(at_ns, is_bad, weights)

    def close(self, now_ns: int) -> int | None:
        """Judge what is over by now; the start of the latest slice that is, where there are any.

        It is kept for counts that go on after a restart: `since_start` has each slice once.
        """
        del now_ns
        return None

    def last_ns(self) -> int | None:
        """The time of the latest request, to the slot."""
        found = [ring.last_ns() for ring in (self.requests, self._coarse)]
        return max((at_ns for at_ns in found if at_ns is not None), default=None)

    def changes(self) -> Iterator[tuple[int, int, Tally]]:
        """Slots to be kept that changed since this was asked last: length, start and counts."""
        for ring in (self.requests, self._coarse):
            for at_ns, tally in ring.changes():
                yield ring.slot_ns, at_ns, tally

    def restore(
        self, slots: Iterable[tuple[int, int, Tally]], closed_ns: int | None = None
    ) -> None:
        """Take up what was kept.

        Args:
            slots: Length, start and counts of each.
            closed_ns: What `close` said last; None: that is not known.
        """
        del closed_ns
        kept = list(slots)
        for ring in (self.requests, self._coarse):
            ring.restore((at_ns, tally) for length, at_ns, tally in kept if length == ring.slot_ns)


class SliceRings(CountRings):
    """Counts of slices of time, each judged by its requests, anew with each that comes late."""

    def __init__(self, period_ns: int, slices: TimeSlices) -> None:
        super().__init__(period_ns)
        self.requests = TallyRing(FINE_NS, FINE_SPAN_NS)
        self.delay_ns = slices.length_ns + SETTLE_NS
        self._slices = slices
        # Slices that are not in `since_start`, by their start; the requests of a long backlog
        # are gone from the ring before they are closed.
        self._open: dict[int, Tally] = {}
        self._closed_ns: int | None = None  # the start of the latest that is

    def add(self, at_ns: int, tally: Tally) -> bool:
        if at_ns < self._oldest_ns(at_ns):
            return False
        return self._judged([self._start_ns(at_ns)], lambda: self.requests.add(at_ns, tally))

    def add_all(
        self, at_ns: NDArray[np.int64], is_bad: NDArray[np.bool_], weights: Weights = None
    ) -> int:
        if not len(at_ns):
            return 0
        in_time = at_ns >= self._oldest_ns(int(at_ns.max()))
        length_ns = self._slices.length_ns
        starts_ns = (np.unique(at_ns[in_time] // length_ns) * length_ns).tolist()
        late = int(np.count_nonzero(~in_time))
        return late + self._judged(
            starts_ns,
            lambda: self.requests.add_all(
                at_ns[in_time], is_bad[in_time], None if weights is None else weights[in_time]
            ),
        )

    def close(self, now_ns: int) -> int | None:
        for start_ns in sorted(self._open):
            if start_ns + self.delay_ns <= now_ns:
                self.since_start += self._open.pop(start_ns)
                self._closed_ns = max(start_ns, self._closed_ns or start_ns)
        return self._closed_ns

    def restore(
        self, slots: Iterable[tuple[int, int, Tally]], closed_ns: int | None = None
    ) -> None:
        super().restore(slots)
        last_ns = self.requests.last_ns()
        if last_ns is None:
            return
        first_ns, _, total = self.requests.slots(last_ns, FINE_SPAN_NS)
        times_ns = first_ns + FINE_NS * np.flatnonzero(total)
        length_ns = self._slices.length_ns
        starts_ns = (np.unique(times_ns // length_ns) * length_ns).tolist()
        self._fine.restore((start_ns, self._verdict(start_ns)) for start_ns in starts_ns)
        if closed_ns is None:  # kept by an older version: that many were closed at least
            closed_ns = last_ns - self.delay_ns
        # A slice that was closed before the clock was set back is another one by now.
        self._closed_ns = min(closed_ns, last_ns)
        self._open |= {
            start_ns: self._verdict(start_ns)
            for start_ns in starts_ns
            if start_ns > self._closed_ns
        }

    def _judged(self, starts_ns: Sequence[int], add: Callable[[], T]) -> T:
        """Add requests of slices, and what that changes in the verdicts on these."""
        before = [self._verdict(start_ns) for start_ns in starts_ns]
        added = add()
        for start_ns, was in zip(starts_ns, before, strict=True):
            now = self._verdict(start_ns)
            change = Tally(bad=now.bad - was.bad, total=now.total - was.total)
            for ring in (self._fine, self._coarse):
                ring.add(start_ns, change)
            if not was.total or start_ns in self._open:  # else it is in `since_start`
                self._open[start_ns] = now
        return added

    def _verdict(self, start_ns: int) -> Tally:
        """The slice that begins at a moment; nothing where it has no request."""
        length_ns = self._slices.length_ns - 1
        found = self.requests.tally(start_ns + length_ns, length_ns)
        if not found.total:
            return _NONE
        least_ratio = self._slices.target_ratio
        good_ratio = (found.total - found.bad) / found.total
        if least_ratio is not None:
            return Tally(bad=SLICE_PARTS * (good_ratio < least_ratio), total=SLICE_PARTS)
        return Tally(bad=round(SLICE_PARTS * (1 - good_ratio)), total=SLICE_PARTS)

    def _start_ns(self, at_ns: int) -> int:
        return at_ns // self._slices.length_ns * self._slices.length_ns

    def _oldest_ns(self, at_ns: int) -> int:
        """The moment since which slices are whole once a request of that time is counted."""
        newest_ns = max(at_ns, self.requests.last_ns() or 0)
        return newest_ns - FINE_SPAN_NS + self._slices.length_ns


def rings_of(objective: Objective) -> CountRings:
    """The rings of an objective's counts, with nothing in them."""
    if objective.slices is None:
        return CountRings(objective.period_ns)
    return SliceRings(objective.period_ns, objective.slices)


def outlived(now_ns: int, periods_ns: Iterable[int]) -> dict[int, int]:
    """The moments before which slots are not needed any more, by their length.

    Coarse ones go by whole days in UTC, for the report of a month.
    """
    oldest_ns = now_ns - max(periods_ns, default=0) - COARSE_EXTRA_NS
    return {
        FINE_NS: now_ns - FINE_SPAN_NS - HOUR_NS,
        COARSE_NS: oldest_ns // DAY_NS * DAY_NS,
    }
