"""Blocks of neighbouring requests: as long as it takes until requests no longer resemble."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_BLOCKS: Final = 128  # more would say nothing better, and be shorter
LEAST_BLOCKS: Final = 12
_TIMES: Final = 4  # a block is so many correlation times long
_NOTICED: Final = 3.0  # a correlation time; of a hundred independent requests one may seem 2.8
_LONGEST_SERIES: Final = 1 << 17
_HIGH: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The requests of one side, in order of start, cut into blocks."""

    first: NDArray[np.int64]  # the first request of each
    length: int  # in requests
    alike: int  # neighbours that resemble each other and made blocks so long; 1: none did

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.first)

    def sums(self, values: Floats) -> Floats:
        """Add up a number of each request by block."""
        return np.asarray(np.add.reduceat(values, self.first))


def blocks(duration_ns: NDArray[np.int64]) -> Blocks:
    """Cut requests, in order of start, into blocks that resemble each other no more than chance.

    Args:
        duration_ns: At least one.
    """
    count = len(duration_ns)
    time = correlation_time(duration_ns)
    needed, least = math.ceil(_TIMES * time), math.ceil(count / MOST_BLOCKS)
    length = max(needed, least)
    number = max(count // length, 1)
    return Blocks(
        first=(np.arange(number) * count) // number,
        length=length,
        alike=needed if time >= _NOTICED and needed > least else 1,
    )


def correlation_time(duration_ns: NDArray[np.int64]) -> float:
    """How many neighbouring requests say as much as one; 1: each speaks for itself.

    The largest of three series: the logarithm of durations, and which exceed the median and
    the ninth decile.

    Source: Geyer, "Practical Markov Chain Monte Carlo", Statistical Science 1992: the
    autocorrelations are added up in pairs, falling, until a pair is no longer positive.
    """
    recent = duration_ns[-_LONGEST_SERIES:]
    series = (
        np.log(np.maximum(recent, 1)),
        (recent > np.median(recent)).astype(np.float64),
        (recent > np.quantile(recent, _HIGH)).astype(np.float64),
    )
    return max(map(_correlation_time, series))


def _correlation_time(series: Floats) -> float:
    count = len(series)
    centred = series - series.mean()
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(spectrum * spectrum.conj(), size)[:count]
    if covariance[0] <= 0:
        return 1.0
    correlation = covariance / covariance[0]
    pairs = correlation[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(pairs <= 0)
    positive = pairs[: ended[0]] if len(ended) else pairs
    return max(1.0, float(2 * np.minimum.accumulate(positive).sum() - 1)) if len(positive) else 1.0
