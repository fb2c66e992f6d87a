"""Outages page however little traffic is left, and traffic that stays away is news in itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.model import Alert, AlertKind
from latencytrace.service.alerting.text import summary
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.traffic import Traffic

pytestmark = pytest.mark.long

PAGE_BEGAN, PAGE_ENDED = "LatencySLOBurn/page began", "LatencySLOBurn/page ended"
QUIET_BEGAN, QUIET_ENDED = "LatencySLONoData/page began", "LatencySLONoData/page ended"
USUAL_PER_S = 2.0


@pytest.fixture
def traffic(tmp_path: Path) -> Traffic:
    """Half a day at the usual rate."""
    traffic = Traffic(tmp_path)
    traffic.run(12 * 60, per_s=USUAL_PER_S, tick_s=60)
    return traffic


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_an_outage_after_a_quiet_night_pages_within_a_quarter_of_an_hour(
    traffic: Traffic, share: float
) -> None:
    for minutes in range(0, 120, 10):  # traffic falls slowly, as in the evening
        traffic.run(10, per_s=USUAL_PER_S * share ** (minutes / 110), tick_s=60)
    traffic.run(60, per_s=USUAL_PER_S * share, tick_s=60)
    before = len(traffic.heard)
    found_min = traffic.until_firing(1.0, per_s=USUAL_PER_S * share)

    assert before == 0
    assert found_min is not None
    assert found_min <= 15
    assert traffic.names() == [PAGE_BEGAN]


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_an_outage_that_takes_most_traffic_with_it_pages_once(
    traffic: Traffic, share: float
) -> None:
    found_min = traffic.until_firing(1.0, per_s=USUAL_PER_S * share)
    traffic.run(30, bad_ratio=1, per_s=USUAL_PER_S * share)

    assert found_min is not None
    assert found_min <= 15
    assert traffic.names() == [PAGE_BEGAN]


def test_half_of_little_traffic_bad_is_no_outage(traffic: Traffic) -> None:
    traffic.run(30, bad_ratio=0.5, per_s=USUAL_PER_S * 0.15)

    assert traffic.names() == []


def test_traffic_that_collapses_is_news_and_stays_so_until_it_returns(traffic: Traffic) -> None:
    traffic.run(100, per_s=USUAL_PER_S * 0.03)
    collapsed = traffic.names()
    traffic.run(5, per_s=USUAL_PER_S)

    assert collapsed == [QUIET_BEGAN]
    assert traffic.names() == [QUIET_BEGAN, QUIET_ENDED]
    assert "has lost its traffic: " in summary(traffic.heard[0])
    assert "comes again" in summary(traffic.heard[1])


def test_a_collapse_is_found_within_ten_minutes(traffic: Traffic) -> None:
    found_min = traffic.until_firing(0.0, per_s=USUAL_PER_S * 0.03)

    assert found_min is not None
    assert 9 <= found_min <= 10.5
    assert traffic.heard[0].kind is AlertKind.NO_DATA


def test_traffic_that_falls_to_a_third_is_none(traffic: Traffic) -> None:
    traffic.run(60, per_s=USUAL_PER_S * 0.3)

    assert traffic.names() == []


def test_a_stray_request_does_not_end_a_silence(traffic: Traffic) -> None:
    traffic.run(12, per_s=0)
    traffic.one()
    traffic.run(12, per_s=0)

    assert traffic.names() == [QUIET_BEGAN]


def test_a_tenth_of_little_traffic_is_news_within_half_an_hour(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(3 * 60, per_s=0.02)
    found_min = traffic.until_firing(0.0, per_s=0.0015)

    assert found_min is not None
    assert found_min <= 30
    assert traffic.names() == [QUIET_BEGAN]


def test_five_requests_of_few_that_all_fail_page(traffic: Traffic) -> None:
    traffic.run(2 * 60, per_s=0.3, tick_s=60)
    traffic.run(2 * 60, per_s=0.05, tick_s=60)
    traffic.run(2 * 60, per_s=0.008, tick_s=60)
    before = traffic.names()
    found_min = traffic.until_firing(1.0, per_s=0.008)

    assert before == []
    assert found_min is not None
    assert found_min <= 16
    assert traffic.names() == [PAGE_BEGAN]


def test_a_silence_that_comes_each_evening_is_no_news_and_one_at_noon_is(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    by_day = []
    for _ in range(4):
        before = len(traffic.heard)
        traffic.run(10 * 60, per_s=0.1, tick_s=150)
        traffic.run(14 * 60, per_s=0, tick_s=150)
        by_day.append(traffic.names()[before:])
    traffic.run(5 * 60, per_s=0.1, tick_s=150)
    traffic.run(30, per_s=0, tick_s=150)

    assert by_day[0] == [QUIET_BEGAN]
    assert by_day[1] == [QUIET_ENDED, QUIET_BEGAN]
    assert by_day[2] == [QUIET_ENDED]
    assert by_day[3] == []
    assert traffic.names()[-1] == QUIET_BEGAN


def test_an_objective_may_leave_silence_to_others(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, replace(made_objective(), pages_on_silence=False))
    traffic.run(2 * 60, tick_s=60)
    traffic.run(60, per_s=0, tick_s=60)

    assert traffic.names() == []


def test_a_restart_is_no_return_of_traffic(traffic: Traffic) -> None:
    traffic.run(12, per_s=0)
    [began] = traffic.heard
    traffic.restart(down_s=30)
    traffic.run(5, per_s=0)
    still = one_alert(traffic)

    assert traffic.names() == [QUIET_BEGAN]
    assert still.fingerprint == began.fingerprint


def test_traffic_that_stays_low_for_a_day_is_the_usual_one_by_then(traffic: Traffic) -> None:
    traffic.run(25 * 60, per_s=USUAL_PER_S * 0.03, tick_s=60)

    assert traffic.names() == [QUIET_BEGAN, QUIET_ENDED]
    assert traffic.heard[1].end_reason == "few requests have come for 1 d 00 h: it is usual"


def one_alert(traffic: Traffic) -> Alert:
    [alert] = traffic.evaluator.alerts()
    return alert
