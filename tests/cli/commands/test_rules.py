"""Rules for Prometheus and Grafana: real promtool takes them; they alert as the service does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from latencytrace.analysis.slo.burn_promql import prometheus_rules
from latencytrace.cli.app import app
from latencytrace.cli.rule_files.prometheus import RuleSettings, firing, rules_document
from latencytrace.errors import ObjectivesError
from latencytrace.model import AlertKind, Severity
from latencytrace.model.objective import DAY_NS
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.servers.prometheus_programs import promtool
from tests.support.simulation.incidents import decided
from tests.support.terminal import said

SCRAPE_S, EVALUATION_S = 15, 30
PER_SCRAPE = 300  # requests
WEEK = made_objective(period_ns=7 * DAY_NS)
HOUR = 240  # scrapes
SOON = 6  # scrapes after a page began
INCIDENTS = {  # of so many scrapes with such a share of bad requests
    "outage": [(2 * HOUR, 0.0), (40, 1.0), (HOUR // 2, 0.0)],
    "half": [(2 * HOUR, 0.0), (40, 0.5), (HOUR // 2, 0.0)],
    "slow": [(2 * HOUR, 0.002), (HOUR, 0.1), (HOUR // 2, 0.002)],
    "blip": [(2 * HOUR, 0.002), (4, 1.0), (HOUR // 2, 0.002)],
    "start": [(HOUR // 2, 0.08), (HOUR // 2, 0.0)],
}


def ours(*arguments: str | Path) -> str:
    """What `latencytrace rules` writes."""
    return said("rules", *arguments)


def test_the_file_is_the_argument_else_the_flag_of_the_service(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    week = objectives_yaml(tmp_path, period="7d")
    month = objectives_yaml(tmp_path / "other")

    assert ours("--objectives", week) == ours(week) != ours(month)
    assert ours(month, "--objectives", week) == ours(month)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One with rules and their tests, as the command writes them."""
    objectives = objectives_yaml(tmp_path, period="7d")
    (tmp_path / "latencytrace-rules.yaml").write_text(ours(objectives))
    tests = ours(objectives, "--format", "tests")
    (tmp_path / "tests.yaml").write_text(tests)
    return tmp_path


def test_promtool_has_nothing_against_the_rules(folder: Path) -> None:
    checked = promtool("check", "rules", "--lint-fatal", folder / "latencytrace-rules.yaml")

    assert "SUCCESS" in checked


def test_the_rules_pass_the_tests_that_come_with_them(folder: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", folder / "tests.yaml")


def test_the_tests_of_a_route_with_quotes_and_backslashes_can_be_read(tmp_path: Path) -> None:
    objectives = objectives_yaml(tmp_path, period="7d", route=r"POST /\"chat\"/\\d")
    (tmp_path / "latencytrace-rules.yaml").write_text(ours(objectives))
    (tmp_path / "tests.yaml").write_text(ours(objectives, "--format", "tests"))

    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yaml")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("> 14.4", "> 144"),
        (" * on (slo, service, route) latencytrace:slo_coverage_ratio", " + 0 *"),
    ],
    ids=["a factor", "coverage"],
)
def test_the_tests_find_what_is_wrong_in_a_rule(folder: Path, right: str, wrong: str) -> None:
    rules = folder / "latencytrace-rules.yaml"
    assert right in rules.read_text()
    rules.write_text(rules.read_text().replace(right, wrong))

    with pytest.raises(AssertionError):
        promtool("test", "rules", folder / "tests.yaml")


@pytest.mark.long
def test_prometheus_pages_when_the_service_does(tmp_path: Path) -> None:
    assert "SUCCESS" in held(tmp_path, [agreement(name, scrapes(name)) for name in INCIDENTS])


@pytest.mark.long
def test_prometheus_begins_to_page_with_the_service_at_two_requests_a_scrape(
    tmp_path: Path,
) -> None:
    rare = [few(seed) for seed in (5, 8)]

    assert [len(service_decides(steps)) for steps in rare] == [1, 1]
    alike = [agreement("few", steps, ends_alike=False) for steps in rare]
    assert "SUCCESS" in held(tmp_path, alike)


@pytest.mark.parametrize("name", INCIDENTS)
def test_incidents_page_and_what_is_none_does_not(name: str) -> None:
    assert bool(service_decides(scrapes(name))) is (name not in {"blip", "start"})


def test_objectives_of_time_slices_have_no_rules_and_it_is_told_what_to_alert_on(
    tmp_path: Path,
) -> None:
    path = objectives_yaml(tmp_path)
    counted = path.read_text()
    sliced = (
        counted.replace("chat-e2e", "minutes")
        .replace("Occurrences", "Timeslices")
        .replace("target: 0.99", "target: 0.99, timeSliceTarget: 0.95, timeSliceWindow: 1m")
    )
    path.write_text(f"{counted}---{sliced}")
    told = CliRunner().invoke(app, ["rules", str(path)], catch_exceptions=False)

    assert [one["name"] for one in yaml.safe_load(told.stdout)["groups"]] == [
        "latencytrace-chat-e2e"
    ]
    assert "minutes: no rules, for only the service judges time slices" in told.stderr
    assert 'latencytrace_slo_alert_firing{slo="minutes"} == 1' in told.stderr


