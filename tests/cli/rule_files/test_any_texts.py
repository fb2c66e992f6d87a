"""Any text of an objective comes through rules as it is, by the real promtool and amtool."""

import subprocess
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.cli.commands.rules import checked, yaml_text
from latencytrace.cli.rule_files import tests as rule_tests
from latencytrace.cli.rule_files.grafana import grafana_document
from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.errors import LatencytraceError
from latencytrace.model import Objective
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.servers.prometheus_programs import program, promtool

BURNING = "is burning its error budget 18.0\N{MULTIPLICATION SIGN} too fast"
SETTINGS = RuleSettings(
    scrape_ns=15 * SECOND_NS, interval_ns=30 * SECOND_NS, dashboard_url="http://g/d/{{slo}}?a={b"
)
PIECES = (
    "{", "}", "{{", "}}", "{{ path }}", "{{.}}", "`", '"', "'", "\\", "$", "$$", "$labels", "%q",
    "/*", "*/", "{{/*", "{{-", "-}}", "|", "#", ": ", "- ", "&", "*", "!", "~", ".*", "(", "[",
    " ", "\t", "\n", "é", "日本", "\U0001f600", "\u200b", "\u202e", "\u2028", "\x85", "\x7f", "a",
    "POST /", "null", "\ufeff",
)  # fmt: skip
MANY = 100  # objectives of one file; `promtool` tests them one by one


def made_texts(random: Random) -> str:
    text = "".join(random.choice(PIECES) for _ in range(random.randint(1, 8)))
    return text.strip() or "a"


def made(random: Random, number: int) -> Objective:
    each = random.random() < 0.3
    return made_objective(
        name=f"slo-{number}",
        service=made_texts(random),
        route=None if each else made_texts(random),
        period_ns=7 * DAY_NS,
    )


def drawn(seed: int, count: int) -> list[Objective]:
    random = Random(seed)
    return [made(random, number) for number in range(count)]


def test_prometheus_takes_rules_with_any_texts(tmp_path: Path) -> None:
    objectives = drawn(7, MANY)
    document = rules_document(objectives, SETTINGS)
    (tmp_path / "rules.yaml").write_text(checked(yaml_text(document), document, are_rules=False))

    said = promtool("check", "rules", tmp_path / "rules.yaml")

    assert "SUCCESS" in said


def test_alerts_carry_any_texts_as_they_are(tmp_path: Path) -> None:
    objectives = drawn(11, MANY)
    groups = cast("Any", rules_document(objectives, SETTINGS)["groups"])
    alerts = [
        {"name": group["name"], "rules": [one for one in group["rules"] if "alert" in one]}
        for group in groups
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": alerts}))
    tests = [
        {
            "interval": "1m",
            "input_series": [],
            "alert_rule_test": [
                {
                    "eval_time": "20m",
                    "alertname": "LatencySLOAbsent",
                    "exp_alerts": [*map(gone, objectives)],
                }
            ],
        }
    ]
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests})
    )

    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yaml")


def gone(objective: Objective) -> dict[str, object]:
    """The alert that no service watches an objective."""
    labels = {"slo": objective.name, "service": objective.service, "severity": "page"}
    if objective.route:
        labels["route"] = objective.route
    return {
        "exp_labels": labels,
        "exp_annotations": {
            "summary": f"{objective.name}: no service that Prometheus scrapes watches it",
            "description": "Is the service up, scraped, and given the file of objectives?",
        },
    }


def test_a_burning_objective_of_any_text_names_it(tmp_path: Path) -> None:
    objectives = [one for one in drawn(13, 40) if one.route]
    groups = cast("Any", rules_document(objectives, SETTINGS)["groups"])
    alerts = [
        {"name": group["name"], "rules": [one for one in group["rules"] if "alert" in one]}
        for group in groups
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": alerts}))
    series: list[dict[str, str]] = []
    fires = 'latencytrace:slo_alert_firing{{{}, alertname="LatencySLOBurn", severity="page"}}'
    for one in objectives:
        labels = ", ".join(
            f"{name}={quoted(text)}"
            for name, text in (
                ("slo", one.name),
                ("service", one.service),
                ("route", one.route or ""),
            )
        )
        burns = f'latencytrace:slo_burn_rate{{{labels}, window="14m"}}'
        left = f'latencytrace:slo_budget_left_ratio{{{labels}, window="7d"}}'
        for name, value in ((burns, "18"), (fires.format(labels), "1"), (left, "0.5")):
            series.append({"series": name, "values": f"{value}x20"})
    test = {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [
            {
                "eval_time": "5m",
                "alertname": "LatencySLOBurn",
                "exp_alerts": [*map(burning, objectives)],
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]})
    )

    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yaml")


def burning(objective: Objective) -> dict[str, object]:
    """The page of an objective that burns."""
    of = objective.route
    labels = {"slo": objective.name, "service": objective.service, "route": of}
    return {
        "exp_labels": {**labels, "severity": "page", "evaluator": "prometheus"},
        "exp_annotations": {
            "summary": f"{objective.name}: {of} {BURNING}",
            "description": (
                f"Promised: 99 % of {of} have duration within 2 s over 7 d. Budget left: 50%. "
                "Slow stage, slow requests and links: GET /api/v1/alerts of the service."
            ),
            "dashboard_url": f"{SETTINGS.dashboard_url}&var-slo={objective.name}",
        },
    }


def quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip))
def test_what_is_written_is_what_was_meant(text: str) -> None:
    objective = made_objective(service=text, route=text, period_ns=7 * DAY_NS)
    for document in (
        rules_document([objective], SETTINGS),
        grafana_document([objective], SETTINGS, "prometheus"),
        rule_tests.tests_document([objective], SETTINGS, "rules.yaml"),
    ):
        checked(yaml_text(document), document, are_rules=False)


@pytest.mark.parametrize("text", ["{{", "{{ . ", '{{ "a }}', "a {{ b }} {{"])
def test_a_template_that_is_none_is_not_written(text: str) -> None:
    document: dict[str, object] = {"rules": [{"alert": "a", "labels": {"b": text}}]}

    with pytest.raises(LatencytraceError, match="is no template"):
        checked(yaml_text(document), document, are_rules=False)


def test_rules_that_promtool_refuses_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(program("promtool")).parent))
    document: dict[str, object] = {
        "groups": [{"name": "a", "rules": [{"record": "b", "expr": "sum("}]}]
    }

    with pytest.raises(LatencytraceError, match="promtool refuses"):
        checked(yaml_text(document), document, are_rules=True)


def test_amtool_takes_a_silence_of_any_text() -> None:
    for one in drawn(17, 40):
        matcher = f"service={quoted(one.service)}"
        done = subprocess.run(
            [program("amtool"), "config", "routes", "test", "--config.file=/dev/stdin", matcher],
            input=b"route: {receiver: a}\nreceivers: [{name: a}]\n",
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (one.service, done.stdout, done.stderr)
