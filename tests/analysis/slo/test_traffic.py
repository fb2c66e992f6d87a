"""Traffic that stays away is told from traffic that was never there, or that fails."""

import pytest

from latencytrace.analysis.slo.traffic import (
    LOOK_NS,
    expected_requests,
    has_collapsed,
    has_returned,
    is_silent,
)
from latencytrace.model import Tally

STEADY = [100] * 12
NOTHING = Tally(bad=0, total=0)


def test_as_much_is_expected_as_an_hour_brought() -> None:
    assert expected_requests(STEADY, LOOK_NS) == pytest.approx(200)


def test_a_burst_lets_nothing_be_expected() -> None:
    assert expected_requests([1200] + [0] * 11, LOOK_NS) is None


@pytest.mark.parametrize(("expected", "silent"), [(None, False), (19.9, False), (20.0, True)])
def test_silence_is_news_where_twenty_requests_are_missing(
    expected: float | None, *, silent: bool
) -> None:
    assert is_silent(expected) is silent


@pytest.mark.parametrize(
    ("expected", "came", "collapsed"),
    [(200, 20, True), (200, 21, False), (39, 0, False), (40, 4, True), (None, 0, False)],
)
def test_a_tenth_of_forty_is_a_collapse(
    expected: float | None, came: int, *, collapsed: bool
) -> None:
    assert has_collapsed(expected, Tally(bad=0, total=came), NOTHING) is collapsed


def test_few_requests_that_fail_are_left_to_the_alert_on_the_burn() -> None:
    failing = Tally(bad=9, total=10)

    assert not has_collapsed(500, Tally(bad=10, total=20), failing)
    assert has_collapsed(500, Tally(bad=9, total=20), failing)
    assert has_collapsed(500, Tally(bad=10, total=20), Tally(bad=8, total=10))


def test_a_stray_request_is_no_return() -> None:
    assert not has_returned(500, Tally(bad=0, total=20))
    assert has_returned(500, Tally(bad=0, total=21))
    assert has_returned(0, Tally(bad=0, total=1))
