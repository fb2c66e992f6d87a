"""Dashboards: made by their generator, asking for what there is, as Grafana's linter wants them.

The rules of the linter (github.com/grafana/dashboard-linter) that are held here: template
data source, job and instance; PromQL of variables, reloaded with the time; each panel's data
source, title, description, unit and targets; PromQL, rate interval, job and instance matchers
of each target; counters only under a rate; dashboards that are not edited.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from dashboards.generate.all_dashboards import DASHBOARDS, file_text
from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS
from tests.support.builders.made_objectives import made_objective
from tests.support.over_all import over_all
from tests.support.repository.dashboard_files import (
    FILES,
    ROOT,
    Query,
    all_queries,
    dashboard,
    filled,
    names_in,
    panels,
    variables,
)
from tests.support.repository.known_metrics import labels_of_metrics
from tests.support.repository.promql import Selector, grouped_labels, selectors
from tests.support.servers.prometheus_programs import promtool

RATE_INTERVAL = timedelta(minutes=17)  # no number that a query would hold by itself
PLAIN = {"quantile": "0.99", "__rate_interval": "17m", "__range": "19m"}
OF_PROMETHEUS = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}  # made by a scrape
LEFT_TO_OTHERS = {  # of what the service says of itself
    "latencytrace_agent_report_age_seconds",  # `doctor` says it; who is overdue is soon left out
    "latencytrace_service_attributed_traces_total",  # by which of two ways: nobody acts on it
    "latencytrace_service_clock_jumps_total",
    "latencytrace_service_engine_models_left_out",
    "latencytrace_service_expired_partitions_total",  # as the settings ask
    "latencytrace_service_expired_rows_total",
}
UNITS = {
    *("none", "short", "percentunit", "bytes", "s", "suffix:d", "cps", "reqps", "locale"),
    *("watt", "celsius", "hertz", "Bps", "count:tokens/s", "count:spans/s"),
}
QUERIES = list(all_queries())
PANELS = [(path, panel) for path in FILES for panel in panels(path)]

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
every_query = over_all("query", QUERIES)
every_panel = over_all("panel", [panel for _, panel in PANELS], lambda panel: str(panel["title"]))


def parsable(query: Query) -> str:
    return filled(query.expr, PLAIN)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every series that a Prometheus would have: its name → its labels."""
    found = {
        name: {*own, "job", "instance"}
        for name, own in labels_of_metrics(tmp_path_factory.mktemp("data")).items()
    }
    return {**found, **{name: {"job", "instance"} for name in OF_PROMETHEUS}}


def test_the_files_are_what_the_generator_makes() -> None:
    folder = ROOT / "dashboards"
    held = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*.json")
    }

    made = {f"{name}.json": file_text(made) for name, made in DASHBOARDS.items()}
    assert held == made, "run `make dashboards`"


def test_dashboards_are_told_apart_for_ever() -> None:
    uids = {path.stem: dashboard(path)["uid"] for path in FILES}

    assert uids == {name: f"latencytrace-{name}" for name in uids}


@every_file
def test_a_dashboard_has_one_data_source_to_choose(path: Path) -> None:
    ((name, chosen),) = variables(path, "datasource").items()

    assert (name, chosen["label"], chosen["query"]) == ("datasource", "Data source", "prometheus")


@every_file
@pytest.mark.parametrize("name", ["job", "instance"])
def test_what_was_scraped_can_be_chosen(path: Path, name: str) -> None:
    variable = variables(path)[name]

    assert variable["label"] == name.capitalize()
    assert variable["multi"]
    assert variable["allValue"] == ".+"


@every_file
def test_what_can_be_chosen_is_asked_of_series_there_are(
    path: Path, labels: dict[str, set[str]]
) -> None:
    asked = {
        name: variable["query"]["query"].removeprefix("label_values(").removesuffix(f", {name})")
        for name, variable in variables(path).items()
    }

    missing = {
        name: series
        for name, series in asked.items()
        for selector in selectors(filled(series, PLAIN))
        if not {name, *selector.matched} <= labels.get(selector.metric, set())
    }
    assert not missing


