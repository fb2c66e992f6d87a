"""The agent's own part in durations, found by a control group and not where there is none."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.compare.control import (
    LEAST,
    ControlOverhead,
    Difference,
    control_overhead,
)
from latencytrace.model import Request
from latencytrace.model.cohorts.request_columns import RequestColumns
from tests.support.builders.made_requests import made_request

MS = 1_000_000
Times = Sequence[float] | np.ndarray


def group(route: str, times_ns: Times, service: str = "rag") -> list[Request]:
    return [
        made_request(round(float(time_ns)), service=service, route=route) for time_ns in times_ns
    ]


def held(full: list[Request], control: list[Request]) -> ControlOverhead:
    return control_overhead(RequestColumns.of(full), RequestColumns.of(control))


def noise(random: np.random.Generator, count: int, around_ns: float = 5 * MS) -> np.ndarray:
    return around_ns * random.lognormal(0, 0.3, count)


def found_in(whole: ControlOverhead) -> Difference:
    assert whole.found is not None
    return whole.found


def test_what_tracing_adds_lies_within_the_interval() -> None:
    random = np.random.default_rng(1)
    added_ns = 0.4 * MS
    full = group("GET /a", noise(random, 20_000) + added_ns)
    control = group("GET /a", noise(random, 2_000))

    found = found_in(held(full, control))

    assert 0 < found.low_ns < added_ns < found.high_ns
    assert found.low_ns < found.difference_ns < found.high_ns


def test_the_interval_holds_as_often_as_it_says() -> None:
    random = np.random.default_rng(2)
    holds = 0

    for _ in range(100):
        full = group("GET /a", noise(random, 400))
        found = found_in(held(full, group("GET /a", noise(random, 200))))
        holds += found.low_ns <= 0 <= found.high_ns

    assert holds >= 89  # fewer has a chance of 0.5 %


def test_each_route_is_held_against_itself_so_that_a_changed_mix_is_no_overhead() -> None:
    random = np.random.default_rng(3)
    fast, slow = MS, 50 * MS
    full = group("GET /fast", noise(random, 5_000, fast))
    full += group("GET /slow", noise(random, 500, slow))
    control = group("GET /fast", noise(random, 200, fast))
    control += group("GET /slow", noise(random, 400, slow))

    found = found_in(held(full, control))

    assert found.low_ns < 0 < found.high_ns
    assert abs(found.difference_ns) < MS


def test_the_same_route_of_another_service_is_another_route() -> None:
    random = np.random.default_rng(4)
    full = group("GET /a", noise(random, LEAST)) + group("GET /a", noise(random, LEAST), "other")
    control = group("GET /a", noise(random, LEAST), "other")

    routes = held(full, control).routes

    assert [(one.service, one.control_requests) for one in routes] == [("other", 100), ("rag", 0)]
    assert [one.found is None for one in routes] == [False, True]


@pytest.mark.parametrize(
    ("full", "control", "needed"),
    [(0, 0, LEAST), (1_000, 0, LEAST), (1_000, LEAST - 1, 1), (LEAST - 1, 1_000, 1)],
    ids=["nothing", "no control group", "one too few in it", "one too few beside it"],
)
def test_too_few_requests_say_how_many_are_missing(full: int, control: int, needed: int) -> None:
    times = np.full(1_000, MS)

    whole = held(group("GET /a", times[:full]), group("GET /a", times[:control]))

    assert whole.found is None
    assert whole.needed_control_requests == needed


def test_enough_of_one_route_are_enough() -> None:
    times = np.full(LEAST, MS)
    full = group("GET /a", times) + group("GET /b", times[:7])

    whole = held(full, group("GET /a", times))

    assert whole.needed_control_requests is None
    assert (whole.requests, whole.control_requests) == (LEAST, LEAST)
    assert found_in(whole) == Difference(difference_ns=0, low_ns=0, high_ns=0, control_ns=MS)


@given(
    st.lists(st.integers(0, 10**12), min_size=LEAST, max_size=LEAST + 40), st.integers(0, 10**9)
)
def test_the_difference_lies_within_its_interval_and_the_same_requests_give_the_same(
    times: list[int], added_ns: int
) -> None:
    full = RequestColumns.of(group("GET /a", [time + added_ns for time in times]))
    control = RequestColumns.of(group("GET /a", times))

    whole = control_overhead(full, control)

    found = found_in(whole)
    assert found.difference_ns == pytest.approx(added_ns, abs=1)
    assert found.low_ns <= found.high_ns
    assert control_overhead(full, control) == whole


def test_what_a_process_without_a_control_group_served_is_not_held_against_that_of_others() -> (
    None
):
    random = np.random.default_rng(7)
    before = [
        replace(one, instance="old") for one in group("GET /a", noise(random, 5_000, 50 * MS))
    ]
    since = [replace(one, instance="new") for one in group("GET /a", noise(random, 4_000))]
    control = [replace(one, instance="new") for one in group("GET /a", noise(random, 1_000))]

    found = found_in(held(before + since, control))

    assert found.low_ns < 0 < found.high_ns
