"""Shifts of quantiles between two weighted sides: how large, how sure, and by chance or not.

Blocks of neighbouring requests are what is drawn, never single requests. Intervals come of
drawing blocks with replacement on each side (the block bootstrap). Whether a shift may be
chance is asked of the shares of each side beyond the quantile of both: the blocks are dealt out
to the sides at random, and the difference of the shares, by its own error, is held against
those that come of it.

Sources: Künsch, "The jackknife and the bootstrap for general stationary observations", Annals
of Statistics 1989; Chung and Romano, "Exact and asymptotically robust permutation tests",
Annals of Statistics 2013; for quantiles of drawn blocks Bahadur, "A note on quantiles in large
samples", Annals of Mathematical Statistics 1966.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_BLOCKS: Final = 128  # more would say nothing better, and be shorter
LEAST_BLOCKS: Final = 12
LEAST_SHARE: Final = 0.01  # of the time: a stage below it is not tested
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


def blocks(duration_ns: NDArray[np.int64], stages_ns: Iterable[NDArray[np.int64]] = ()) -> Blocks:
    """Cut requests, in order of start, into blocks that resemble each other no more than chance.

    Args:
        duration_ns: At least one.
        stages_ns: Times of stages that are tested too: each lengthens the blocks as much as it
            takes, if it `is_steady`.
    """
    count = len(duration_ns)
    times = [time for time in map(correlation_time, stages_ns) if time >= _NOTICED]
    time = max([correlation_time(duration_ns), *(one for one in times if _has_blocks(count, one))])
    needed, least = math.ceil(_TIMES * time), math.ceil(count / MOST_BLOCKS)
    length = max(needed, least)
    number = max(count // length, 1)
    return Blocks(
        first=(np.arange(number) * count) // number,
        length=length,
        alike=needed if time >= _NOTICED and needed > least else 1,
    )


def is_steady(ns: NDArray[np.int64]) -> bool:
    """Tell whether a measure resembles itself so shortly that there are blocks enough of it."""
    time = correlation_time(ns)
    return time < _NOTICED or _has_blocks(len(ns), time)


def _has_blocks(requests: int, time: float) -> bool:
    return requests >= LEAST_BLOCKS * math.ceil(_TIMES * time)


def correlation_time(duration_ns: NDArray[np.int64]) -> float:
    """How many neighbouring requests say as much as one; 1: each speaks for itself.

    The largest of three series: the logarithm of durations, and which exceed the median and
    the ninth decile.

    Source: Geyer, "Practical Markov Chain Monte Carlo", Statistical Science 1992: the
    autocorrelations are added up in pairs, falling, until a pair is no longer positive.
    """
    return max(map(series_correlation_time, series(duration_ns[-_LONGEST_SERIES:])))


def series(ns: NDArray[np.int64]) -> tuple[Floats, ...]:
    """The series whose neighbours are compared: the logarithm, and which exceed two quantiles."""
    return (
        np.log(np.maximum(ns, 1)),
        (ns > np.median(ns)).astype(np.float64),
        (ns > np.quantile(ns, _HIGH)).astype(np.float64),
    )


def series_correlation_time(one: Floats) -> float:
    """How many neighbours of one series say as much as one."""
    count = len(one)
    centred = one - one.mean()
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


DRAWS: Final = 1_000  # of blocks, for intervals
DEALS: Final = 4_999  # of blocks to the sides, for p values
LEAST_BEYOND: Final = 10  # requests of each side beyond a quantile that is tested
WRONG_AT_MOST: Final = 0.05  # how often any test of a comparison may be wrong
_TOLD: Final = (0.025, 0.975)  # a 95 % interval
_HALVINGS: Final = 60
_ROUNDING: Final = 1e-9  # of shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The requests of one side that are compared, in order of start."""

    weight: Floats  # 1 on average
    blocks: Blocks

    @property
    def effective_requests(self) -> float:
        """How many requests of equal weight would say as much."""
        return float(self.weight.sum() ** 2 / np.square(self.weight).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How far a quantile of B lies from that of A; the interval holds at 95 %.

    Where it was tested, the p value and the interval are those of all tests together, and agree:
    the interval reaches beyond zero on both sides, or ends there, where the shift may be chance.

    It is unknown where the quantile cannot be tested: few values beyond a quantile are seldom
    as far apart as they may be, and draws of them no further.
    """

    level: float
    a_ns: float
    b_ns: float
    low_ns: float | None  # None: unknown
    high_ns: float | None
    error_ns: float  # the standard error of the shift
    p_value: float | None  # None: it was not tested

    @property
    def shift_ns(self) -> float:
        """B's quantile less A's."""
        return self.b_ns - self.a_ns


class Values:
    """One measure of the requests of one side, sorted.

    Args:
        values: In order of start.
    """

    def __init__(self, values: NDArray[np.int64], side: Side) -> None:
        self.is_steady = is_steady(values)
        order = np.argsort(values, kind="stable")
        order = order[side.weight[order] > 0]
        self.in_turn = values
        self.side = side
        self._sorted = values[order].astype(np.float64)
        weight = side.weight[order]
        self._until = np.cumsum(weight)
        self._total = float(self._until[-1])
        self._middle = (self._until - weight / 2) / self._total

    def quantile(self, level: float | Floats) -> Floats:
        """The values below which this share of the weight lies, between neighbours on a line."""
        return np.asarray(np.interp(level, self._middle, self._sorted))

    def share_up_to(self, value: float) -> float:
        """The share of the weight that does not exceed a value."""
        place = int(np.searchsorted(self._sorted, value, side="right"))
        return float(self._until[place - 1]) / self._total if place else 0.0

    def block_weight_up_to(self, value: float) -> Floats:
        """The same by block, as weight."""
        return self.side.blocks.sums(self.side.weight * (self.in_turn <= value))


class Drawn:
    """Blocks of both sides drawn with replacement, the same for all measures."""

    def __init__(self, a: Side, b: Side, random: np.random.Generator) -> None:
        self._sides = [self._counts(side, random) for side in (a, b)]

    @staticmethod
    def _counts(side: Side, random: np.random.Generator) -> tuple[Floats, Floats]:
        number = len(side.blocks)
        counts = random.multinomial(number, np.full(number, 1 / number), DRAWS).astype(float)
        return counts, counts @ side.blocks.sums(side.weight)

    def shifts(
        self,
        a: Values,
        b: Values,
        levels: Sequence[float],
        p_values: Sequence[float | None],
        tests: int,
    ) -> tuple[Shift, ...]:
        """The shifts of a measure at these levels, with their intervals.

        Args:
            p_values: p-value of each, corrected for all tests; None: not tested.
            tests: How many there were: the intervals of shifts that were tested hold together.
        """
        wider = half_width(tests) / half_width(1)
        return tuple(
            self._shift(a, b, level, p_value, 1.0 if p_value is None else wider)
            for level, p_value in zip(levels, p_values, strict=True)
        )

    def _shift(
        self, a: Values, b: Values, level: float, p_value: float | None, wider: float
    ) -> Shift:
        drawn = []
        at = []
        for values, (counts, weights) in zip((a, b), self._sides, strict=True):
            quantile = float(values.quantile(level))
            share = counts @ values.block_weight_up_to(quantile) / weights
            # Where more of a draw lies below, its quantile lies lower by as much.
            drawn.append(values.quantile(level - (share - values.share_up_to(quantile))))
            at.append(quantile)
        differences = drawn[1] - drawn[0]
        low_ns, high_ns = None, None
        if is_testable(a, b, level):
            low, high = np.quantile(differences, _TOLD).tolist()
            shift = at[1] - at[0]
            low_ns, high_ns = _agreeing(
                min(low, shift - wider * (shift - low)),
                max(high, shift + wider * (high - shift)),
                shift,
                p_value,
            )
        return Shift(
            level=level,
            a_ns=at[0],
            b_ns=at[1],
            low_ns=low_ns,
            high_ns=high_ns,
            error_ns=float(differences.std()),
            p_value=p_value,
        )


def _agreeing(
    low_ns: float, high_ns: float, shift_ns: float, p_value: float | None
) -> tuple[float, float]:
    """An interval that says the same as the test: it has zero within where that may be chance.

    What neither of the two rules out belongs to it; and what the test rules out does not.
    """
    if p_value is None:
        return low_ns, high_ns
    if p_value > WRONG_AT_MOST:
        return min(low_ns, 0.0), max(high_ns, 0.0)
    return (max(low_ns, 0.0), high_ns) if shift_ns > 0 else (low_ns, min(high_ns, 0.0))


def half_width(tests: int) -> float:
    """How many standard errors an interval reaches, so that all of so many hold at 95 %."""
    return NormalDist().inv_cdf(1 - WRONG_AT_MOST / (2 * max(tests, 1)))


def are_testable(a: Side, b: Side, level: float) -> bool:
    """Tell whether there are enough requests beyond a quantile, and enough blocks."""
    beyond = min(level, 1 - level)
    return all(
        side.effective_requests * beyond >= LEAST_BEYOND and len(side.blocks) >= LEAST_BLOCKS
        for side in (a, b)
    )


def is_testable(a: Values, b: Values, level: float) -> bool:
    """Tell whether a quantile of a measure can be tested: enough of it, some time, and steady."""
    is_any = max(float(a.quantile(level)), float(b.quantile(level))) > 0
    return is_any and a.is_steady and b.is_steady and are_testable(a.side, b.side, level)


def p_values(tests: Sequence[tuple[Values, Values, float]], random: np.random.Generator) -> Floats:
    """How often chance alone would set two sides apart as much, for each measure and level.

    Args:
        tests: Measures of the same two sides, and levels.
    """
    if not tests:
        return np.zeros(0)
    sides = tests[0][0].side, tests[0][1].side
    weight = np.concatenate([side.blocks.sums(side.weight) for side in sides])
    excess = np.column_stack([_excess(*test) for test in tests])
    count_a, count = len(sides[0].blocks), len(weight)
    in_b = np.zeros((DEALS + 1, count), np.float64)
    in_b[:, count_a:] = 1
    in_b[1:] = random.permuted(in_b[1:], axis=1)  # the first is how it was
    found = np.abs(_differences(excess, weight, in_b))
    # As many as the real one, but for rounding.
    reached = (found[1:] >= found[0] * (1 - 1e-9)).sum(axis=0)
    return np.asarray((reached + 1) / (DEALS + 1))


def _excess(a: Values, b: Values, level: float) -> Floats:
    """By block, the weight beyond the common quantile above what is expected there."""
    at = _common_quantile(a, b, level)
    share = (a.share_up_to(at) + b.share_up_to(at)) / 2
    return np.concatenate(
        [
            share * values.side.blocks.sums(values.side.weight) - values.block_weight_up_to(at)
            for values in (a, b)
        ]
    )


def _common_quantile(a: Values, b: Values, level: float) -> float:
    """The quantile of both sides taken together, each counting half."""
    ends = sorted((float(a.quantile(level)), float(b.quantile(level))))
    low, high = ends
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (a.share_up_to(middle) + b.share_up_to(middle)) / 2 < level:
            low = middle
        else:
            high = middle
    return high


def _differences(excess: Floats, weight: Floats, in_b: Floats) -> Floats:
    """B's mean excess less A's, by its standard error: a row a deal, a column a test."""
    squares, products = np.square(excess), excess * weight[:, None]
    weight_squares = np.square(weight)[:, None]
    means, variances = [], []
    for chosen in (in_b, 1 - in_b):
        total = (chosen @ weight)[:, None]
        mean = chosen @ excess / total
        spread = (
            chosen @ squares
            - 2 * mean * (chosen @ products)
            + np.square(mean) * (chosen @ weight_squares)
        )
        number = chosen.sum(axis=1, keepdims=True)
        means.append(mean)
        variances.append(np.maximum(spread, 0) / np.square(total) * number / (number - 1))
    error = np.sqrt(variances[0] + variances[1])
    difference = means[0] - means[1]
    # Sides without a value in common have no error at all.
    apart = np.where(np.abs(difference) > _ROUNDING, np.copysign(np.inf, difference), 0.0)
    return np.asarray(np.true_divide(difference, error, out=apart, where=error > 0))
