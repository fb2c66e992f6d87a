"""The Prometheus rules keep what the documentation promises, by the real promtool.

Silence is no recovery, an incident is one alert from its beginning to its end, whatever scrapes
fail meanwhile, and where a service tells Alertmanager itself, Prometheus does not say it again.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from latencytrace.analysis.slo.burn_promql import prometheus_rules, state
from latencytrace.cli.rule_files import tests as rule_tests
from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.model import AlertKind, BurnRule, Severity
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.servers.prometheus_programs import promtool
from tests.support.simulation.incidents import decided

SCRAPE_S, EVALUATION_S = 15, 30
MINUTE = 4  # scrapes
HOUR = 60 * MINUTE
MONTH = made_objective()
FIRING = 'alertstate="firing", slo="chat-e2e", severity="page"'
PAGE = f'count(ALERTS{{alertname="LatencySLOBurn", {FIRING}}})'
QUIET = f'count(ALERTS{{alertname="LatencySLONoData", {FIRING}}})'
STATE = f"count({state(MONTH, AlertKind.BURN, Severity.PAGE)})"
LABELS = 'slo="chat-e2e", service="rag", route="POST /chat", job="latencytrace", instance="one"'
SETTINGS = RuleSettings(
    scrape_ns=SCRAPE_S * SECOND_NS, interval_ns=EVALUATION_S * SECOND_NS, dashboard_url=None
)
Steps = Sequence[tuple[int, int]]  # bad and all requests between two scrapes


def held(folder: Path, *tests: dict[str, Any]) -> str:
    """What promtool says of tests of the rules for a month."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_document([MONTH], SETTINGS)))
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{EVALUATION_S}s",
        "tests": list(tests),
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    return promtool("test", "rules", folder / "tests.yaml")


def story(
    steps: Steps, expected: Iterable[dict[str, Any]], *more: dict[str, str], failing: bool = False
) -> dict[str, Any]:
    """A test of counters, where every tenth scrape fails or none does."""
    return {
        "interval": f"{SCRAPE_S}s",
        "input_series": [
            scraped("bad_requests_total", [bad for bad, _ in steps], failing=failing),
            scraped("requests_total", [total for _, total in steps], failing=failing),
            *more,
        ],
        "promql_expr_test": list(expected),
    }


def scraped(name: str, counts: Sequence[int], *, failing: bool) -> dict[str, str]:
    """A counter's values; a scrape that fails leaves a mark of staleness."""
    values, sum_ = [], 0
    for place, count in enumerate(counts):
        sum_ += count
        values.append("stale" if failing and place % 10 == 7 else str(sum_))
    return {"series": f"latencytrace_slo_{name}{{{LABELS}}}", "values": " ".join(values)}


def of_service(name: str, values: str, labels: str = LABELS) -> dict[str, str]:
    return {"series": f"{name}{{{labels}}}", "values": values}


def at(expression: str, scrape: int, count: int) -> dict[str, Any]:
    """How many series an expression has at a scrape."""
    samples = [{"labels": "{}", "value": count}] if count else []
    return {"expr": expression, "eval_time": f"{scrape * SCRAPE_S}s", "exp_samples": samples}


def throughout(expression: str, since: int, until: int, count: int) -> list[dict[str, Any]]:
    """The same at every evaluation of a stretch."""
    first = since + since % 2
    return [at(expression, scrape, count) for scrape in range(first, until, 2)]


def steady(length: int, total: int, bad: int = 0) -> list[tuple[int, int]]:
    return [(bad, total)] * length


def service_pages(steps: Steps) -> list[tuple[int, int]]:
    """The scrapes at which the service's own pages begin and end."""
    rules = prometheus_rules(MONTH, SCRAPE_S * SECOND_NS)
    return decided(steps, MONTH, rules, SCRAPE_S * SECOND_NS, every=2)


OUTAGE = [(0, 0), *steady(HOUR, 30), *steady(10 * MINUTE, 30, 30), *steady(45 * MINUTE, 30)]
BURNT = HOUR + 10 * MINUTE  # when it is over


