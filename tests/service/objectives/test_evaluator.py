"""Alerts begin and end, by a fake clock."""

from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.analysis.slo.burn_rate import (
    burn_rules,
    calming_ns,
    detection_ns,
    keep_firing_ns,
)
from latencytrace.errors import StoreError
from latencytrace.model import AlertKind, RequestStatus, Severity, Stage
from latencytrace.model.objective import DAY_NS, MINUTE_NS
from latencytrace.service.objectives.alerts import NO_EVIDENCE
from latencytrace.service.objectives.memory import FILE, ObjectiveMemory
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.traffic import GOOD, PER_S, SLOW, START_NS, Traffic, stamped
from tests.support.few import few

PAGE_BEGAN, PAGE_ENDED = "LatencySLOBurn/page began", "LatencySLOBurn/page ended"
HOUR_MIN = 60


@pytest.fixture
def traffic(tmp_path: Path) -> Traffic:
    return Traffic(tmp_path)


def test_a_full_outage_pages_when_the_formula_says(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)

    assert traffic.until_firing(1.0) == pytest.approx(4.32, abs=0.5)
    assert traffic.names() == [PAGE_BEGAN]


@pytest.mark.parametrize("bad_ratio", few(1, [0.5, 0.2, 0.1]))
def test_the_first_tier_that_can_fire_fires_when_the_formula_says(
    tmp_path: Path, bad_ratio: float
) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(6 * HOUR_MIN, per_s=2, tick_s=60)
    theory_ns = min(
        found
        for rule in burn_rules(made_objective())
        if rule.severity is Severity.PAGE
        if (found := detection_ns(made_objective(), rule, bad_ratio)) is not None
    )
    theory_min = theory_ns / MINUTE_NS

    found_min = traffic.until_firing(bad_ratio, per_s=2)
    assert found_min == pytest.approx(theory_min, abs=max(1, 0.1 * theory_min))


