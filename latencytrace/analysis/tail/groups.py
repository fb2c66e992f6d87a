"""The tail of a cohort and what it is compared with, as bands of durations."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from latencytrace.model.cohorts.request_columns import DurationBand, RequestColumns

REFERENCE = (0.4, 0.6)  # quantiles around the median
MOST_ROWS = 20_000  # of the tail, and of the reference; of more a share is read
MOST_OTHERS = 8_000  # of each band beside them: they only tell the usual spread
LEAST_TAIL = 10  # requests: of fewer nothing can be said
LONGEST_BLOCKS = 64  # stretches of time whose requests may resemble each other
LEAST_IN_BLOCK = 100

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A cohort by duration: faster ones, the reference, slower ones, and the tail."""

    starts_ns: tuple[int, int, int, int]  # where each of the four begins
    counts: tuple[int, int, int, int]

    @classmethod
    def of(cls, durations_ns: NDArray[np.int64], quantile: float) -> "Split":
        """Split at least one request; what is as long as the quantile belongs to the tail."""
        count = len(durations_ns)
        places = [min(int(level * count), count - 1) for level in (*REFERENCE, quantile)]
        found = np.partition(durations_ns, sorted(set(places)))
        low, high, threshold = (int(found[place]) for place in places)
        starts = (0, min(low, threshold), min(high + 1, threshold), threshold)
        beyond = [int(np.count_nonzero(durations_ns >= start)) for start in starts]
        first, second, third, fourth = (more - fewer for more, fewer in pairwise([*beyond, 0]))
        return cls(starts_ns=starts, counts=(first, second, third, fourth))

    @property
    def threshold_ns(self) -> int:
        """The duration from which on a request belongs to the tail."""
        return self.starts_ns[3]

    def bands(self) -> list[DurationBand]:
        """The bands to read, each with the share of its requests that is enough."""
        ends = (*self.starts_ns[1:], DurationBand().at_most_ns + 1)
        most = (MOST_OTHERS, MOST_ROWS, MOST_OTHERS, MOST_ROWS)
        return [
            DurationBand(
                at_least_ns=start, at_most_ns=end - 1, share_ratio=min(1.0, enough / count)
            )
            for start, end, count, enough in zip(
                self.starts_ns, ends, self.counts, most, strict=True
            )
            if count
        ]


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
        band = np.searchsorted(split.starts_ns[1:], columns.duration_ns, side="right")
        rows = np.maximum(np.bincount(band, minlength=4), 1)
        compared = (band == 1) | (band == 3)  # noqa: PLR2004 - the reference and the tail
        place = np.cumsum(compared) - 1
        total = int(compared.sum())
        blocks = min(LONGEST_BLOCKS, max(total // LEAST_IN_BLOCK, LEAST_TAIL))
        return cls(
            columns=columns,
            tail=band == 3,  # noqa: PLR2004
            reference=band == 1,
            weight=(np.array(split.counts) / rows)[band],
            block=np.maximum(place, 0) * blocks // max(total, 1),
            blocks=blocks,
        )
