"""The texts of alerts of Prometheus and Grafana, by the real promtool."""

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from latencytrace.cli.rule_files.grafana import grafana_document
from latencytrace.cli.rule_files.prometheus import RuleSettings, annotations, rules_document
from latencytrace.model import Calendar, Objective
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.servers.prometheus_programs import promtool

SETTINGS = RuleSettings(
    scrape_ns=15 * SECOND_NS, interval_ns=30 * SECOND_NS, dashboard_url="http://grafana/d/slo"
)
WEEK = made_objective(period_ns=7 * DAY_NS)
EACH = made_objective(name="each", route=None, period_ns=7 * DAY_NS)  # as rules have each route
BURNS = 'latencytrace:slo_burn_rate{{{}, window="14m"}}'
BURNING = "is burning its error budget 18.0\N{MULTIPLICATION SIGN} too fast"
FIRES = 'latencytrace:slo_alert_firing{{{}, alertname="LatencySLOBurn", severity="page"}}'
LEFT = 'latencytrace:slo_budget_left_ratio{{{}, window="7d"}}'


def page_says(objective: Objective, route: str, left: str) -> dict[str, Any]:
    """The page of a route, with what promtool is to find in its texts."""
    said = {
        "summary": f"{objective.name}: {route} {BURNING}",
        "description": (
            f"Promised: 99 % of {route} have duration within 2 s over 7 d. Budget left: {left}. "
            "Slow stage, slow requests and links: GET /api/v1/alerts of the service."
        ),
        "dashboard_url": f"http://grafana/d/slo?var-slo={objective.name}",
    }
    labels = {"slo": objective.name, "service": "rag", "route": route}
    labels |= {"severity": "page", "evaluator": "prometheus"}
    return {"exp_labels": labels, "exp_annotations": said}


def held(folder: Path, objective: Objective, left_of: dict[str, str], *pages: object) -> str:
    """What promtool says of the pages that fire where each route has so much budget left."""
    [group] = cast("Any", rules_document([objective], SETTINGS)["groups"])
    alerts = [rule for rule in group["rules"] if "alert" in rule]
    document = {"groups": [{"name": "alerts", "rules": alerts}]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(document))
    series = []
    for route, left in left_of.items():
        labels = f'slo="{objective.name}", service="rag", route=\'{route}\''
        for name, value in ((BURNS, "18"), (FIRES, "1"), (LEFT, left)):
            series.append({"series": name.format(labels), "values": f"{value}x20"})
    test = {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [
            {"eval_time": "5m", "alertname": "LatencySLOBurn", "exp_alerts": list(pages)}
        ],
    }
    (folder / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]})
    )
    return promtool("test", "rules", folder / "tests.yaml")


def test_the_page_of_one_of_many_routes_names_it_and_its_budget(tmp_path: Path) -> None:
    left_of = {"GET /bad": "-2", 'GET /"fine"': "0.9"}
    pages = [page_says(EACH, "GET /bad", "-200%"), page_says(EACH, 'GET /"fine"', "90%")]

    assert "SUCCESS" in held(tmp_path, EACH, left_of, *pages)


def test_a_page_of_one_route_names_that(tmp_path: Path) -> None:
    page = page_says(WEEK, "POST /chat", "50%")

    assert "SUCCESS" in held(tmp_path, WEEK, {"POST /chat": "0.5"}, page)


def test_a_calendars_budget_is_said_to_roll() -> None:
    monthly = Calendar(start="2026-01-01T00:00:00", zone="UTC", months=1)
    objective = made_objective(calendar=monthly, period_ns=31 * DAY_NS)
    said = annotations(objective, SETTINGS)["description"]

    assert "over each calendar month. Budget left of the last 31 d, for it rolls here," in said


@pytest.mark.parametrize(
    ("objective", "of"),
    [
        (WEEK, "POST /chat"),
        (EACH, "{{ with $$labels.route }}{{ . }}{{ else }}rag{{ end }}"),
    ],
    ids=["one route", "each route"],
)
def test_grafanas_summary_names_the_route(objective: Objective, of: str) -> None:
    [group] = cast("Any", grafana_document([objective], SETTINGS, "prometheus")["groups"])
    said = [rule["annotations"]["summary"] for rule in group["rules"]]

    assert all(text.startswith(f"{objective.name}: {of}: LatencySLO") for text in said)
