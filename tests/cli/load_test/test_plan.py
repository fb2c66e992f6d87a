"""When requests are due."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.cli.load_test.plan import (
    MOST_REQUESTS,
    NS_PER_S,
    Arrivals,
    Pace,
    due_times,
    plan,
    rates_of,
)
from latencytrace.errors import SettingsError

RATES = st.floats(0.1, 500)
LENGTHS_NS = st.integers(0, 20 * NS_PER_S)


def chance(seed: int) -> random.Random:
    return random.Random(seed)


def pace(
    *, seconds: float | None = None, requests: int | None = None, warm_up_s: float = 0.0
) -> Pace:
    return Pace(seconds=seconds, requests=requests, warm_up_s=warm_up_s, arrivals=Arrivals.POISSON)


@given(RATES, LENGTHS_NS, st.sampled_from(Arrivals), st.integers())
def test_as_many_are_due_as_the_rate_says_in_order_and_within_the_time(
    rate_per_s: float, length_ns: int, arrivals: Arrivals, seed: int
) -> None:
    due = due_times(rate_per_s, length_ns, arrivals, chance(seed))

    assert len(due) == round(rate_per_s * length_ns / NS_PER_S)
    assert list(due) == sorted(due)
    assert all(0 <= at_ns <= length_ns for at_ns in due)


@given(st.integers())
def test_the_same_seed_is_the_same_load(seed: int) -> None:
    once, again = (plan((1.0, 4.0), pace(seconds=5, warm_up_s=1), chance(seed)) for _ in range(2))

    assert once == again


@given(RATES, st.integers(1, 200), st.floats(0, 3))
def test_a_count_is_a_bound_too_and_the_warm_up_comes_first(
    rate: float, requests: int, warm_up_s: float
) -> None:
    (step,) = plan((rate,), pace(requests=requests, warm_up_s=warm_up_s), chance(0))

    assert len(step.due_ns) == requests
    assert max(step.warm_up_due_ns, default=0) <= warm_up_s * NS_PER_S <= step.due_ns[0] + 1
    assert step.due_ns[-1] <= step.length_ns


def test_poisson_gaps_vary_as_much_as_they_last() -> None:
    due = due_times(100, 100 * NS_PER_S, Arrivals.POISSON, chance(1))

    gaps = [after - before for before, after in pairwise(due)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(1, abs=0.05)


def test_constant_arrivals_are_evenly_spaced() -> None:
    due = due_times(4, NS_PER_S, Arrivals.CONSTANT, chance(0))

    assert due == (0, 250_000_000, 500_000_000, 750_000_000)


def test_the_shorter_of_two_bounds_holds() -> None:
    short, long = plan((1.0, 100.0), pace(seconds=10, requests=50), chance(0))

    assert len(short.due_ns) == 10
    assert len(long.due_ns) == 50


def test_a_load_without_a_bound_is_refused() -> None:
    with pytest.raises(SettingsError, match="needs a bound"):
        plan((1.0,), pace(), chance(0))


def test_more_requests_than_can_be_kept_are_refused() -> None:
    with pytest.raises(SettingsError, match="1,000,000"):
        plan((MOST_REQUESTS,), pace(seconds=2), chance(0))


def test_a_sweep_climbs_by_the_same_factor() -> None:
    assert rates_of(None, None, "1:16:5") == (1, 2, 4, 8, 16)
    assert rates_of(None, None, "1:10:3") == (1, 3.16, 10)
    assert rates_of(None, "8, 2", None) == (8, 2)


@pytest.mark.parametrize(
    "sweep", ["1:2", "4:2:3", "1:2:1", "0:2:3", "1:2:2.5", "a:b:c", "1:inf:3"]
)
def test_a_sweep_that_does_not_climb_is_refused(sweep: str) -> None:
    with pytest.raises(SettingsError, match="1:16:5"):
        rates_of(None, None, sweep)


@pytest.mark.parametrize("rates", ["1,,2", "0", "-1", "nan", "inf"])
def test_a_rate_is_a_number_above_zero(rates: str) -> None:
    with pytest.raises(SettingsError, match=r"not a number|not above 0"):
        rates_of(None, rates, None)
