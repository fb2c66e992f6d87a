"""Rules for Grafana's own alerting: in the format it provisions, and right on a real Prometheus.

What Grafana takes is in its source: `pkg/services/provisioning/alerting/rules_types.go`,
`values.go` and `pkg/services/ngalert/store/alert_rule.go` (read as of version 13).
"""

import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from latencytrace.cli.rule_files.grafana import grafana_document
from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.model import Objective
from latencytrace.model.objective import DAY_NS
from tests.cli.commands.test_rules import (
    HOUR,
    SCRAPE_S,
    WEEK,
    counters,
    ours,
    scrapes,
    service_decides,
)
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.servers.prometheus_programs import promtool

SETTINGS = RuleSettings(
    scrape_ns=SCRAPE_S * SECOND_NS, interval_ns=30 * SECOND_NS, dashboard_url=None
)
DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+")
GROUP_FIELDS = {"orgId", "name", "folder", "interval", "rules"}
RULE_FIELDS = {
    "uid", "title", "condition", "data", "dashboardUid", "panelId", "noDataState",
    "execErrState", "for", "keepFiringFor", "missing_series_evals_to_resolve", "annotations",
    "labels", "isPaused", "notification_settings", "record",
}  # fmt: skip
QUERY_FIELDS = {"refId", "queryType", "relativeTimeRange", "datasourceUid", "model"}
RESERVED = {"alertname", "grafana_folder"}  # Grafana's own: it ignores a rule's
LABELS = '{slo="chat-e2e", service="rag", route="POST /chat"}'