def test_an_incident_is_one_alert_though_every_tenth_scrape_fails(tmp_path: Path) -> None:
    [(began, ended)] = service_pages(OUTAGE)
    expected = [
        *throughout(PAGE, 0, began - 4, 0),
        *throughout(PAGE, began + 4, ended - 4, 1),
        *throughout(PAGE, ended + 6, len(OUTAGE), 0),
        *throughout(QUIET, 0, len(OUTAGE), 0),
    ]

    assert HOUR < began < ended
    assert "SUCCESS" in held(tmp_path, story(OUTAGE, expected, failing=True))


def test_its_labels_are_those_of_the_services_alert_and_who_evaluates(tmp_path: Path) -> None:
    labels = (
        '{alertname="LatencySLOBurn", slo="chat-e2e", service="rag", route="POST /chat", '
        'severity="page", evaluator="prometheus"}'
    )
    one = {
        "expr": f'ALERTS{{alertname="LatencySLOBurn", {FIRING}}}',
        "eval_time": f"{BURNT * SCRAPE_S}s",
        "exp_samples": [{"labels": f'ALERTS{{alertstate="firing", {labels[1:-1]}}}', "value": 1}],
    }

    assert "SUCCESS" in held(tmp_path, story(OUTAGE, [one]))


def test_silence_is_no_recovery_and_no_second_page(tmp_path: Path) -> None:
    silent = steady(HOUR, 0)
    steps = [*OUTAGE[:BURNT], *silent, *steady(45 * MINUTE, 30)]
    over = BURNT + len(silent)
    expected = [
        *throughout(PAGE, BURNT, over, 1),
        *throughout(PAGE, over + 25 * MINUTE, len(steps), 0),
    ]

    assert "SUCCESS" in held(tmp_path, *(story(steps, expected, failing=f) for f in (False, True)))


def test_a_good_request_in_the_silence_is_a_recovery_that_silence_does_not_take_back(
    tmp_path: Path,
) -> None:
    well = steady(6 * MINUTE, 30)
    steps = [*OUTAGE[:BURNT], *well, *steady(HOUR, 0)]
    [(_, ended)] = service_pages(steps)
    expected = [
        *throughout(PAGE, BURNT, ended - 4, 1),
        *throughout(PAGE, ended + 6, len(steps), 0),
    ]

    assert ended < len(steps)
    assert "SUCCESS" in held(tmp_path, story(steps, expected))


def test_scrapes_that_all_fail_for_minutes_are_no_recovery(tmp_path: Path) -> None:
    since, minutes = HOUR + 8 * MINUTE, 4 * MINUTE
    steps = [*OUTAGE[:BURNT], *steady(8 * MINUTE, 30, 30)]
    test = story(steps, throughout(PAGE, since, len(steps), 1))
    for series in test["input_series"]:
        values = series["values"].split()
        values[since : since + minutes] = ["stale"] * minutes
        series["values"] = " ".join(values)

    assert "SUCCESS" in held(tmp_path, test)


