"""What interleaved rounds say about a difference: its median and its 95 % interval."""

import random
import statistics
from collections.abc import Callable
from typing import TypeVar

RESAMPLES = 4000

_Round = TypeVar("_Round")


def median_ratio(of: list[float], to: list[float]) -> float:
    """The median of the ratios of single rounds."""
    return statistics.median(ratios(of, to))


def ratios(of: list[float], to: list[float]) -> list[float]:
    """How much more each round took than the other's same round."""
    return [one / other for one, other in zip(of, to, strict=True)]


def differences(of: list[float], to: list[float]) -> list[float]:
    """By how much each round exceeds the other's same round."""
    return [one - other for one, other in zip(of, to, strict=True)]


def interval(
    rounds: list[float], statistic: Callable[[list[float]], float] = statistics.median
) -> tuple[float, float]:
    """The 95 % bootstrap interval of a statistic; the same rounds give the same interval."""
    return interval_of(rounds, statistic)


def interval_of(
    rounds: list[_Round], statistic: Callable[[list[_Round]], float]
) -> tuple[float, float]:
    """The same for rounds of which each is more than a number."""
    draw = random.Random(0)
    drawn = [statistic(draw.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES)]
    return middle(drawn)


def middle(values: list[float]) -> tuple[float, float]:
    """Between which 95 % of values lie."""
    ordered = sorted(values)
    return ordered[int(0.025 * len(ordered))], ordered[int(0.975 * len(ordered))]
