"""Traffic that stays away is told from traffic that was never there, or that fails."""

from math import exp, factorial

import pytest

from latencytrace.analysis.slo.traffic import (
    LOOK_NS,
    LOOKS_NS,
    expected_requests,
    has_collapsed,
    has_returned,
    mostly_fails,
)
from latencytrace.model import Tally

STEADY = [100] * 12


def test_as_much_is_expected_as_an_hour_brought() -> None:
    assert expected_requests(STEADY) == pytest.approx(200)


def test_a_burst_lets_nothing_be_expected() -> None:
    assert expected_requests([1200] + [0] * 11) is None


@pytest.mark.parametrize(
    ("expected", "came", "collapsed"),
    [(17, 0, False), (18, 0, True), (29, 3, False), (30, 3, True), (99, 9, True), (99, 10, False)],
)  # fmt: skip
def test_a_collapse_is_more_than_chance_and_at_most_a_tenth(
    expected: float, came: int, *, collapsed: bool
) -> None:
    assert has_collapsed(expected, came, LOOK_NS) is collapsed


@pytest.mark.parametrize("look_ns", LOOKS_NS)
def test_chance_makes_a_collapse_once_in_twenty_million_looks(look_ns: int) -> None:
    def chance(mean: float) -> float:
        most = max(
            (came for came in range(9) if has_collapsed(mean * LOOK_NS / look_ns, came, look_ns)),
            default=-1,
        )
        return sum(exp(-mean) * mean**came / factorial(came) for came in range(most + 1))

    assert max(chance(mean / 4) for mean in range(1, 360)) < 5e-8


def test_few_requests_that_fail_are_left_to_the_alert_on_the_burn() -> None:
    failing = Tally(bad=9, total=10)

    assert mostly_fails(Tally(bad=10, total=20), failing)
    assert not mostly_fails(Tally(bad=9, total=20), failing)
    assert not mostly_fails(Tally(bad=10, total=20), Tally(bad=8, total=10))


@pytest.mark.parametrize(
    ("expected", "came", "returned"),
    [(500, 20, False), (500, 21, True), (12, 2, False), (12, 3, True)],
)
def test_a_stray_request_is_no_return(expected: float, came: int, *, returned: bool) -> None:
    assert has_returned(expected, Tally(bad=0, total=came)) is returned