def test_an_outage_at_a_fiftieth_of_the_traffic_pages_within_a_quarter_of_an_hour(
    tmp_path: Path,
) -> None:
    few = [(0, 1), (0, 0), (0, 1), (0, 0), (0, 0)]  # of 30
    steps = [(0, 0), *steady(3 * HOUR, 30), *(few * (HOUR // 5)), *steady(0, 0)]
    began = len(steps)
    steps += [(total, total) for _, total in few * (20 * MINUTE // 5)]
    expected = [
        *throughout(PAGE, 0, began + 8 * MINUTE, 0),
        *throughout(PAGE, began + 15 * MINUTE, len(steps), 1),
    ]

    assert "SUCCESS" in held(tmp_path, story(steps, expected))


def test_traffic_that_collapses_is_an_alert_until_it_returns(tmp_path: Path) -> None:
    few = [(0, 1), (0, 0), (0, 1), (0, 0), (0, 0)]
    steps = [(0, 0), *steady(2 * HOUR, 30)]
    fell = len(steps)
    steps += few * (2 * HOUR // 5)
    rose = len(steps)
    steps += steady(20 * MINUTE, 30)
    expected = [
        *throughout(QUIET, 0, fell + 8 * MINUTE, 0),
        *throughout(QUIET, fell + 11 * MINUTE, rose, 1),
        *throughout(QUIET, rose + 3 * MINUTE, len(steps), 0),
        *throughout(PAGE, 0, len(steps), 0),
    ]

    assert "SUCCESS" in held(tmp_path, *(story(steps, expected, failing=f) for f in (False, True)))


def test_an_outage_that_takes_most_traffic_with_it_is_one_page(tmp_path: Path) -> None:
    few = [(1, 1), (0, 0)]  # of 30
    steps = [(0, 0), *steady(2 * HOUR, 30)]
    fell = len(steps)
    steps += few * (15 * MINUTE)
    expected = [
        *throughout(PAGE, fell + 15 * MINUTE, len(steps), 1),
        *throughout(QUIET, 0, len(steps), 0),
    ]

    assert "SUCCESS" in held(tmp_path, story(steps, expected))


def test_prometheus_is_quiet_while_a_service_tells_alertmanager_and_speaks_when_it_is_gone(
    tmp_path: Path,
) -> None:
    [(began, ended)] = service_pages(OUTAGE)
    gone = BURNT - 4
    present = " ".join(["0"] * gone + ["stale"] * (len(OUTAGE) - gone))
    told = [
        of_service("latencytrace_slo_target_ratio", present),
        of_service(
            "latencytrace_service_notices_waiting",
            present,
            'sink="alertmanager", job="latencytrace", instance="one"',
        ),
    ]
    expected = [
        *throughout(STATE, began + 4, ended - 4, 1),
        *throughout(PAGE, 0, gone + 2 * MINUTE, 0),
        *throughout(PAGE, gone + 4 * MINUTE, ended - 4, 1),
    ]

    assert began + 4 < gone
    assert gone + 5 * MINUTE < ended
    assert "SUCCESS" in held(tmp_path, story(OUTAGE, expected, *told))


def test_a_service_that_does_not_get_through_or_tells_others_does_not_keep_prometheus_quiet(
    tmp_path: Path,
) -> None:
    [(began, ended)] = service_pages(OUTAGE)
    target = of_service("latencytrace_slo_target_ratio", f"0.99x{len(OUTAGE)}")
    tests = [
        story(
            OUTAGE,
            throughout(PAGE, began + 4, ended - 4, 1),
            target,
            of_service("latencytrace_service_notices_waiting", values, labels),
        )
        for values, labels in (
            ("1 " * len(OUTAGE), 'sink="alertmanager", job="latencytrace", instance="one"'),
            ("0 " * len(OUTAGE), 'sink="alertmanager", job="latencytrace", instance="other"'),
            ("0 " * len(OUTAGE), 'sink="webhook", job="latencytrace", instance="one"'),
        )
    ]

    assert "SUCCESS" in held(tmp_path, *tests)


def test_an_objective_of_another_receiver_is_told_by_prometheus() -> None:
    slack, both = (
        json.dumps(rules_document([replace(MONTH, receivers=receivers)], SETTINGS))
        for receivers in (("slack",), ("slack", "alertmanager"))
    )

    assert ("unless on (slo)" in slack, "unless on (slo)" in both) == (False, True)


def test_an_objective_that_never_pages_has_rules_and_no_tests(tmp_path: Path) -> None:
    day_ns = 24 * 3600 * SECOND_NS
    ticket = BurnRule(
        factor=1,
        long_ns=3 * day_ns,
        severity=Severity.TICKET,
        least_ratio=0.5,
        longest_pause_ns=day_ns // 4,
    )
    objective = replace(MONTH, name="tickets", tiers=(ticket,))
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(rules_document([objective], SETTINGS)))

    assert "SUCCESS" in promtool("check", "rules", rules)
    tests = rule_tests.tests_document([objective, MONTH], SETTINGS, "rules.yaml")
    assert "tickets" not in json.dumps(tests)
    assert rule_tests.tests_document([objective], SETTINGS, "rules.yaml")["tests"]
