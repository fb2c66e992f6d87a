"""Plans of a load: when requests are due, at which rates and for how long."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from latencytrace.errors import SettingsError

NS_PER_S = 1_000_000_000
MOST_REQUESTS = 1_000_000  # in one run: every one of them is kept until its end
SWEEP_PARTS = 3
SIGNIFICANT_DIGITS = 3


class Arrivals(StrEnum):
    """The way in which requests follow each other."""

    POISSON = "poisson"  # independent of each other, as those of many users are
    CONSTANT = "constant"  # one every 1/rate seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A stretch of the load at one rate: the warm-up, then what is measured."""

    rate_per_s: float
    warm_up_due_ns: tuple[int, ...]  # since the step's start, ascending
    due_ns: tuple[int, ...]  # due times after the warm-up
    length_ns: int  # with the warm-up


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The arrivals of every step, and its bounds."""

    seconds: float | None  # how long a step is measured
    requests: int | None  # how many of its requests are measured at most
    warm_up_s: float  # before that
    arrivals: Arrivals


def plan(rates: Sequence[float], pace: Pace, chance: random.Random) -> tuple[Step, ...]:
    """One step a rate, each bounded in time, in requests, or in both.

    Raises:
        SettingsError: There is no bound, or there are more requests than can be kept.
    """
    steps = []
    planned = 0
    for rate in rates:
        measured_s = _measured_s(rate, pace)
        planned += round(rate * (pace.warm_up_s + measured_s))
        if planned > MOST_REQUESTS:
            raise SettingsError(
                f"more than {MOST_REQUESTS:,} requests in one run: lower --seconds or the rates"
            )
        steps.append(_step(rate, measured_s, pace, chance))
    return tuple(steps)


def _measured_s(rate: float, pace: Pace) -> float:
    by_count_s = None if pace.requests is None else pace.requests / rate
    bounds_s = [bound for bound in (pace.seconds, by_count_s) if bound is not None]
    if not bounds_s:
        raise SettingsError(
            "a load needs a bound: --seconds for each rate, or --requests, or both"
        )
    return min(bounds_s)


def _step(rate: float, measured_s: float, pace: Pace, chance: random.Random) -> Step:
    warm_up_ns, measured_ns = round(pace.warm_up_s * NS_PER_S), round(measured_s * NS_PER_S)
    warm_up = due_times(rate, warm_up_ns, pace.arrivals, chance)
    measured = due_times(rate, measured_ns, pace.arrivals, chance) or (0,)
    return Step(
        rate_per_s=rate,
        warm_up_due_ns=warm_up,
        due_ns=tuple(warm_up_ns + at_ns for at_ns in measured),
        length_ns=warm_up_ns + measured_ns,
    )


def due_times(
    rate_per_s: float, length_ns: int, arrivals: Arrivals, chance: random.Random
) -> tuple[int, ...]:
    """Draw when requests are due in a stretch of time: rate times length of them, ascending.

    Poisson arrivals are drawn given their number: uniform over the stretch, sorted. Only
    how they cluster is left to chance, not how many are sent.
    Source: Ross, Stochastic Processes, theorem 2.3.1.
    """
    number = round(rate_per_s * length_ns / NS_PER_S)
    if arrivals is Arrivals.CONSTANT:
        return tuple(round(index * NS_PER_S / rate_per_s) for index in range(number))
    return tuple(sorted(int(chance.random() * length_ns) for _ in range(number)))


def rates_of(rate: float | None, rates: str | None, sweep: str | None) -> tuple[float, ...]:
    """The rates that were asked for, in one of three ways.

    Raises:
        SettingsError: None or several were given, or one cannot be read.
    """
    if [rate, rates, sweep].count(None) != 2:  # noqa: PLR2004 - all but one
        raise SettingsError(
            "say how many requests a second by one of --rate 4, --rates 1,2,4,8 and --sweep 1:16:5"
        )
    if rate is not None:
        found: tuple[float, ...] = (rate,)
    elif rates is not None:
        found = tuple(_number(part, "--rates 1,2,4,8") for part in rates.split(","))
    else:
        found = _sweep(sweep or "")
    if min(found) <= 0:
        raise SettingsError("a rate is a number of requests a second above 0")
    return found


def _sweep(text: str) -> tuple[float, ...]:
    """`LOW:HIGH:STEPS`: each rate the same factor above the one before it."""
    example = "--sweep 1:16:5 (which is 1, 2, 4, 8, 16)"
    parts = text.split(":")
    if len(parts) != SWEEP_PARTS:
        raise SettingsError(f"{text!r} is not LOW:HIGH:STEPS: write {example}")
    low, high, steps = (_number(part, example) for part in parts)
    if not 0 < low < high or steps < 2 or steps != int(steps):  # noqa: PLR2004 - both ends
        raise SettingsError(f"{text!r} does not climb: write {example}")
    factor = (high / low) ** (1 / (steps - 1))
    climbing = (low * factor**step for step in range(int(steps)))
    return tuple(float(f"{rate:.{SIGNIFICANT_DIGITS}g}") for rate in climbing)


def _number(text: str, example: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise SettingsError(f"{text!r} is not a number: write {example}") from None
    if not 0 < number < float("inf"):
        raise SettingsError(f"{text!r} is not above 0: write {example}")
    return number
