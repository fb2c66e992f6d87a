"""The API says how a budget went, and which alerts are over."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from latencytrace.service.alerting.document import keeping_past
from latencytrace.service.objectives.memory import MOST_PAST
from latencytrace.service.web.views.objectives import objectives_router
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.notices import LINKS, made_alert
from tests.support.builders.traffic import START_NS, Traffic

SECOND_NS = 10**9
HOUR_MIN = 60
HOUR_NS = 3600 * SECOND_NS


def asked(traffic: Traffic, path: str) -> dict[str, Any]:
    app = FastAPI()
    app.include_router(objectives_router(traffic.evaluator, LINKS))
    with TestClient(app) as client:
        found: dict[str, Any] = client.get(path).json()
    return found


def test_a_budgets_line_ends_with_what_is_left(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.run(5, bad_ratio=1)

    [found] = asked(traffic, "/objectives/timeline")["objectives"]
    [standing] = asked(traffic, "/objectives")["objectives"]
    left = [one["budget_left_ratio"] for one in found["budget"]]
    assert left[0] == 1  # at the first request, an hour ago
    assert left[-1] == standing["budget_left_ratio"] < 1
    assert left == sorted(left, reverse=True)
    shown_ns = int(found["until"]) - int(found["since"])
    assert HOUR_NS < shown_ns < 1.2 * HOUR_NS < made_objective().period_ns


def test_burn_rates_end_with_those_that_decide(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(HOUR_MIN, tick_s=30)
    traffic.run(5, bad_ratio=1)

    [found] = asked(traffic, "/objectives/timeline")["objectives"]
    [standing] = asked(traffic, "/objectives")["objectives"]
    for shown, rate in zip(found["burn_rates"], standing["burn_rates"], strict=True):
        assert shown["factor"] == rate["factor"]
        last = shown["points"][-1]
        assert (last["long"], last["short"]) == (rate["long"], rate["short"])
        shown_ns = int(last["at"]) - int(shown["points"][0]["at"])
        assert 2 * rate["long_ns"] < shown_ns <= 3 * rate["long_ns"]
    fastest = [one["short"] for one in found["burn_rates"][0]["points"]]
    assert fastest[-1] > fastest[0] or fastest[0] is None


def test_an_objective_without_a_request_has_no_line(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.tick()

    [found] = asked(traffic, "/objectives/timeline")["objectives"]
    assert found["budget"] == []
    rates = [(one["long"], one["short"]) for one in found["burn_rates"][0]["points"]]
    assert set(rates) == {(None, None)}


def test_an_alert_that_is_over_is_kept_with_its_cause_beyond_a_restart(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    handed_on: list[str] = []
    changed = keeping_past(
        traffic.memory, LINKS, lambda alerts: handed_on.extend(one.fingerprint for one in alerts)
    )
    over = made_alert(ended_ns=START_NS + 600 * SECOND_NS)
    earlier = made_alert("other", ended_ns=START_NS + SECOND_NS)
    changed([over, earlier, made_alert("fires")])
    traffic.restart()

    found = asked(traffic, "/alerts/past")["alerts"]
    assert [one["labels"]["slo"] for one in found] == ["chat-e2e", "other"]
    assert (found[0]["guilty"]["stage"], len(found[0]["slowest"])) == ("retrieve", 3)
    assert len(handed_on) == 3


def test_only_the_latest_alerts_are_kept(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    changed = keeping_past(traffic.memory, LINKS, lambda _: None)
    changed(
        made_alert(started_ns=START_NS + place, ended_ns=START_NS + SECOND_NS + place)
        for place in range(MOST_PAST + 5)
    )

    ended = [int(one["ended"] or 0) for one in traffic.evaluator.past_alerts()]
    assert ended == [START_NS + SECOND_NS + 5 + place for place in reversed(range(MOST_PAST))]
