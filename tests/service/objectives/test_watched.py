"""Objectives that change while they are watched, and those of each route of a service."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.model import Objective, RequestStatus, Severity
from latencytrace.model.objective import DAY_NS, EACH_ROUTE, NO_LIMIT_NS, BurnRule
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.counts import ObjectiveIndex
from latencytrace.service.objectives.metrics import ObjectiveMetrics
from latencytrace.service.objectives.watched import MAX_ROUTES
from latencytrace.service.web.views.objectives import objectives_document
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.made_requests import made_request
from tests.support.builders.made_tables import made_table
from tests.support.builders.traffic import GOOD, SLOW, Traffic, stamped
from tests.support.tables.ledger_tables import tables_of

EACH = made_objective(name="each", route=EACH_ROUTE)


def totals(traffic: Traffic) -> dict[str | None, tuple[int, int]]:
    traffic.tick()
    return {one.objective.route: (one.bad, one.total) for one in traffic.evaluator.standings()}


def series(traffic: Traffic, name: str) -> dict[tuple[str, str], float]:
    """The values of a metric by objective and route."""
    families = ObjectiveMetrics(traffic.evaluator).collect()
    samples = [one for family in families for one in family.samples if one.name == name]
    return {(one.labels["slo"], one.labels["route"]): one.value for one in samples}


def taken_up(traffic: Traffic, objectives: Sequence[Objective]) -> None:
    traffic.evaluator.replace(objectives)
    traffic.objectives = tuple(objectives)


def test_an_objective_of_each_route_counts_each_for_itself(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH)
    traffic.one(route="POST /chat")
    traffic.one(SLOW, route="POST /embed")
    traffic.one(route="POST /embed")
    traffic.one(route="POST /chat", service="another")

    assert totals(traffic) == {"POST /chat": (0, 1), "POST /embed": (1, 2)}


def test_a_table_counts_each_route_as_its_requests_do(tmp_path: Path) -> None:
    table = made_table(7, 60)
    each = [
        replace(EACH, name=name, service=name) for name in {one.service for one in table.roots}
    ]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    by_table, one_by_one = Traffic(tmp_path / "a", *each), Traffic(tmp_path / "b", *each)
    by_table.evaluator.count(Settled(tables=[table], until_ns=1))
    for request in table.requests():
        one_by_one.evaluator.count(Settled(tables=tables_of([request]), until_ns=1))

    def counted(traffic: Traffic) -> set[tuple[str, str | None, int, int]]:
        return {
            (objective.name, objective.route, tally.bad, tally.total)
            for objective, tally in traffic.evaluator.watched.since_start()
        }

    assert counted(by_table) == counted(one_by_one)
    assert len(counted(by_table)) > 1


def test_each_route_goes_on_after_a_restart(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH)
    traffic.one(SLOW, route="POST /embed")
    traffic.tick()
    traffic.restart()

    assert totals(traffic) == {"POST /embed": (1, 1)}


def test_a_route_that_was_silent_for_a_period_is_let_go(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH)
    traffic.one(route="POST /embed")
    traffic.tick()
    traffic.restart(down_s=32 * DAY_NS / 1e9)

    assert totals(traffic) == {}


def test_routes_without_end_are_bounded_and_counted(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH)
    for number in range(MAX_ROUTES + 3):
        traffic.one(route=f"GET /{number}")

    assert len(totals(traffic)) == MAX_ROUTES
    assert traffic.evaluator.watched.left_out == 3


def test_each_route_alerts_for_itself_and_names_it(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH)
    for _ in range(60):
        traffic.move(60)
        for _ in range(15):
            traffic.one(route="POST /chat")
            traffic.one(SLOW, route="POST /embed")
        traffic.tick()

    assert {alert.labels["route"] for alert in traffic.heard} == {"POST /embed"}


def test_requests_of_each_route_keep_their_spans() -> None:
    index = ObjectiveIndex([EACH])

    [table] = tables_of([made_request(duration_ns=9 * SECOND_NS, route="any")])
    assert index.violated_in(table).all()


def test_an_objective_that_is_added_counts_from_then_on(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one()
    taken_up(traffic, [made_objective(), made_objective(name="embed", route="POST /embed")])
    traffic.one(route="POST /embed")

    assert totals(traffic) == {"POST /chat": (0, 1), "POST /embed": (0, 1)}


def test_an_objective_whose_target_changes_keeps_its_counts(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one(SLOW)
    taken_up(traffic, [made_objective(target_ratio=0.999)])
    traffic.one(SLOW)

    assert totals(traffic) == {"POST /chat": (2, 2)}
    assert traffic.evaluator.standings()[0].objective.target_ratio == 0.999
    [(_, since_start)] = traffic.evaluator.watched.since_start()
    assert since_start.total == 2


def test_an_objective_whose_period_changes_keeps_its_counts(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one(SLOW)
    traffic.tick()
    traffic.one(SLOW)
    taken_up(traffic, [made_objective(period_ns=7 * DAY_NS)])
    traffic.one(SLOW)

    assert totals(traffic) == {"POST /chat": (3, 3)}
    traffic.restart()
    assert totals(traffic) == {"POST /chat": (3, 3)}


def test_an_objective_whose_threshold_changes_counts_anew(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.one(SLOW)
    taken_up(traffic, [made_objective(threshold_ns=9 * SECOND_NS)])
    traffic.one(SLOW)

    assert totals(traffic) == {"POST /chat": (0, 1)}


def test_an_alert_goes_on_where_its_objective_is_still_there(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(60, tick_s=60)
    traffic.run(20, bad_ratio=1, tick_s=60)
    before = traffic.names()
    taken_up(traffic, [made_objective(), made_objective(name="second")])
    traffic.run(2, bad_ratio=1, tick_s=60)

    assert before == ["LatencySLOBurn/page began"]
    [alert] = [one for one in traffic.evaluator.alerts() if one.labels["slo"] == "chat-e2e"]
    assert alert.started_ns == traffic.heard[0].started_ns


def test_an_alert_ends_with_the_reason_where_its_objective_leaves_the_file(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    traffic.run(60, tick_s=60)
    traffic.run(20, bad_ratio=1, tick_s=60)
    taken_up(traffic, [made_objective(name="second")])
    traffic.tick()

    assert traffic.names() == ["LatencySLOBurn/page began", "LatencySLOBurn/page ended"]
    assert traffic.heard[-1].end_reason == "the objective left the file"
    traffic.restart()
    traffic.tick()
    assert len(traffic.heard) == 2


def test_the_tiers_that_a_file_names_are_those_that_alert(tmp_path: Path) -> None:
    tier = BurnRule(
        factor=2,
        long_ns=3600 * 10**9,
        severity=Severity.TICKET,
        least_ratio=0.5,
        longest_pause_ns=300 * 10**9,
    )
    traffic = Traffic(tmp_path, made_objective(tiers=(tier,)))
    traffic.run(120, tick_s=60)
    traffic.run(60, bad_ratio=0.5, tick_s=60)

    assert traffic.names() == ["LatencySLOBurn/ticket began"]
    traffic.restart()
    assert [one.severity for one in traffic.evaluator.alerts()] == [Severity.TICKET]


def test_only_failures_violate_an_objective_of_availability(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, made_objective(threshold_ns=NO_LIMIT_NS))
    traffic.one(SLOW)
    traffic.one(status=RequestStatus.ERROR)
    traffic.one(status=RequestStatus.CANCELLED)

    assert totals(traffic) == {"POST /chat": (1, 2)}
    traffic.restart()
    assert totals(traffic) == {"POST /chat": (1, 2)}


@pytest.mark.long
def test_tiers_of_one_factor_keep_a_state_each(tmp_path: Path) -> None:
    hour_ns = 3600 * 10**9
    tiers = tuple(
        BurnRule(
            factor=2,
            long_ns=long_ns,
            severity=severity,
            least_ratio=0.5,
            longest_pause_ns=long_ns // 12,
        )
        for long_ns, severity in ((hour_ns, Severity.PAGE), (24 * hour_ns, Severity.TICKET))
    )
    objective = made_objective(tiers=tiers)
    traffic = Traffic(tmp_path, objective)
    traffic.run(30 * 60, tick_s=60)
    traffic.run(4 * 60, bad_ratio=0.2, tick_s=60)
    traffic.run(90, tick_s=60)
    before = [one.severity for one in traffic.evaluator.alerts()]
    said = len(traffic.heard)
    taken_up(traffic, [objective])
    traffic.run(5, tick_s=60)
    traffic.restart()
    traffic.run(5, tick_s=60)

    assert before == [Severity.TICKET]
    assert traffic.names()[said:] == []


def test_a_service_that_is_watched_route_by_route_now_is_no_route_of_it(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, made_objective(name="each", route=None))
    traffic.one(route="/a")
    traffic.tick()
    traffic.objectives = (made_objective(name="each", route=EACH_ROUTE),)
    taken_up(traffic, traffic.objectives)
    traffic.one(route="/b")
    reloaded = totals(traffic).keys()
    traffic.restart()

    assert reloaded == {"/b"}
    assert totals(traffic).keys() == {"/b"}


def test_an_alert_of_one_route_is_not_that_of_another(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, made_objective(name="each", route=EACH_ROUTE))
    for minute in range(60):
        traffic.count([stamped(GOOD, traffic.wall(), route=route) for route in ("/a", "/b")] * 60)
        if minute >= 40:
            traffic.count([stamped(SLOW, traffic.wall(), route="/a")] * 600)
        traffic.move(60)
        traffic.tick()

    families = ObjectiveMetrics(traffic.evaluator).collect()
    samples = [one for family in families for one in family.samples]
    firing = {
        one.labels["route"]: one.value
        for one in samples
        if one.name == "latencytrace_slo_alert_firing"
        and one.labels["alertname"] == "LatencySLOBurn"
        and one.labels["severity"] == "page"
    }
    assert firing == {"/a": 1, "/b": 0}


def test_what_an_objective_promises_is_told(tmp_path: Path) -> None:
    promised = made_objective(target_ratio=0.995, threshold_ns=3 * SECOND_NS // 2)
    traffic = Traffic(tmp_path, promised)

    labels = ("chat-e2e", "POST /chat")
    assert series(traffic, "latencytrace_slo_threshold_seconds") == {labels: 1.5}
    assert series(traffic, "latencytrace_slo_target_ratio") == {labels: 0.995}


def test_an_objective_of_each_route_is_listed_before_its_first_request(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH)
    traffic.tick()
    [waiting] = objectives_document(traffic.evaluator)["objectives"]
    traffic.one(route="/a")
    traffic.tick()
    found = objectives_document(traffic.evaluator)["objectives"]

    assert (waiting["route"], waiting["requests"]) == ("*", 0)
    assert (waiting["budget_left_ratio"], waiting["last_request"]) == (None, None)
    assert {rate["long"] for rate in waiting["burn_rates"]} == {None}
    assert [one["route"] for one in found] == ["/a"]


def test_the_service_says_what_it_watches_before_the_first_request(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path, EACH, made_objective())
    started = series(traffic, "latencytrace_slo_watched")
    traffic.one(route="/a")
    traffic.tick()
    taken_up(traffic, [EACH])

    assert started == {("each", "*"): 1, ("chat-e2e", "POST /chat"): 1}
    assert series(traffic, "latencytrace_slo_watched") == {("each", "*"): 1}