def test_an_alert_ends_after_its_short_window_and_a_while(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.run(5, bad_ratio=1)
    ticks = len(traffic.heard)
    minutes = 0
    while PAGE_ENDED not in traffic.names():
        traffic.run(1)
        minutes += 1
    rule = burn_rules(made_objective())[0]

    theory_ns = calming_ns(made_objective(), rule, 1) + keep_firing_ns(
        made_objective(), Severity.PAGE
    )
    assert ticks == 1
    assert minutes == pytest.approx(theory_ns / MINUTE_NS, abs=1.2)


def test_a_short_burst_is_silent(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.run(3, bad_ratio=1)
    traffic.run(HOUR_MIN, tick_s=30)

    assert traffic.names() == []


def test_half_an_hour_of_slow_requests_after_a_start_does_not_page(traffic: Traffic) -> None:
    traffic.run(30, bad_ratio=0.08)
    traffic.run(30)

    assert traffic.names() == []


def test_slow_requests_after_a_silent_night_do_not_page(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.move(9 * 3600)
    traffic.evaluator.tick()
    traffic.run(30, bad_ratio=0.08)

    assert PAGE_BEGAN not in traffic.names()


def test_a_handful_of_bad_requests_never_pages(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, per_s=3 / 3600, bad_ratio=1)

    assert traffic.names() == []


def test_failures_are_bad_however_fast(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    for _ in range(3000):
        traffic.one(status=RequestStatus.ERROR)
    traffic.evaluator.tick()

    [alert] = traffic.evaluator.alerts()
    assert alert.evidence.failed_ratio == 1
    assert alert.evidence.guilty is None


def test_health_routes_are_not_counted(traffic: Traffic) -> None:
    traffic.one(SLOW, health=True)
    traffic.one(SLOW)
    traffic.evaluator.tick()

    [standing] = traffic.evaluator.standings()
    assert (standing.bad, standing.total) == (1, 1)


def test_counts_are_kept_together_with_how_far_they_go(traffic: Traffic) -> None:
    nothing_ns = traffic.evaluator.counted_until_ns
    traffic.one(SLOW)
    traffic.tick()
    counted_ns = traffic.evaluator.counted_until_ns
    traffic.move(1)
    traffic.one(SLOW)  # and then the service is killed
    traffic.restart()
    traffic.tick()

    [standing] = traffic.evaluator.standings()
    assert nothing_ns is None
    assert traffic.evaluator.counted_until_ns == counted_ns
    assert standing.total == 1


def test_an_alert_says_what_is_slow_and_shows_it(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)

    [alert] = traffic.heard
    guilty = alert.evidence.guilty
    assert guilty is not None
    assert (guilty.stage, guilty.share_ratio) == (Stage.RETRIEVE, 1)
    assert guilty.excess_ns == 1.9 * SECOND_NS
    assert (alert.evidence.version, alert.evidence.failed_ratio) == (None, 0)
    assert len(alert.evidence.slowest) == 3
    assert alert.bad_ratio == pytest.approx(0.288, abs=0.02)
    assert alert.standing.exhaustion_ns is not None


def test_a_page_keeps_its_ticket_from_beginning(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.run(HOUR_MIN, bad_ratio=1)

    assert traffic.names() == [PAGE_BEGAN]
    assert {rate.rule.factor for rate in traffic.evaluator.standings()[0].rates if rate.firing}


@pytest.mark.long
def test_what_is_left_of_it_becomes_a_ticket_when_the_page_ends(traffic: Traffic) -> None:
    traffic.run(2 * HOUR_MIN, tick_s=60)
    traffic.run(HOUR_MIN, bad_ratio=1)
    traffic.run(HOUR_MIN, bad_ratio=0.02)

    assert traffic.names()[:3] == [PAGE_BEGAN, PAGE_ENDED, "LatencySLOBurn/ticket began"]


def test_a_restart_fires_nothing_again_and_forgets_nothing(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)
    [began] = traffic.heard
    before = traffic.evaluator.standings()[0]
    traffic.restart()
    after = traffic.evaluator.standings()[0]
    traffic.run(1, bad_ratio=1)

    assert traffic.names() == [PAGE_BEGAN]
    assert (after.bad, after.total) == (before.bad, before.total)
    assert traffic.evaluator.alerts()[0].fingerprint == began.fingerprint


def test_an_incident_that_ends_after_a_restart_is_resolved(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)
    traffic.restart(down_s=120)
    traffic.run(30)

    assert traffic.names() == [PAGE_BEGAN, PAGE_ENDED]
    assert traffic.heard[0].fingerprint == traffic.heard[1].fingerprint


def test_silence_does_not_end_an_alert_and_is_one_itself(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)
    traffic.run(HOUR_MIN, per_s=0)

    assert traffic.names() == [PAGE_BEGAN, "LatencySLONoData/page began"]


def test_an_alert_is_not_held_through_silence_for_ever(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)
    traffic.move(DAY_NS / 1e9 + 60)
    traffic.tick()

    assert traffic.names() == [PAGE_BEGAN, PAGE_ENDED]


def test_silence_after_steady_requests_is_an_alert_until_they_come_again(
    traffic: Traffic,
) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.run(11, per_s=0)
    traffic.run(1)

    assert traffic.names() == ["LatencySLONoData/page began", "LatencySLONoData/page ended"]
    assert traffic.heard[0].kind is AlertKind.NO_DATA


def test_an_alert_of_silence_blames_no_stage_for_what_was_slow_before(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)
    traffic.run(HOUR_MIN, per_s=0)

    slow, silent = traffic.heard
    assert slow.evidence.guilty is not None
    assert silent.kind is AlertKind.NO_DATA
    assert silent.evidence == replace(NO_EVIDENCE, failed_ratio=silent.evidence.failed_ratio)


@pytest.mark.parametrize(
    ("minutes", "per_s"), [(5, 100), (HOUR_MIN, 1 / 600)], ids=["a burst", "hardly any"]
)
def test_silence_is_none_where_no_request_was_to_be_expected(
    traffic: Traffic, minutes: float, per_s: float
) -> None:
    traffic.run(minutes, per_s=per_s)
    traffic.run(HOUR_MIN, per_s=0)

    assert traffic.names() == []


def test_the_time_that_the_service_was_down_is_no_silence(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.restart(down_s=3 * 3600)
    traffic.tick()

    assert traffic.names() == []


def test_a_clock_set_back_counts_nothing_twice(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.wall.move_s(-3600)
    traffic.run(10)

    [standing] = traffic.evaluator.standings()
    assert (standing.total, standing.bad) == (70 * 60 * PER_S, 0)
    assert standing.rates[0].long == 0
    assert traffic.evaluator.clock.jumps == 1


def test_requests_of_a_clock_set_back_are_still_judged(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.wall.move_s(-3600)
    traffic.run(1)

    assert traffic.until_firing(1.0) == pytest.approx(4.32, abs=0.5)


def test_a_clock_set_forward_is_no_incident(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.wall.move_s(3600)
    traffic.run(10)

    assert traffic.names() == []


def test_stamps_of_the_future_count_as_now_and_are_counted(traffic: Traffic) -> None:
    traffic.one(SLOW, ended_ago_s=-3600)
    traffic.evaluator.tick()

    assert traffic.evaluator.standings()[0].total == 1
    assert traffic.evaluator.future_stamps == 1


def test_what_is_older_than_the_period_is_not_counted(traffic: Traffic) -> None:
    traffic.one()
    traffic.one(ended_ago_s=40 * 86_400)
    traffic.evaluator.tick()

    assert traffic.evaluator.standings()[0].total == 1
    assert traffic.evaluator.outdated == 1


def test_another_threshold_begins_anew(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(10)
    traffic.objectives = (made_objective(threshold_ns=SECOND_NS),)
    traffic.restart()

    assert traffic.evaluator.standings()[0].total == 0


def test_a_torn_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all" * 500)
    memory = ObjectiveMemory.open(tmp_path, START_NS)
    memory.close()

    assert "was set aside" in caplog.text
    assert (tmp_path / "objectives.torn").exists()


@pytest.mark.long
def test_a_file_torn_in_its_middle_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(4 * HOUR_MIN, per_s=1 / 10)
    traffic.memory.close()
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:9000] + b"?" * 4000 + whole[13000:])
    traffic.start()

    assert "was set aside" in caplog.text
    assert traffic.evaluator.standings()[0].total == 0


def test_a_service_without_requests_writes_nothing(traffic: Traffic) -> None:
    traffic.run(1)
    traffic.memory.close()
    written = (traffic.folder / FILE).read_bytes()
    traffic.start()
    traffic.run(1, per_s=0)
    traffic.memory.close()

    assert (traffic.folder / FILE).read_bytes() == written


def test_an_alert_still_knows_its_cause_after_a_restart(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.until_firing(1.0)
    [before] = traffic.evaluator.alerts()
    traffic.restart()
    end_ns = traffic.wall() - SECOND_NS
    slow = [stamped(SLOW, end_ns, trace_id=one.trace_id) for one in before.evidence.slowest]
    traffic.evaluator.recall([stamped(GOOD, end_ns), *slow])
    [after] = traffic.evaluator.alerts()

    assert after.evidence == before.evidence
    assert after.onset_ns == before.onset_ns
    assert after.standing == before.standing


def test_since_when_requests_are_bad_is_told(traffic: Traffic) -> None:
    traffic.run(HOUR_MIN, tick_s=30)
    onset_ns = traffic.wall()
    traffic.until_firing(0.5)

    assert traffic.heard[0].onset_ns == pytest.approx(onset_ns, abs=60 * SECOND_NS)


def test_a_disk_that_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    traffic = Traffic(tmp_path)

    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(ObjectiveMemory, "keep", refuse)
        traffic.run(5)
    traffic.run(1)
    traffic.restart()

    assert "the disk is full" in caplog.text
    assert traffic.evaluator.standings()[0].total == 6 * 60 * PER_S


def test_a_request_of_no_objective_costs_nothing(traffic: Traffic) -> None:
    traffic.one(GOOD, route="GET /other")
    traffic.evaluator.tick()

    assert traffic.evaluator.standings()[0].last_request_ns is None
