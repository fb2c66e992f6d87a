"""Alerts that fire when their objective is taken out of the file, renamed or changed: they end."""

from pathlib import Path

import pytest

from latencytrace.model import Objective
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.traffic import Traffic

PAGE_BEGAN, PAGE_ENDED = "LatencySLOBurn/page began", "LatencySLOBurn/page ended"
LEFT, CHANGED = "the objective left the file", "the objective was changed in the file"
OTHER = made_objective(name="other", route="POST /other")


@pytest.fixture
def paged(tmp_path: Path) -> Traffic:
    """A page has begun."""
    traffic = Traffic(tmp_path, made_objective(), OTHER)
    traffic.run(60, tick_s=60)
    traffic.until_firing(1.0)
    return traffic


def start_with(traffic: Traffic, *objectives: Objective, down_s: float = 5) -> None:
    """Begin the service again with these in the file, and evaluate them."""
    traffic.objectives = objectives
    traffic.restart(down_s)
    traffic.tick()


@pytest.mark.parametrize(
    ("objectives", "reason"),
    [
        ((OTHER,), LEFT),
        ((), LEFT),
        ((made_objective(name="chat-renamed"), OTHER), LEFT),
        ((made_objective(threshold_ns=9 * SECOND_NS), OTHER), CHANGED),
        ((made_objective(route="POST /v2/chat"), OTHER), CHANGED),
        ((made_objective(target_ratio=0.95), OTHER), CHANGED),
    ],
    ids=["removed", "all removed", "renamed", "another value", "another route", "a tier less"],
)
def test_its_end_is_told_once_with_the_reason(
    paged: Traffic, objectives: tuple[Objective, ...], reason: str
) -> None:
    start_with(paged, *objectives)
    start_with(paged, *objectives)

    [began, ended] = paged.heard
    assert (ended.fingerprint, ended.labels) == (began.fingerprint, began.labels)
    assert (ended.ended_ns, ended.end_reason) == (paged.wall() - 5 * SECOND_NS, reason)


def test_its_end_is_told_again_if_the_service_dies_before_that_is_kept(paged: Traffic) -> None:
    paged.objectives = (OTHER,)
    paged.restart()
    [lost] = paged.evaluator.tick()
    start_with(paged, OTHER)

    assert paged.heard[-1].fingerprint == lost.fingerprint
    assert paged.names() == [PAGE_BEGAN, PAGE_ENDED]


def test_another_title_ends_nothing(paged: Traffic) -> None:
    start_with(paged, made_objective(display_name="chat is quick"), OTHER)

    assert paged.names() == [PAGE_BEGAN]


def test_an_objective_that_is_back_in_the_file_begins_a_new_alert(paged: Traffic) -> None:
    start_with(paged, OTHER)
    start_with(paged, made_objective(), OTHER)

    assert paged.names() == [PAGE_BEGAN, PAGE_ENDED, PAGE_BEGAN]
    assert paged.heard[2].fingerprint != paged.heard[0].fingerprint
    assert paged.evaluator.standings()[0].bad == paged.heard[0].standing.bad


def test_what_was_over_before_the_service_came_back_is_told(paged: Traffic) -> None:
    start_with(paged, made_objective(), OTHER, down_s=DAY_NS / SECOND_NS + 60)

    assert paged.names() == [PAGE_BEGAN, PAGE_ENDED]
    assert paged.heard[1].end_reason == "no request came for 1 d 00 h"


def test_what_burns_at_once_under_a_stricter_promise_is_told(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(60, bad_ratio=0.05, tick_s=60)
    start_with(traffic, made_objective(target_ratio=0.999))

    assert traffic.names() == [PAGE_BEGAN]


def test_what_a_later_version_kept_does_not_stop_the_service(
    paged: Traffic, caplog: pytest.LogCaptureFixture
) -> None:
    kept = paged.memory.states()
    later = {series: text.replace('"duration"', '"joy"') for series, text in kept.items()}
    paged.memory.keep({}, later, {})
    start_with(paged, OTHER)

    assert (
        "measure: Input should be 'duration', 'until_idle', 'time_to_first_token'" in caplog.text
    )
    assert "or 'stage', not 'joy'" in caplog.text
    assert paged.names() == [PAGE_BEGAN]
