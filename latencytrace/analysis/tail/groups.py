"""The tail of a cohort and what it is compared with, as bands of durations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.model import DurationRange
from latencytrace.model.cohorts.request_columns import DurationBand, Durations, RequestColumns

REFERENCE = (0.4, 0.6)  # quantiles around the median
MOST_TAIL = 4_000  # requests; of more a share is read, and likewise below
MOST_REFERENCE = 10_000
MOST_OTHERS = 5_000  # of each band beside them: they only tell the usual spread
LEAST_TAIL = 10  # requests: of fewer nothing can be said
LEAST_OTHERS = 50  # of the same time as a selection, a fifth of which are around their median
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
    def durations(self) -> DurationRange:
        return DurationRange(at_least_ns=self.at_least_ns, at_most_ns=self.at_most_ns)

    def outside(self, bands: Sequence[DurationBand]) -> list[DurationBand]:
        parts = [
            replace(
                band,
                at_least_ns=max(band.at_least_ns, at_least_ns),
                at_most_ns=min(band.at_most_ns, at_most_ns),
            )
            for band in bands
            for at_least_ns, at_most_ns in (
                (band.at_least_ns, self.at_least_ns - 1),
                (self.at_most_ns + 1, band.at_most_ns),
            )
        ]
        return [part for part in parts if part.at_least_ns <= part.at_most_ns]

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
    counts: tuple[int, int, int, int]  # of requests
    rows: tuple[int, int, int, int]  # of recorded requests
    effective: float  # how many of equal weight would say as much as those

    @classmethod
    def of(cls, durations: Durations, quantile: float) -> "Split":
        """Split at least one request; what is as long as the quantile belongs to the tail."""
        low, high, threshold = _quantiles(durations, (*REFERENCE, quantile))
        return cls._at(durations, low, high, threshold)

    @classmethod
    def without_tail(cls, durations: Durations) -> "Split":
        """Split requests where others, which are selected, are the tail."""
        low, high = _quantiles(durations, REFERENCE) if len(durations) else (0, 0)
        return cls._at(durations, low, high, DurationBand().at_most_ns)

    @classmethod
    def _at(cls, durations: Durations, low: int, high: int, threshold: int) -> "Split":
        starts = (0, min(low, threshold), min(high + 1, threshold), threshold)
        rows = counts = _in_bands(starts, durations.ns, None)
        if durations.weight is not None:
            counts = _in_bands(starts, durations.ns, durations.weight)
        return cls(
            starts_ns=starts,
            counts=counts,
            rows=rows,
            effective=weighted.effective(len(durations), durations.weight),
        )

    @property
    def requests(self) -> int:
        """How many there are."""
        return sum(self.counts)

    @property
    def threshold_ns(self) -> int:
        """The duration from which on a request belongs to the tail."""
        return self.starts_ns[3]

    @property
    def recorded(self) -> int:
        """How many of them were recorded."""
        return sum(self.rows)

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
                self.starts_ns, ends, self.rows, most, strict=True
            )
            if count
        ]


def _quantiles(durations: Durations, levels: Sequence[float]) -> list[int]:
    count = durations.requests
    ranks = [min(int(level * count), count - 1) for level in levels]
    return weighted.at_ranks(durations.ns, ranks, durations.weight)


def _in_bands(
    starts_ns: Sequence[int], durations_ns: NDArray[np.int64], weight: NDArray[np.int64] | None
) -> tuple[int, int, int, int]:
    """How many requests are in each of the four bands."""
    within = [durations_ns >= start for start in starts_ns]
    beyond = [
        int(np.count_nonzero(one) if weight is None else weight[one].sum()) for one in within
    ]
    first, second, third, fourth = (more - fewer for more, fewer in pairwise([*beyond, 0]))
    return first, second, third, fourth


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
    evidence: NDArray[np.float64] | None  # of each row: adds up to a group's effective size
    block: NDArray[np.int64]  # of those in the tail or the reference: a stretch of time
    blocks: int

    @classmethod
    def of(cls, columns: RequestColumns, split: Split) -> "Groups":
        """Group the rows that `Split.bands` asked for."""
        return cls._of_bands(columns, split.places(columns.duration_ns), split.counts)

    @classmethod
    def of_tail(cls, columns: RequestColumns, tail: Mask) -> "Groups":
        """Group rows of which some are the tail, and all others the reference."""
        return cls._of_bands(
            columns,
            np.where(tail, TAIL, USUAL),
            np.bincount(np.where(tail, TAIL, USUAL), columns.weight, minlength=4)
            .astype(int)
            .tolist(),
        )

    def mean(self, values: NDArray[np.int64] | NDArray[np.float64], which: Mask) -> float:
        """The mean of a number of each row, over some rows."""
        return float(weighted.mean(values[which], weighted.of(which, self.columns.weight)))

    def median(self, values: NDArray[np.int64], which: Mask) -> float:
        weight = weighted.of(which, self.columns.weight)
        return float(weighted.quantiles(values[which], 0.5, weight))

    @property
    def effective_tail(self) -> float:
        """How many requests of equal weight would say as much as those of the tail."""
        return weighted.effective(
            int(self.tail.sum()), weighted.of(self.tail, self.columns.weight)
        )

    @classmethod
    def _of_bands(
        cls, columns: RequestColumns, band: NDArray[np.int64], counts: Sequence[int]
    ) -> "Groups":
        """Group rows by the band that each is in, of so many requests."""
        weights = columns.weight
        rows = np.maximum(np.bincount(band, weights, minlength=4), 1)
        compared = (band == USUAL) | (band == TAIL)
        place = np.cumsum(compared) - 1
        total = int(compared.sum())
        blocks = min(LONGEST_BLOCKS, max(total // LEAST_IN_BLOCK, LEAST_TAIL))
        return cls(
            columns=columns,
            tail=band == TAIL,
            reference=band == USUAL,
            weight=(np.array(counts) / rows)[band] * (1 if weights is None else weights),
            evidence=None if weights is None else _evidence(band, weights),
            block=np.maximum(place, 0) * blocks // max(total, 1),
            blocks=blocks,
        )

    @classmethod
    def of_selection(
        cls, columns: RequestColumns, split: Split, selection: Selection, requests: int
    ) -> "Groups":
        """Group rows of which a selection, of so many requests, is the tail.

        It may lie in one short time, of which no other block would have any: so each of the two
        groups has blocks of its own, stretches of as many requests.
        """
        band = np.where(selection.holds(columns), TAIL, split.places(columns.duration_ns))
        every = cls._of_bands(columns, band, (*split.counts[:TAIL], requests))
        size = int(every.tail.sum())
        place = np.maximum(np.cumsum(every.tail) - 1, 0) * every.blocks // max(size, 1)
        usual = np.maximum(np.cumsum(every.reference) - 1, 0) * every.blocks
        usual //= max(int(every.reference.sum()), 1)
        return replace(every, block=np.where(every.tail, place, usual))


def _evidence(band: NDArray[np.int64], weight: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights such that sums over a band, and sums of squares, are its effective size."""
    sums = np.bincount(band, weight, minlength=4)
    squares = np.bincount(band, np.square(weight, dtype=np.float64), minlength=4)
    found: NDArray[np.float64] = weight * (sums / np.maximum(squares, 1))[band]
    return found
