"""A budget and its burn rates over time."""

import numpy as np
import pytest

from latencytrace.analysis.slo.over_time import Slots, budget_over_time, burn_over_time


def slots(bad: list[int], total: list[int]) -> Slots:
    return Slots(since_ns=0, slot_ns=10, bad=np.array(bad), total=np.array(total))


def test_slots_of_which_nothing_is_known_have_no_request() -> None:
    found = Slots.of(10, 30, np.array([1, 2]), np.array([3, 4]), 12, 68)

    assert (found.since_ns, found.bad.tolist()) == (10, [0, 0, 1, 2, 0, 0])
    assert found.total.tolist() == [0, 0, 3, 4, 0, 0]


def test_slots_of_another_time_are_left_out() -> None:
    found = Slots.of(10, 0, np.array([9, 1, 2, 9]), np.array([9, 3, 4, 9]), 10, 29)

    assert (found.bad.tolist(), found.total.tolist()) == ([1, 2], [3, 4])


def test_each_bad_request_takes_the_same_part_of_the_budget() -> None:
    found = slots([0, 0, 2, 0, 6], [0, 10, 10, 0, 10])

    assert budget_over_time(found, 0.2, found.columns(5)) == [
        (10, None),
        (20, 1.0),
        (30, pytest.approx(0.8)),
        (40, pytest.approx(0.8)),
        (50, pytest.approx(0.2)),
    ]


def test_a_budget_that_nothing_spent_is_whole() -> None:
    found = slots([0, 0], [5, 5])

    assert budget_over_time(found, 1.0, found.columns(10)) == [(10, 1.0), (20, 1.0)]


def test_a_burn_rate_is_of_the_window_that_ends_with_its_column() -> None:
    found = slots([0, 4, 0, 0, 0], [10, 10, 10, 0, 0])

    # Of two slots each: 0 of 10, 4 of 20, 4 of 20, 0 of 10, and no request.
    assert burn_over_time(found, 20, 0.1, found.columns(5)) == [0, 2, 2, 0, None]


def test_columns_end_with_the_last_slot() -> None:
    assert slots([0] * 7, [0] * 7).columns(3).tolist() == [2, 5, 7]
    assert len(slots([], []).columns(3)) == 0