def test_tiers_that_are_left_out_are_told_beside_the_rules(tmp_path: Path) -> None:
    path = objectives_yaml(tmp_path, target=0.95)
    told = CliRunner().invoke(app, ["rules", str(path)])

    assert "28.8 times over 15 min (page) can never fire" in told.stderr
    assert yaml.safe_load(told.stdout)["groups"]


def test_a_period_too_short_for_the_scrapes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ObjectivesError, match="chat-e2e: every window that would page"):
        ours(objectives_yaml(tmp_path, period="1d"), "--scrape-interval", "60")


def test_rules_are_written_for_every_objective_of_the_file(tmp_path: Path) -> None:
    path = objectives_yaml(tmp_path)
    second = path.read_text().replace("chat-e2e", "chat-again")
    path.write_text(f"{path.read_text()}---{second}")
    groups = yaml.safe_load(ours(path))["groups"]

    assert [group["name"] for group in groups] == [
        "latencytrace-chat-e2e",
        "latencytrace-chat-again",
    ]


def scrapes(name: str) -> list[tuple[int, int]]:
    """Bad and all requests between two scrapes; none before the first."""
    parts = [
        (round(PER_SCRAPE * share), PER_SCRAPE)
        for length, share in INCIDENTS[name]
        for _ in range(length)
    ]
    return [(0, 0), *parts]


def few(seed: int) -> list[tuple[int, int]]:
    """Two requests a scrape in the mean, every fifth of them bad for a while."""
    chance = np.random.default_rng(seed)
    shares = np.repeat([0.002, 0.2, 0.002], [2 * HOUR, HOUR // 3, HOUR // 3])
    total = chance.poisson(2, len(shares))
    bad = chance.binomial(total, shares)
    return [(0, 0), *zip(bad.tolist(), total.tolist(), strict=True)]


def held(folder: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool says of tests of the rules for a week."""
    settings = RuleSettings(
        scrape_ns=SCRAPE_S * SECOND_NS, interval_ns=EVALUATION_S * SECOND_NS, dashboard_url=None
    )
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_document([WEEK], settings)))
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{EVALUATION_S}s",
        "tests": tests,
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    return promtool("test", "rules", folder / "tests.yaml")


def service_decides(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The scrapes at which a page begins and ends."""
    tiers = prometheus_rules(WEEK, SCRAPE_S * SECOND_NS)
    return decided(steps, WEEK, tiers, SCRAPE_S * SECOND_NS, every=2)


def agreement(
    name: str, steps: list[tuple[int, int]], *, ends_alike: bool = True
) -> dict[str, Any]:
    """A test that holds Prometheus to what the service decides, an evaluation more or less.

    Args:
        name: Name of the test.
        steps: Bad and all requests of each scrape.
        ends_alike: False: Prometheus may be calm sooner, for it does not count how many requests
            show that an incident is over.
    """
    pages = service_decides(steps)
    bad, total = zip(*steps, strict=True)
    expression = f"count(ALERTS{{{firing(AlertKind.BURN, WEEK, Severity.PAGE)}}})"
    moments = range(0, len(steps), EVALUATION_S // SCRAPE_S)
    fires = [any(began <= moment < ended for began, ended in pages) for moment in moments]
    first = {began + later for began, _ in pages for later in range(SOON)}
    expected = [
        sample(expression, moment * SCRAPE_S, firing=now)
        for before, now, after, moment in zip(
            fires, fires[1:], fires[2:], moments[1:], strict=False
        )
        if before == now == after and (ends_alike or not now or moment in first)
    ]
    return {
        "name": name,
        "interval": f"{SCRAPE_S}s",
        "input_series": counters(bad, total),
        "promql_expr_test": expected,
    }


def counters(bad: tuple[int, ...], total: tuple[int, ...]) -> list[dict[str, str]]:
    """The counters of an objective whose requests stand for themselves."""
    return [
        _series(f"{came}{counter}", counts)
        for came in ("", "came_")
        for counter, counts in (("bad_requests", bad), ("requests", total))
    ]


def _series(counter: str, counts: tuple[int, ...]) -> dict[str, str]:
    values, sum_ = [], 0
    for count in counts:
        sum_ += count
        values.append(str(sum_))
    labels = 'slo="chat-e2e", service="rag", route="POST /chat", instance="here"'
    return {"series": f"latencytrace_slo_{counter}_total{{{labels}}}", "values": " ".join(values)}


def sample(expression: str, at_s: int, *, firing: bool) -> dict[str, Any]:
    """Whether it fires at a moment."""
    found = [{"labels": "{}", "value": 1}] if firing else []
    return {"expr": expression, "eval_time": f"{at_s}s", "exp_samples": found}
