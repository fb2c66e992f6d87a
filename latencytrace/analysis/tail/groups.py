"""The tail of a cohort and what it is compared with, as bands of durations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import DurationBand, RequestColumns

REFERENCE = (0.4, 0.6)  # quantiles around the median
MOST_TAIL = 4_000  # requests; of more a share is read, and likewise below
MOST_REFERENCE = 10_000
MOST_OTHERS = 5_000  # of each band beside them: they only tell the usual spread
LEAST_TAIL = 10  # requests: of fewer nothing can be said
USUAL, TAIL = 1, 3  # of the four bands: the reference and the tail
LONGEST_BLOCKS = 64  # stretches of time whose requests may resemble each other
LEAST_IN_BLOCK = 100

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Requests that are the tail in place of the slowest ones: a box on a heat map."""

    at_least_ns: int
    at_most_ns: int
    since_ns: int  # of their start, inclusive
    until_ns: int  # exclusive

    @property
    def is_empty(self) -> bool:
        """Tell that no request can be in it."""
        return self.at_least_ns > self.at_most_ns or self.since_ns >= self.until_ns

    def holds(self, columns: RequestColumns) -> Mask:
        """Tell which rows are selected."""
        return (
            (columns.duration_ns >= self.at_least_ns)
            & (columns.duration_ns <= self.at_most_ns)
            & (columns.start_ns >= self.since_ns)
            & (columns.start_ns < self.until_ns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A cohort by duration: faster ones, the reference, slower ones, and the tail."""

    starts_ns: tuple[int, int, int, int]  # where each of the four begins
    counts: tuple[int, int, int, int]

    @classmethod
    def of(cls, durations_ns: NDArray[np.int64], quantile: float) -> "Split":
        """Split at least one request; what is as long as the quantile belongs to the tail."""
        low, high, threshold = _quantiles(durations_ns, (*REFERENCE, quantile))
        return cls._at(durations_ns, low, high, threshold)

    @classmethod
    def without_tail(cls, durations_ns: NDArray[np.int64]) -> "Split":
        """Split at least one request; the tail is known otherwise."""
        low, high = _quantiles(durations_ns, REFERENCE)
        return cls._at(durations_ns, low, high, DurationBand().at_most_ns)

    @classmethod
    def _at(cls, durations_ns: NDArray[np.int64], low: int, high: int, threshold: int) -> "Split":
        starts = (0, min(low, threshold), min(high + 1, threshold), threshold)
        beyond = [int(np.count_nonzero(durations_ns >= start)) for start in starts]
        first, second, third, fourth = (more - fewer for more, fewer in pairwise([*beyond, 0]))
        return cls(starts_ns=starts, counts=(first, second, third, fourth))

    @property
    def threshold_ns(self) -> int:
        """The duration from which on a request belongs to the tail."""
        return self.starts_ns[3]

    def places(self, durations_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the band that each of these durations is in, from 0."""
        return np.searchsorted(self.starts_ns[1:], durations_ns, side="right")

    def bands(self) -> list[DurationBand]:
        """The bands to read, each with the share of its requests that is enough."""
        ends = (*self.starts_ns[1:], DurationBand().at_most_ns + 1)
        most = (MOST_OTHERS, MOST_REFERENCE, MOST_OTHERS, MOST_TAIL)
        return [
            DurationBand(
                at_least_ns=start, at_most_ns=end - 1, share_ratio=min(1.0, enough / count)
            )
            for start, end, count, enough in zip(
                self.starts_ns, ends, self.counts, most, strict=True
            )
            if count
        ]


def _quantiles(durations_ns: NDArray[np.int64], levels: Sequence[float]) -> list[int]:
    count = len(durations_ns)
    places = [min(int(level * count), count - 1) for level in levels]
    found = np.partition(durations_ns, sorted(set(places)))
    return [int(found[place]) for place in places]


def needed_requests(quantile: float) -> int:
    """How many requests there must be for a tail beyond this quantile."""
    return math.ceil(round(LEAST_TAIL / (1.0 - quantile), 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Rows in order of start, and which of the four bands each is in."""

    columns: RequestColumns
    tail: Mask
    reference: Mask
    weight: NDArray[np.float64]  # requests that a row stands for
    block: NDArray[np.int64]  # of those in the tail or the reference: a stretch of time
    blocks: int

    @classmethod
    def of(cls, columns: RequestColumns, split: Split) -> "Groups":
        """Group the rows that `Split.bands` asked for."""
        return cls._of_bands(columns, split.places(columns.duration_ns), split.counts)

    @classmethod
    def _of_bands(
        cls, columns: RequestColumns, band: NDArray[np.int64], counts: Sequence[int]
    ) -> "Groups":
        """Group rows by the band that each is in, of so many requests."""
        rows = np.maximum(np.bincount(band, minlength=4), 1)
        compared = (band == USUAL) | (band == TAIL)
        place = np.cumsum(compared) - 1
        total = int(compared.sum())
        blocks = min(LONGEST_BLOCKS, max(total // LEAST_IN_BLOCK, LEAST_TAIL))
        return cls(
            columns=columns,
            tail=band == TAIL,
            reference=band == USUAL,
            weight=(np.array(counts) / rows)[band],
            block=np.maximum(place, 0) * blocks // max(total, 1),
            blocks=blocks,
        )

    @classmethod
    def of_selection(
        cls, columns: RequestColumns, split: Split, selection: Selection, counts: Sequence[int]
    ) -> "Groups":
        """Group rows, of so many requests in each band, of which a selection is the tail.

        It may lie in one short time, of which no other block would have any: so each of the two
        groups has blocks of its own, stretches of as many requests.
        """
        band = np.where(selection.holds(columns), TAIL, split.places(columns.duration_ns))
        every = cls._of_bands(columns, band, counts)
        size = int(every.tail.sum())
        place = np.maximum(np.cumsum(every.tail) - 1, 0) * every.blocks // max(size, 1)
        usual = np.maximum(np.cumsum(every.reference) - 1, 0) * every.blocks
        usual //= max(int(every.reference.sum()), 1)
        return replace(every, block=np.where(every.tail, place, usual))
