"""Objectives of senders that sample: the population's share, no alert of a handful that came."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latencytrace.analysis.slo.burn_rate import LEAST_BAD, burn_rules, burns
from latencytrace.model import Request, Severity, Tally
from latencytrace.service.objectives.counts import ObjectiveCounts
from latencytrace.service.objectives.memory import FILE
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_requests import made_request
from tests.support.builders.traffic import PER_S, SLOW, Traffic
from tests.support.tables.ledger_tables import tables_of

SECOND_NS = 10**9
HOUR_S = 3600
HEALTHY_S = 3 * HOUR_S
NOW_NS = 10**18
GOOD = made_request(SECOND_NS, start_ns=NOW_NS)
BAD = made_request(3 * SECOND_NS, start_ns=NOW_NS)


@pytest.fixture
def counts() -> ObjectiveCounts:
    return ObjectiveCounts(made_objective())


def count(counts: ObjectiveCounts, request: Request) -> None:
    [table] = tables_of([request])
    counts.count(table, np.array([0]), np.array([NOW_NS]))


def test_requests_are_counted_as_many_as_they_stand_for(counts: ObjectiveCounts) -> None:
    for request, weight in ((GOOD, 90), (BAD, 10), (GOOD, 1)):
        count(counts, replace(request, weight=weight))

    assert counts.rings.since_start == Tally(bad=10, total=101, unseen_bad=9, unseen=98)
    assert counts.tally(NOW_NS, 3600 * SECOND_NS) == counts.rings.since_start


def test_silence_is_told_by_the_requests_that_came(counts: ObjectiveCounts) -> None:
    for _ in range(6):
        count(counts, replace(GOOD, weight=50))

    assert counts.tally(NOW_NS, 3600 * SECOND_NS).total == 300
    assert counts.requests(NOW_NS, 3600 * SECOND_NS) == Tally(bad=0, total=6)


@pytest.mark.parametrize("weight", [1, 7, 1000])
def test_a_page_needs_as_many_bad_requests_that_came_whatever_they_stand_for(weight: int) -> None:
    objective = made_objective()
    rule = next(one for one in burn_rules(objective) if one.severity is Severity.PAGE)
    least = LEAST_BAD[Severity.PAGE]

    def pages(bad: int) -> bool:
        unseen = bad * (weight - 1)
        tally = Tally(
            bad=bad * weight, total=2 * bad * weight, unseen_bad=unseen, unseen=2 * unseen
        )
        return burns(objective, rule, tally, tally, 1.0)

    assert pages(least)
    assert not pages(least - 1)


@pytest.mark.long
def test_tail_sampling_of_all_errors_pages_as_soon_as_without_it(tmp_path: Path) -> None:
    paged_s = []
    for every in (1, 20):
        (folder := tmp_path / str(every)).mkdir()
        traffic = Traffic(folder, made_objective(target_ratio=0.999))
        second = 0
        while not traffic.heard and second < HEALTHY_S + HOUR_S:
            second += 1
            traffic.move(1)
            if second > HEALTHY_S and second % 10 == 0:  # every bad request is kept
                traffic.one(SLOW)
            elif second % every == every // 3:
                traffic.one(GOOD, weight=every)
            if second % 30 == 0:
                traffic.tick()
        assert traffic.names() == ["LatencySLOBurn/page began"]
        paged_s.append(second - HEALTHY_S)

    assert paged_s[1] <= paged_s[0] < HOUR_S / 4


def test_an_odd_request_that_stands_for_many_is_no_page(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, made_objective(target_ratio=0.999))
    traffic.run(4 * 60, tick_s=60)
    traffic.one(SLOW, weight=512)
    traffic.run(2)

    assert traffic.names() == []
    assert traffic.evaluator.standings()[0].bad == 512


@pytest.mark.parametrize("weight", [1, 100])
def test_after_a_restart_nine_bad_requests_are_nine(tmp_path: Path, weight: int) -> None:
    traffic = Traffic(tmp_path)
    for requests in (*[GOOD] * 120, *[SLOW] * 9):
        traffic.move(60)
        traffic.one(requests, weight=weight)
        traffic.tick()
    traffic.restart(1)
    traffic.tick()

    assert traffic.names() == []


def test_after_a_restart_silence_is_told_by_the_requests_that_came(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    for _ in range(30):  # too few for their silence to be news
        traffic.move(400)
        traffic.one(GOOD, weight=1000)
        traffic.tick()
    traffic.restart(1)
    for _ in range(70):
        traffic.move(10)
        traffic.tick()

    assert traffic.names() == []


def test_counts_of_before_there_were_weights_are_taken_up(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(10)
    traffic.memory.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as older, older:
        for column in ("unseen_bad", "unseen"):
            older.execute(f"ALTER TABLE slots DROP COLUMN {column}")

    traffic.start()
    traffic.one(GOOD, weight=7)
    traffic.tick()
    traffic.restart(1)

    [(counts, _)] = traffic.evaluator.watched.entries
    assert counts.tally(traffic.wall(), HOUR_S * SECOND_NS) == Tally(
        bad=0, total=10 * 60 * PER_S + 7, unseen=6
    )