@every_file
def test_what_can_be_chosen_follows_the_time(path: Path) -> None:
    assert {variable["refresh"] for variable in variables(path).values()} == {2}


@every_file
def test_every_variable_is_used_and_every_used_one_is_there(path: Path) -> None:
    held = dashboard(path)
    listed = {variable["name"] for variable in held["templating"]["list"]}

    used = {name for name in names_in(path.read_text("utf-8")) if not name.startswith("__")}
    assert used == listed


@every_file
def test_a_dashboard_is_changed_in_its_source_only(path: Path) -> None:
    assert dashboard(path)["editable"] is False


@every_file
def test_panels_do_not_overlap(path: Path) -> None:
    places = [panel["gridPos"] for panel in dashboard(path)["panels"]]

    covered = [
        (left, top)
        for place in places
        for left in range(place["x"], place["x"] + place["w"])
        for top in range(place["y"], place["y"] + place["h"])
    ]
    assert len(covered) == len(set(covered))
    assert max(left for left, _ in covered) < 24


@every_file
def test_panels_are_told_apart(path: Path) -> None:
    ids = [panel["id"] for panel in dashboard(path)["panels"]]
    titles = [panel["title"] for panel in panels(path)]

    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)


@every_panel
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]


@every_panel
def test_a_panel_asks_the_chosen_data_source(panel: dict[str, Any]) -> None:
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]

    assert {source["uid"] for source in sources} == {"${datasource}"}


@every_query
def test_a_query_is_promql(query: Query) -> None:
    promql_parser.parse(parsable(query))


@every_query
def test_a_query_asks_for_series_and_labels_there_are(
    query: Query, labels: dict[str, set[str]]
) -> None:
    asked = selectors(parsable(query))

    unknown = {selector.metric for selector in asked} - labels.keys()
    assert not unknown
    missing = {
        selector.metric: selector.matched.keys() - labels[selector.metric]
        for selector in asked
        if selector.matched.keys() - labels[selector.metric]
    }
    assert not missing
    assert grouped_labels(parsable(query)) <= set.union(*(labels[s.metric] for s in asked))


def test_what_the_service_and_agents_say_of_themselves_is_in_a_panel(
    labels: dict[str, set[str]],
) -> None:
    said = {
        name
        for name in labels
        if name.startswith(("latencytrace_service_", "latencytrace_agent_"))
        and not name.endswith("_created")
    }
    shown = {one.metric for query in QUERIES for one in selectors(parsable(query))}

    assert said - shown == LEFT_TO_OTHERS


@every_query
def test_a_query_keeps_to_what_was_scraped_and_chosen(
    query: Query, labels: dict[str, set[str]]
) -> None:
    choosable = variables(ROOT / "dashboards" / f"{query.dashboard}.json").keys()

    unmatched = {
        (selector.metric, name)
        for selector in selectors(parsable(query))
        for name in choosable & labels[selector.metric]
        if f"${name}" not in selector.matched.get(name, "") and name != "stage"
    }
    assert not unmatched


@every_query
def test_counters_stand_under_a_rate_of_the_right_length(query: Query) -> None:
    def is_wrong(selector: Selector) -> bool:
        is_counter = selector.metric.endswith(("_total", "_bucket", "_sum", "_count"))
        if selector.function == "rate":
            return not is_counter or selector.period != RATE_INTERVAL
        return is_counter and selector.function != "increase"

    assert not [selector for selector in selectors(parsable(query)) if is_wrong(selector)]


def test_single_requests_are_marked_on_durations() -> None:
    marked = [query for query in QUERIES if query.asked.get("exemplar")]

    assert all("_bucket{" in query.expr for query in marked)
    assert {query.dashboard for query in marked} == {"overview", "tail"}


