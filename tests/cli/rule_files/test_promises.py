"""The Prometheus rules keep what the documentation promises, by the real promtool.

Silence is no recovery, an incident is one alert from its beginning to its end, whatever scrapes
fail meanwhile, and where a service tells Alertmanager itself, Prometheus does not say it again.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from latencytrace.analysis.slo.burn_promql import prometheus_rules, state
from latencytrace.cli.rule_files import tests as rule_tests
from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.model import AlertKind, BurnRule, Severity
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.servers.prometheus_programs import promtool
from tests.support.simulation.incidents import decided

pytestmark = pytest.mark.long

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


def held(folder: Path, *tests: dict[str, Any], settings: RuleSettings = SETTINGS) -> str:
    """What promtool says of tests of the rules for a month."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_document([MONTH], settings)))
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{settings.interval_ns // SECOND_NS}s",
        "tests": list(tests),
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    return promtool("test", "rules", folder / "tests.yaml")


def story(
    steps: Steps,
    expected: Iterable[dict[str, Any]],
    *more: dict[str, str],
    failing: bool = False,
    weights: Sequence[int] = (),
) -> dict[str, Any]:
    """A test of counters, where every tenth scrape fails or none does.

    Args:
        steps: Of the requests that came.
        expected: What promtool is to find.
        more: Other series.
        failing: Whether scrapes do.
        weights: How many requests each of a step stands for; none: itself.
    """
    bad, total = ([step[which] for step in steps] for which in (0, 1))
    counted = [
        [count * weight for count, weight in zip(counts, weights or [1] * len(steps), strict=True)]
        for counts in (bad, total)
    ]
    return {
        "interval": f"{SCRAPE_S}s",
        "input_series": [
            scraped("bad_requests_total", counted[0], failing=failing),
            scraped("requests_total", counted[1], failing=failing),
            scraped("came_bad_requests_total", bad, failing=failing),
            scraped("came_requests_total", total, failing=failing),
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


def test_requests_that_stand_for_many_are_weighed_and_what_is_chance_is_said_by_those_that_came(
    tmp_path: Path,
) -> None:
    """One bad request that stands for 500 is no page; twenty that stand for themselves are."""
    healthy = [*steady(HOUR, 3), *steady(HOUR, 3)]
    odd = [*healthy, (1, 1), *steady(15 * MINUTE, 3)]
    failing = [*healthy, *steady(15 * MINUTE, 4, 2)]
    tests = [
        story(
            odd, throughout(PAGE, 0, len(odd), 0),
            weights=[500 if bad else 1 for bad, _ in odd],
        ),
        story(
            failing, throughout(PAGE, len(failing) - 4, len(failing), 1),
            weights=[20] * len(failing),
        ),
        story(  # fifteen stay away for an hour: that may be chance
            sparse := [(0, int(place % 16 == 0)) for place in range(2 * HOUR)] + steady(HOUR, 0),
            throughout(QUIET, 0, len(sparse), 0), weights=[100] * len(sparse),
        ),
    ]  # fmt: skip

    assert "SUCCESS" in held(tmp_path, *tests)


# Of two days at the usual ones promtool takes a while.
FEW = replace(SETTINGS, scrape_ns=60 * SECOND_NS, interval_ns=240 * SECOND_NS)


def test_after_a_day_the_little_traffic_is_the_usual_one(tmp_path: Path) -> None:
    stays_away = 4 * 60  # scrapes
    steps = [*steady(stays_away, 10), *steady(30 * 60, 0)]
    expected = [
        {**at(QUIET, 0, count), "eval_time": f"{60 * (stays_away + 60 * hours)}s"}
        for hours, count in ((1, 1), (23, 1), (25, 0), (29, 0))
    ]
    test = {**story(steps, expected), "interval": "60s"}

    assert "SUCCESS" in held(tmp_path, test, settings=FEW)


def test_a_silence_that_comes_each_evening_is_no_news(tmp_path: Path) -> None:
    evenings = [(4 + 24 * day) * 60 for day in range(3)]  # when traffic ends, in scrapes
    days = [*steady(4 * 60, 10), *steady(20 * 60, 0)] * 3
    steps = days[: evenings[-1] + 30]
    known = [f"{60 * (evening + 20)}s" for evening in evenings]
    expected = [
        {**at(QUIET, 0, count), "eval_time": moment}
        for moment, count in zip(known, (1, 1, 0), strict=True)
    ]
    test = {**story(steps, expected), "interval": "60s"}

    assert "SUCCESS" in held(tmp_path, test, settings=FEW)


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
