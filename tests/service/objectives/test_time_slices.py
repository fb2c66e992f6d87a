"""Objectives of time slices: each counts as much as another, however many requests it has."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import AlertKind, Severity, Tally
from latencytrace.model.objective import DAY_NS, MINUTE_NS, SLICE_PARTS, TimeSlices
from latencytrace.service.alerting.text import summary
from latencytrace.service.objectives.file import parse_objectives
from latencytrace.service.objectives.report import report
from latencytrace.service.objectives.tally_ring import CountRings, SliceRings
from tests.service.objectives.test_file import CHAT, fault
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.traffic import SLOW, START_NS, Traffic
from tests.support.few import few

SLICES = TimeSlices(length_ns=MINUTE_NS, target_ratio=0.95)
SHARES = TimeSlices(length_ns=MINUTE_NS, target_ratio=None)
SLICED = made_objective(slices=SLICES)
FIRST_NS = START_NS // MINUTE_NS * MINUTE_NS
LATER_NS = FIRST_NS + 60 * MINUTE_NS
FIELDS = "target: 0.99, timeSliceTarget: 0.95, timeSliceWindow: 1m"
TEXT = CHAT.replace("Occurrences", "Timeslices").replace("target: 0.99", FIELDS)


def filled(rings: CountRings, slices: Iterable[tuple[int, int, int]]) -> CountRings:
    """Rings with so many bad of all requests in slices by their number."""
    for number, bad, total in slices:
        for place in range(total):
            at_ns = FIRST_NS + number * MINUTE_NS + place * MINUTE_NS // total
            rings.add(at_ns, Tally(bad=place < bad, total=1))
    return rings


def judged(rings: CountRings, now_ns: int = LATER_NS) -> tuple[float, float]:
    """The bad and all slices of the last two hours."""
    found = rings.of(120 * MINUTE_NS).tally(now_ns - rings.delay_ns, 120 * MINUTE_NS)
    return found.bad / SLICE_PARTS, found.total / SLICE_PARTS


def test_slices_are_read_from_openslo() -> None:
    [found] = parse_objectives(TEXT, "o.yaml").objectives
    shares = TEXT.replace("Timeslices", "RatioTimeslices").replace("timeSliceTarget: 0.95, ", "")

    assert found.slices == SLICES
    assert parse_objectives(shares, "o.yaml").objectives[0].slices == SHARES
    assert parse_objectives(TEXT.replace("1m", "1"), "o.yaml").objectives[0].slices == SLICES


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Window: 1m", "Window: 1d", "timeSliceWindow is '1d': write between 1m and 1h"),
        ("Window: 1m", "Window: 0", "timeSliceWindow is '0': write between 1m and 1h"),
        ("Window: 1m", "Window: 1h", "set a timeSliceWindow of at most 30 min"),
        ("Target: 0.95", "Target: 95", "timeSliceTarget is 95: write a share above 0 and up to 1"),
        ("Timeslices", "RatioTimeslices", "timeSliceTarget is not for RatioTimeslices"),
        (", timeSliceWindow: 1m", "", "has no 'timeSliceWindow', which Timeslices needs"),
    ],
)
def test_slices_that_are_wrong_are_refused(old: str, new: str, says: str) -> None:
    assert says in fault(TEXT.replace(old, new))


def test_tiers_that_look_at_less_than_a_slice_are_left_out() -> None:
    found = parse_objectives(TEXT.replace("Window: 1m", "Window: 5m"), "o.yaml")

    assert [rule.factor for rule in burn_rules(found.objectives[0])] == [14.4, 6, 3, 1]
    assert any("looks at 1 min 15 s, less than a time slice" in note for note in found.notes)


def test_a_slice_is_bad_below_its_share_however_few_its_requests() -> None:
    rings = filled(SliceRings(DAY_NS, SLICES), [(0, 5, 100), (1, 6, 100), (2, 1, 1), (4, 0, 2)])

    assert judged(rings) == (2, 4)


def test_without_a_share_a_slice_is_as_bad_as_its_requests() -> None:
    rings = filled(SliceRings(DAY_NS, SHARES), [(0, 5, 100), (1, 0, 1), (2, 1, 2)])

    assert judged(rings) == (0.55, 3)


def test_a_slice_is_judged_when_it_is_over_and_has_settled() -> None:
    rings = filled(SliceRings(DAY_NS, SLICES), [(0, 1, 1)])
    before = [judged(rings, FIRST_NS + round(minutes * MINUTE_NS)) for minutes in (0.5, 1.2)]

    assert before == [(0, 0), (0, 0)]
    assert judged(rings, FIRST_NS + 3 * MINUTE_NS // 2) == (1, 1)


def test_a_late_request_changes_the_verdict_on_its_slice_and_no_counter() -> None:
    rings = filled(SliceRings(DAY_NS, SLICES), [(0, 1, 1)])
    rings.close(LATER_NS)
    filled(rings, [(0, 0, 99)])
    rings.close(LATER_NS)

    assert judged(rings) == (0, 1)
    assert rings.since_start == Tally(bad=SLICE_PARTS, total=SLICE_PARTS)


def test_a_slice_whose_first_request_comes_late_is_counted_once() -> None:
    rings = filled(SliceRings(DAY_NS, SLICES), [(0, 0, 1), (2, 0, 1)])
    rings.close(LATER_NS)
    filled(rings, [(1, 1, 1)])
    closed_ns = rings.close(LATER_NS)
    filled(rings, [(1, 1, 1)])
    rings.close(LATER_NS)

    assert judged(rings) == (1, 3)
    assert rings.since_start == Tally(bad=SLICE_PARTS, total=3 * SLICE_PARTS)
    assert closed_ns == FIRST_NS + 2 * MINUTE_NS  # so that none is counted again at a start


def test_the_slices_of_a_backlog_of_a_day_are_all_counted() -> None:
    rings = SliceRings(3 * DAY_NS, SLICES)
    a_day = DAY_NS // MINUTE_NS
    filled(rings, [(number, number % 5 == 0, 1) for number in range(a_day)])
    rings.close(FIRST_NS + DAY_NS + rings.delay_ns)
    found = rings.of(2 * DAY_NS).tally(FIRST_NS + DAY_NS, 2 * DAY_NS)

    assert rings.since_start == found
    assert rings.since_start == Tally(bad=a_day // 5 * SLICE_PARTS, total=a_day * SLICE_PARTS)


def test_many_at_once_are_judged_as_one_by_one() -> None:
    counts = [(number, number % 7, 7) for number in range(50)]
    at_ns = np.concatenate(
        [
            FIRST_NS + number * MINUTE_NS + np.arange(total) * MINUTE_NS // total
            for number, _, total in counts
        ]
    )
    is_bad = np.concatenate([np.arange(total) < bad for _, bad, total in counts])
    many = SliceRings(DAY_NS, SLICES)

    assert many.add_all(at_ns, is_bad) == 0
    assert judged(many) == judged(filled(SliceRings(DAY_NS, SLICES), counts))
    assert many.add_all(at_ns[:1] - DAY_NS, is_bad[:1]) == 1


def test_what_was_kept_is_judged_again() -> None:
    rings = filled(SliceRings(DAY_NS, SLICES), [(0, 1, 1), (1, 0, 9), (2, 9, 9)])
    again = SliceRings(DAY_NS, SLICES)
    again.restore(rings.changes())
    filled(again, [(2, 0, 1000)])

    assert judged(again) == (1, 3)
    assert again.since_start.total == 0
    again.close(LATER_NS)
    assert again.since_start.total == SLICE_PARTS  # the one that was open


@pytest.mark.parametrize("per_s", [0.05, 5])
def test_an_outage_pages_at_whatever_traffic_and_ends(tmp_path: Path, per_s: float) -> None:
    traffic = Traffic(tmp_path, SLICED)
    traffic.run(120, per_s=per_s, tick_s=30)
    traffic.run(12, per_s=per_s, bad_ratio=1, tick_s=30)
    heard = list(traffic.heard)
    traffic.run(60, per_s=5, tick_s=30)

    assert [(one.kind, one.severity) for one in heard] == [(AlertKind.BURN, Severity.PAGE)]
    assert "of the time of POST /chat, in slices of 1 min, was bad" in summary(heard[0])
    assert traffic.names() == ["LatencySLOBurn/page began", "LatencySLOBurn/page ended"]


def test_a_single_bad_slice_pages_nobody(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, SLICED)
    traffic.run(60, tick_s=30)
    traffic.count([SLOW] * 1000)
    traffic.run(30, tick_s=30)

    assert traffic.names() == []


def test_standing_and_report_and_counters_are_of_slices_through_a_restart(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, SLICED)
    traffic.run(30, tick_s=30)
    traffic.run(3, bad_ratio=1, tick_s=30)
    traffic.restart()
    traffic.run(10, tick_s=30)
    [standing] = traffic.evaluator.standings()
    [(objective, tally)] = traffic.evaluator.watched.since_start()
    history = traffic.evaluator.watched.history()
    [found] = report(history, "2025-11")["objectives"]

    assert standing.total in {41, 42, 43}
    assert standing.bad in {3, 4}
    assert tally.total / objective.parts in {10, 11}
    assert (found["bad_requests"], found["time_slice_ns"]) == (standing.bad, MINUTE_NS)
    assert found["requests"] in {standing.total, standing.total + 1, standing.total + 2}


def test_a_slice_is_in_the_counter_once_however_often_and_quietly_it_starts_again(
    tmp_path: Path,
) -> None:
    traffic = Traffic(tmp_path, SLICED)
    counted = 0
    for quiet_s, down_s in [(0, 0), (40, 0), (100, 0), (0, 600), (600, 600), (20, 3)]:
        traffic.run(7, tick_s=5)
        traffic.move(quiet_s)
        traffic.tick()
        counted += traffic.evaluator.watched.since_start()[0][1].total
        traffic.restart(down_s)
    traffic.move(600)
    traffic.tick()
    counted += traffic.evaluator.watched.since_start()[0][1].total
    [standing] = traffic.evaluator.standings()

    assert counted == standing.total * SLICE_PARTS


def test_slices_go_on_after_a_clock_was_set_back() -> None:
    rings = filled(SliceRings(DAY_NS, SLICES), [(0, 1, 1), (1, 0, 9)])
    again = SliceRings(DAY_NS, SLICES)
    again.restore(rings.changes(), closed_ns=FIRST_NS + DAY_NS)
    filled(again, [(2, 0, 9)])

    assert again.close(LATER_NS) == FIRST_NS + 2 * MINUTE_NS
    assert again.since_start.total == SLICE_PARTS


def test_traffic_that_stays_away_is_news_of_slices_too(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, SLICED)
    traffic.run(90, tick_s=30)
    traffic.move(11 * 60)
    traffic.tick()

    assert traffic.names() == ["LatencySLONoData/page began"]


@pytest.mark.parametrize("minutes", few(1, [15, 1]))
def test_a_silence_of_each_evening_is_no_news_of_slices_and_one_at_noon_is(
    tmp_path: Path, minutes: int
) -> None:
    slices = TimeSlices(length_ns=minutes * MINUTE_NS, target_ratio=None)
    traffic = Traffic(tmp_path, made_objective(slices=slices))
    began, ended = (f"LatencySLONoData/page {step}" for step in ("began", "ended"))
    for _ in range(3):
        traffic.run(10 * 60, per_s=0.1, tick_s=150)
        traffic.run(14 * 60, per_s=0, tick_s=150)
    by_evening = traffic.names()
    traffic.run(5 * 60, per_s=0.1, tick_s=150)
    traffic.run(40, per_s=0, tick_s=150)

    assert by_evening == [began, ended, began, ended]  # of the first two
    assert traffic.names() == [*by_evening, began]