def test_a_stage_has_its_one_colour_in_every_graph() -> None:
    graphs = [
        panel
        for _, panel in PANELS
        if panel["type"] == "timeseries"
        and any(one.get("legendFormat") == "{{stage}}" for one in panel["targets"])
    ]

    assert graphs
    for graph in graphs:
        fixed = {
            one["matcher"]["options"]: one["properties"][0]["value"]["fixedColor"]
            for one in graph["fieldConfig"]["overrides"]
        }
        assert fixed == {stage.value: STAGE_COLOURS[stage].dark for stage in Stage}


@every_panel
def test_the_series_of_a_panel_are_told_apart(panel: dict[str, Any]) -> None:
    legends = [asked["legendFormat"] for asked in panel["targets"] if "legendFormat" in asked]

    assert len(set(legends)) == len(legends)


@every_panel
def test_a_gauge_in_a_table_is_drawn_against_its_own_column(panel: dict[str, Any]) -> None:
    drawn = [
        {each["id"]: each["value"] for each in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    ]

    gauges = [one for one in drawn if one.get("custom.cellOptions") == {"type": "gauge"}]
    assert all(one.get("fieldMinMax") for one in gauges)


def expr_of(title: str) -> str:
    (query,) = (query for query in QUERIES if query.panel == title and not query.is_mark)
    return filled(query.expr, {**dict.fromkeys(names_in(query.expr), ".*"), **PLAIN})


def check_answers(
    folder: Path, expr: str, series: dict[str, str], answers: dict[str, float]
) -> None:
    """Assert with Prometheus' own tool what a query of these series answers at 0 s."""
    asked = {
        "expr": expr,
        "eval_time": "0s",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in answers.items()],
    }
    tested = {
        "input_series": [{"series": name, "values": value} for name, value in series.items()],
        "promql_expr_test": [asked],
    }
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump({"tests": [tested]}))
    promtool("test", "rules", path)


def test_the_timeline_of_alerts_shows_a_page_over_a_ticket(tmp_path: Path) -> None:
    labels = 'service="rag",route="/chat"'
    firing = {("quiet", 0, 0): 0, ("asked", 0, 1): 1, ("paged", 1, 0): 2, ("both", 1, 1): 2}

    check_answers(
        tmp_path,
        expr_of("Alerts"),
        {
            f'latencytrace_slo_alert_firing{{job="a",instance="b",slo="{slo}",{labels},'
            f'severity="{severity}"}}': f"{fires}"
            for slo, page, ticket in firing
            for severity, fires in (("page", page), ("ticket", ticket))
        },
        {f'{{slo="{slo}",{labels}}}': value for (slo, _, _), value in firing.items()},
    )


@pytest.mark.parametrize(
    ("series", "answers"),
    [
        ({}, {"{}": 0}),
        (
            {
                "latencytrace_service_store_oldest_timestamp_seconds"
                '{job="a",instance="b",table="spans"}': "-172800"
            },
            {'{instance="b",table="spans"}': 2},
        ),
    ],
)
def test_nothing_nameless_stands_beside_the_age_of_a_table(
    tmp_path: Path, series: dict[str, str], answers: dict[str, float]
) -> None:
    check_answers(tmp_path, expr_of("Kept since"), series, answers)


def test_burn_rates_are_drawn_against_the_factors_that_alert() -> None:
    burns = [
        panel
        for _, panel in PANELS
        if panel["title"] in {"Burn rate by window", "Burn rate by objective"}
    ]
    factors = {rule.factor for rule in burn_rules(made_objective())}

    assert len(burns) == 2
    for panel in burns:
        defaults = panel["fieldConfig"]["defaults"]
        lines = {step["value"] for step in defaults["thresholds"]["steps"]} - {None}
        assert defaults["custom"]["thresholdsStyle"]["mode"] == "dashed"
        assert lines <= factors
        assert {1, 6, 14.4} == lines