@pytest.fixture
def rules(tmp_path: Path) -> list[dict[str, Any]]:
    """Those of one objective, as the command writes them."""
    text = ours(objectives_yaml(tmp_path), "--format", "grafana", "--datasource", "prom-1")
    [group] = yaml.safe_load(text)["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_a_group_has_the_fields_that_grafana_reads(tmp_path: Path) -> None:
    document = yaml.safe_load(ours(objectives_yaml(tmp_path), "--format", "grafana"))

    assert document.keys() == {"apiVersion", "groups"}
    assert document["apiVersion"] == 1
    assert all(group.keys() == GROUP_FIELDS for group in document["groups"])


@pytest.mark.parametrize(
    ("asked_s", "written"),
    [("15", "20s"), ("30", "30s"), ("1", "10s"), ("61", "70s"), ("60", "1m")],
)
def test_an_interval_is_a_multiple_of_what_grafana_starts_with(
    tmp_path: Path, asked_s: str, written: str
) -> None:
    text = ours(objectives_yaml(tmp_path), "--format", "grafana", "--interval", asked_s)
    [group] = yaml.safe_load(text)["groups"]

    assert group["interval"] == written


def test_a_rule_has_fields_that_grafana_reads_and_values_it_takes(
    rules: list[dict[str, Any]],
) -> None:
    lengths = [rule[name] for rule in rules for name in ("for", "keepFiringFor") if name in rule]

    assert all(rule.keys() <= RULE_FIELDS for rule in rules)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", rule["uid"]) for rule in rules)
    assert all(len(rule["title"]) <= 190 for rule in rules)
    assert {rule["noDataState"] for rule in rules} <= {"Alerting", "NoData", "OK", "KeepLast"}
    assert {rule["execErrState"] for rule in rules} <= {"Alerting", "Error", "OK", "KeepLast"}
    assert all(DURATION.fullmatch(length) for length in lengths)


def test_rules_of_several_objectives_have_titles_and_ids_of_their_own() -> None:
    rules = made(WEEK, made_objective(name="again"))

    assert len(rules) == 8
    assert len({rule["uid"] for rule in rules}) == len({rule["title"] for rule in rules}) == 8


def test_a_condition_is_a_threshold_over_an_instant_query(rules: list[dict[str, Any]]) -> None:
    queries = [rule["data"][0] for rule in rules]
    conditions = [rule["data"][1] for rule in rules]

    assert all(query.keys() <= QUERY_FIELDS for query in queries + conditions)
    assert {query["datasourceUid"] for query in queries} == {"prom-1"}
    assert all(query["model"]["instant"] for query in queries)
    assert all(promql_parser.parse(query["model"]["expr"]) for query in queries)
    assert {(one["datasourceUid"], one["model"]["type"]) for one in conditions} == {
        ("__expr__", "threshold")
    }
    assert all(
        (rule["condition"], rule["data"][1]["model"]["expression"])
        == (rule["data"][1]["refId"], rule["data"][0]["refId"])
        for rule in rules
    )


def test_no_label_is_one_of_grafanas_own(rules: list[dict[str, Any]]) -> None:
    assert all(RESERVED.isdisjoint(rule["labels"]) for rule in rules)
    assert [rule["labels"]["alert"] for rule in rules] == [
        "LatencySLOBurn", "LatencySLOBurn", "LatencySLONoData", "LatencySLOAbsent",
    ]  # fmt: skip


def test_a_dollar_in_a_route_is_no_variable_of_grafanas(tmp_path: Path) -> None:
    text = ours(objectives_yaml(tmp_path, route="GET /$id"), "--format", "grafana")
    [group] = yaml.safe_load(text)["groups"]

    assert {rule["labels"]["route"] for rule in group["rules"]} == {"GET /$$id"}
    assert "GET /$$id" in group["rules"][0]["annotations"]["summary"]


def test_what_is_kept_firing_for_a_short_period_is_a_duration_too() -> None:
    rules = made(made_objective(period_ns=DAY_NS))

    assert all(DURATION.fullmatch(rule.get("keepFiringFor", "0s")) for rule in rules)


def test_grafana_finds_what_the_service_pages_for(tmp_path: Path) -> None:
    [(began, ended)] = service_decides(scrapes("slow"))
    page, ticket, *_ = expressions()
    document = promtool_test("slow", [
        (page, began - 4, 0),
        (page, began + 2, 1),
        (ticket, began + 2, 0),
        (page, ended, 0),
    ])  # fmt: skip

    assert "SUCCESS" in promtool_says(tmp_path, document)


@pytest.mark.long
def test_grafana_finds_silence_and_absence(tmp_path: Path) -> None:
    *_, silence, absence = expressions()
    bad, total = zip(*scrapes("blip"), strict=True)
    stands = len(total) + 4 * 13  # the last scrape stands for five minutes; ten are silence
    tests = [
        {
            "name": "silence",
            "interval": f"{SCRAPE_S}s",
            "input_series": [stopped(counter) for counter in counters(bad, total)],
            "promql_expr_test": [at(silence, HOUR, 0), at(silence, stands, 1)],
        },
        {
            "name": "absence",
            "interval": f"{SCRAPE_S}s",
            "input_series": [],
            "promql_expr_test": [
                {"expr": absence, "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]}
            ],
        },
    ]  # fmt: skip

    assert "SUCCESS" in promtool_says(tmp_path, *tests)


def expressions() -> list[str]:
    """What Grafana asks for: pages, tickets, silence, absence."""
    return [rule["data"][0]["model"]["expr"] for rule in made(WEEK)]


def made(*objectives: Objective) -> list[dict[str, Any]]:
    """The rules of objectives."""
    document: dict[str, Any] = grafana_document(objectives, SETTINGS, "prometheus")
    return [rule for group in document["groups"] for rule in group["rules"]]


def promtool_test(name: str, found: list[tuple[str, int, int]]) -> dict[str, Any]:
    """What expressions are at scrapes of an incident."""
    bad, total = zip(*scrapes(name), strict=True)
    return {
        "name": name,
        "interval": f"{SCRAPE_S}s",
        "input_series": counters(bad, total),
        "promql_expr_test": [at(*one) for one in found],
    }


def at(expression: str, scrape: int, value: int) -> dict[str, Any]:
    """What an expression is at a scrape."""
    samples = [{"labels": LABELS, "value": value}]
    return {"expr": expression, "eval_time": f"{scrape * SCRAPE_S}s", "exp_samples": samples}


def stopped(counter: dict[str, str]) -> dict[str, str]:
    """A counter that goes on being scraped, and stands still."""
    last = counter["values"].split()[-1]
    return {**counter, "values": f"{counter['values']} {last}x{10 * HOUR // 24}"}


def promtool_says(folder: Path, *tests: dict[str, Any]) -> str:
    """What promtool says of tests, beside what Prometheus records."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_document([WEEK], SETTINGS)))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": list(tests)}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    return promtool("test", "rules", folder / "tests.yaml")
