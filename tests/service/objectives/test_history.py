"""Counts by day outlast the period, and make the report of a month."""

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from latencytrace.cli.commands.objectives import markdown
from latencytrace.model import Tally
from latencytrace.model.objective import DAY_NS, NO_LIMIT_NS
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.net.problems import answer_with_problems
from latencytrace.service.objectives.memory import KEPT_DAYS
from latencytrace.service.objectives.report import month_of, report
from latencytrace.service.web.views.objectives import objectives_router
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.notices import LINKS
from tests.support.builders.traffic import SLOW, START_NS, Traffic

DAY_S, HOUR_S = 86_400, 3_600
FIRST = START_NS // DAY_NS  # 2025-11-21
TO_MIDNIGHT_S = (DAY_NS - START_NS % DAY_NS) / 1e9
NOVEMBER = FIRST - 20


def days(traffic: Traffic) -> list[tuple[int, Tally]]:
    [(_, found)] = traffic.evaluator.watched.history()
    return [(day - FIRST, tally) for day, tally in found]


def test_requests_are_kept_by_day(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    for requests in (3, 1):
        for _ in range(requests):
            traffic.one()
        traffic.one(SLOW)
        traffic.tick()
        traffic.move(DAY_S)

    assert days(traffic) == [(0, Tally(bad=1, total=4)), (1, Tally(bad=1, total=2))]


def test_a_day_goes_on_after_a_restart(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one()
    traffic.tick()
    traffic.restart(60)
    traffic.one(SLOW)
    traffic.tick()

    assert days(traffic) == [(0, Tally(bad=1, total=2))]


def test_days_outlast_the_period_but_not_for_ever(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, made_objective(period_ns=DAY_NS))
    for gap_days in (0, 40, KEPT_DAYS - 20):
        traffic.move(gap_days * DAY_S)
        traffic.one()
        traffic.tick()

    assert [day for day, _ in days(traffic)] == [40, KEPT_DAYS + 20]


def test_a_late_request_adds_to_a_day_whose_first_hours_are_older_than_the_period(
    tmp_path: Path,
) -> None:
    traffic = Traffic(tmp_path, made_objective(period_ns=DAY_NS))
    traffic.move(TO_MIDNIGHT_S)
    for _ in range(24):
        traffic.one()
        traffic.tick()
        traffic.move(HOUR_S)
    traffic.move(36 * HOUR_S)
    traffic.one()
    traffic.tick()
    traffic.one(SLOW, ended_ago_s=40 * HOUR_S)
    traffic.tick()

    assert days(traffic)[0] == (1, Tally(bad=1, total=25))


def test_a_day_whose_counts_are_gone_is_not_replaced_by_what_comes_late(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, made_objective(period_ns=DAY_NS))
    for _ in range(3):
        traffic.one()
        traffic.tick()
        traffic.move(HOUR_S)
    traffic.move(4 * DAY_S)
    nothing = Settled(tables=(), until_ns=traffic.wall())
    traffic.evaluator.count(nothing)
    traffic.tick()  # what is old goes
    traffic.one(ended_ago_s=4 * DAY_S + HOUR_S)
    traffic.tick()

    assert days(traffic) == [(0, Tally(bad=0, total=3))]


def test_a_start_with_the_clock_set_back_takes_nothing_from_a_day(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    for _ in range(3):
        traffic.one()
        traffic.tick()
        traffic.move(HOUR_S)
    traffic.restart(-2.5 * HOUR_S)
    traffic.one()
    traffic.tick()

    assert days(traffic) == [(0, Tally(bad=0, total=3))]


def test_days_of_before_they_were_kept_are_made_of_what_is_there(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one(SLOW)
    traffic.tick()
    traffic.memory._connection.execute("DELETE FROM days")
    traffic.memory._connection.commit()
    traffic.restart()

    assert days(traffic) == [(0, Tally(bad=1, total=1))]


def test_a_month_says_whether_an_objective_was_met_and_how_much_was_spent() -> None:
    history = [
        (
            made_objective(),
            [
                (NOVEMBER - 1, Tally(bad=9, total=9)),  # of October
                (NOVEMBER, Tally(bad=0, total=100)),
                (FIRST, Tally(bad=2, total=100)),
                (NOVEMBER + 30, Tally(bad=9, total=9)),  # of December
            ],
        ),
        (
            made_objective(name="down", threshold_ns=NO_LIMIT_NS),
            [(FIRST, Tally(bad=3, total=100))],
        ),
        (made_objective(name="idle"), []),
    ]
    met, missed, idle = report(history, "2025-11")["objectives"]

    assert (met["requests"], met["bad_requests"], met["is_met"]) == (200, 2, True)
    assert met["budget_spent_ratio"] == pytest.approx(1.0)
    assert [day["day"] for day in met["days"]] == ["2025-11-01", "2025-11-21"]
    assert met["days"][1]["budget_spent_ratio"] == pytest.approx(2.0)
    assert (missed["is_met"], missed["threshold_ns"]) == (False, None)
    assert missed["good_ratio"] == pytest.approx(0.97)
    assert (idle["is_met"], idle["good_ratio"], idle["budget_spent_ratio"]) == (None, None, None)


def test_a_month_is_written_as_markdown() -> None:
    history = [(made_objective(route="GET /a|b"), [(FIRST, Tally(bad=3, total=1200))])]
    text = markdown(report(history, "2025-11"))

    assert text.splitlines() == [
        "# Objectives in 2025-11",
        "",
        "| objective | of | target | requests | bad | good | met | budget spent |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |",
        r"| chat-e2e | rag · GET /a\|b | 99 % | 1,200 | 3 | 99.75 % | yes | 25.0 % |",
        "",
        "Budget spent: by the requests that came, as if all of the time were like them.",
        "",
        r"## chat-e2e: GET /a\|b, duration within 2.00 s",
        "",
        "| day (UTC) | requests | bad | budget of the day spent |",
        "| --- | ---: | ---: | ---: |",
        "| 2025-11-21 | 1,200 | 3 | 25.0 % |",
    ]


def test_the_api_reports_the_month_that_is_asked(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one(SLOW)
    traffic.tick()
    app = FastAPI()
    app.include_router(objectives_router(traffic.evaluator, LINKS))
    with TestClient(app) as client:
        found = client.get("/objectives/report", params={"month": "2025-11"}).json()
        now = client.get("/objectives/report").json()

    assert month_of(START_NS) == found["month"] == "2025-11"
    assert [one["bad_requests"] for one in found["objectives"]] == [1]
    assert [one["requests"] for one in now["objectives"]] == [0]


@pytest.mark.parametrize("month", ["November", "2026-13", "2026-00", "0000-01", "2026-1", ""])
def test_what_is_no_month_is_refused(tmp_path: Path, month: str) -> None:
    app = FastAPI()
    answer_with_problems(app)
    app.include_router(objectives_router(Traffic(tmp_path).evaluator, LINKS))
    with TestClient(app) as client:
        refused = client.get("/objectives/report", params={"month": month})

    said = f"month: {month!r} is none: write a year and a month, as 2026-11"
    assert (refused.status_code, refused.json()["detail"]) == (400, said)
