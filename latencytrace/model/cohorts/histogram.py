"""Durations counted in bins that grow by a fixed ratio: they merge by adding, without loss."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

BINS_PER_DOUBLING = 32  # scale 5 of OpenTelemetry's exponential histogram
ERROR_RATIO = 2 ** (1 / BINS_PER_DOUBLING) - 1  # of a quantile, at most: the width of a bin
ZERO = -32767  # the bin of what took no time


@dataclass(frozen=True)
class Histogram:
    """How many durations lie in each bin: bin `n` begins at `2 ** (n / BINS_PER_DOUBLING)`."""

    counts: Mapping[int, int]  # by bin; at least one, none is 0

    def quantile(self, level: float) -> float:
        """Return a quantile, interpolated between neighbours as exact ones are."""
        place = level * (self._reached[-1] - 1)
        lower = self._at(math.floor(place))
        return lower + (place - math.floor(place)) * (self._at(math.ceil(place)) - lower)

    @cached_property
    def _bins(self) -> list[int]:
        return sorted(self.counts)

    @cached_property
    def _reached(self) -> list[int]:
        """How many durations lie up to the end of each bin."""
        return list(accumulate(self.counts[bin_] for bin_ in self._bins))

    def _at(self, place: int) -> float:
        """The duration at a place in their order, as if those of a bin lay evenly in it."""
        number = bisect_right(self._reached, place)
        bin_ = self._bins[number]
        if bin_ == ZERO:
            return 0.0
        count = self.counts[bin_]
        within = (place - (self._reached[number] - count) + 0.5) / count
        return float(2 ** ((bin_ + within) / BINS_PER_DOUBLING))
