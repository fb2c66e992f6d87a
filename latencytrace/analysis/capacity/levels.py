"""Levels of concurrency, each wide enough for a rate, and the knee among them.

With `n` requests under way a service answers `X(n)` of them a second, and each takes `n / X(n)`
(Little). More at once pay as long as `X` grows faster than that: up to the level with the most
power, throughput over latency, `X(n)² / n`. Of `c` servers that is `c`.

Source: Kleinrock, "Power and Deterministic Rules of Thumb for Probabilistic Problems in Computer
Communications", ICC 1979.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.capacity.occupancy import BLOCKS, Floats, Occupancy

LEAST_SERVED: Final = 100  # at a level
SINGLE: Final = 8  # up to so many at once each number is a level of its own
WIDTH: Final = 1.25  # of a level above
NOISE: Final = 0.1  # of a number that is known by a sample, at most, for a level of its own
LESS_POWER: Final = 0.9  # beyond the knee; less of a difference proves none
DRAWS: Final = 1000
_TOLD: Final = (0.025, 0.975)  # a 95 % interval
_SURE: Final = 0.975  # of the draws
_SEED: Final = 20_240_601  # the same answer each time


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Counts of `m` levels in `b` stretches of time."""

    first: NDArray[np.int64]  # (m,): the fewest under way; up to the next level's first
    most: int  # under way at once, of the last
    served: Floats  # (b, m)
    time_s: Floats
    crowd_s: Floats  # time, of each request under way
    mean_weight: float  # of its requests
    known_from: int  # up to so many a sample cannot tell levels apart; 0: all is known

    @classmethod
    def of(cls, found: Occupancy) -> "Levels":
        """Put neighbouring numbers together until enough requests ended at each level.

        Where a share is recorded, so are those that the sample cannot tell apart: of `n` under
        way, each with its chance, as many are found as their weights say, give or take
        `sqrt(n * (w - 1))` for a mean weight `w`.
        """
        most, weight = found.time_ns.shape[1] - 1, found.mean_weight
        known_from = math.ceil((weight - 1) / NOISE**2)
        edges = [1, *(edge for edge in _edges(most)[1:] if edge >= known_from)]
        first = _merged(edges, found.served.sum(axis=0), LEAST_SERVED * weight)
        time_s = found.time_ns / 1e9
        crowd_s = time_s * np.arange(most + 1)
        served, time_s, crowd_s = (
            np.add.reduceat(each, first, axis=1) for each in (found.served, time_s, crowd_s)
        )
        return cls(
            first=first, most=most, served=served, time_s=time_s, crowd_s=crowd_s,
            mean_weight=weight, known_from=known_from,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.first)

    @property
    def last(self) -> NDArray[np.int64]:
        """(m,): the most under way."""
        return np.append(self.first[1:] - 1, self.most)

    @property
    def rate_per_s(self) -> Floats:
        """(m,): answers a second."""
        return _ratio(self.served.sum(axis=0), self.time_s.sum(axis=0))

    @property
    def concurrency(self) -> Floats:
        """(m,): the mean number under way."""
        return _ratio(self.crowd_s.sum(axis=0), self.time_s.sum(axis=0))

    def level(self, under_way: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum(np.searchsorted(self.first, under_way, side="right") - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """How many at once a service keeps up with; beyond them it answers hardly more a second."""

    level: int
    concurrency: float
    low: int  # 95 % interval
    high: int
    served_per_second: float  # at the knee and beyond
    low_per_second: float
    high_per_second: float


def knee(levels: Levels) -> Knee | None:
    """Find the level with the most power; None: none beyond it is proven to have less.

    Stretches of time are drawn again, not requests, which resemble their neighbours.
    """
    random = np.random.default_rng(_SEED)
    drawn = random.multinomial(BLOCKS, np.full(BLOCKS, 1 / BLOCKS), DRAWS).astype(np.float64)
    served, time_s, crowd_s = (
        drawn @ each for each in (levels.served, levels.time_s, levels.crowd_s)
    )
    # X²/n, with X = served/time and n = crowd/time.
    power = _ratio(served**2, time_s * crowd_s)
    best = int(np.argmax(levels.rate_per_s**2 / np.maximum(levels.concurrency, 1e-9)))
    beyond = slice(best + 1, None)
    crowd_beyond_s, time_beyond_s = crowd_s[:, beyond].sum(axis=1), time_s[:, beyond].sum(axis=1)
    power_beyond = _ratio(served[:, beyond].sum(axis=1) ** 2, time_beyond_s * crowd_beyond_s)
    less = power_beyond < LESS_POWER * power[:, best]
    if best == len(levels) - 1 or less.mean() < _SURE:
        return None
    seen = np.where(served >= LEAST_SERVED * levels.mean_weight / 2, power, 0.0)
    low, high = np.quantile(np.argmax(seen, axis=1), _TOLD, method="nearest").astype(int)
    rates = _ratio(served[:, best:].sum(axis=1), time_s[:, best:].sum(axis=1))
    low_per_s, high_per_s = np.quantile(rates, _TOLD).tolist()
    return Knee(
        level=best,
        concurrency=float(levels.concurrency[best]),
        low=int(levels.first[low]),
        high=int(levels.last[high]),
        served_per_second=float(levels.served[:, best:].sum() / levels.time_s[:, best:].sum()),
        low_per_second=low_per_s,
        high_per_second=high_per_s,
    )


def _edges(most: int) -> list[int]:
    """The first numbers of levels, before any are put together."""
    edges = list(range(1, min(most, SINGLE) + 1))
    while edges[-1] * WIDTH <= most:
        edges.append(round(edges[-1] * WIDTH))
    return edges


def _merged(edges: list[int], served: Floats, least_served: float) -> NDArray[np.int64]:
    """The first numbers of levels at which enough ended; what is left over joins the last."""
    summed = np.add.reduceat(served, edges)
    first, ended = [edges[0]], 0.0
    for edge, number in zip(edges, summed.tolist(), strict=True):
        if ended >= least_served:
            first.append(edge)
            ended = 0.0
        ended += number
    if ended < least_served and len(first) > 1:
        first.pop()
    return np.array(first, np.int64)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """A share; 0 where there is nothing."""
    return np.true_divide(part, whole, out=np.zeros_like(part), where=whole > 0)
