"""The real Prometheus reads the service, and every panel of every dashboard shows something."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository.dashboard_files import FILES, Query, all_queries, filled, variables
from tests.support.servers.scraped_service import Scraped, scraped_service
from tests.support.waiting import until

ALL = {"job": ".+", "instance": ".+", "stage": ".*", "slo": ".*"} | dict.fromkeys(
    ("service", "route", "model", "engine", "target", "name", "uuid"), ".*"
)
# A busy machine scrapes seldom, and takes minutes for all the panels.
CHOSEN = {**ALL, "quantile": "0.99", "__rate_interval": "20s", "__range": "10m"}
QUERIES = [query for query in all_queries() if not query.is_mark]
MARKS = [query for query in all_queries() if query.is_mark]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Both servers, for all tests: a Prometheus needs seconds until it knows a rate."""
    with scraped_service(tmp_path_factory.mktemp("scraped")) as scraped:
        yield scraped


def has_values(scraped: Scraped, query: Query) -> bool:
    """Whether Grafana would draw anything."""
    expr = filled(query.expr, CHOSEN)
    if query.asked.get("instant"):
        value = scraped.prometheus.value(expr)
        return value is not None and math.isfinite(value)
    series = scraped.prometheus.over_time(expr)
    return any(math.isfinite(value) for values in series for value in values)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_panel_shows_what_was_scraped(scraped: Scraped, query: Query) -> None:
    until(lambda: has_values(scraped, query), lambda: filled(query.expr, CHOSEN))


@pytest.mark.parametrize("query", MARKS, ids=str)
def test_nothing_is_marked_while_no_alert_fires(scraped: Scraped, query: Query) -> None:
    assert scraped.prometheus.over_time(filled(query.expr, CHOSEN)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_can_be_chosen_is_found(scraped: Scraped, path: Path) -> None:
    found = {
        name: scraped.prometheus.ask(
            f"label/{name}/values",
            **{"match[]": filled(variable["query"]["query"], CHOSEN)[13 : -len(f", {name})")]},
        )
        for name, variable in variables(path).items()
    }

    assert [name for name, values in found.items() if not values] == []


def test_exemplars_lead_to_requests(scraped: Scraped) -> None:
    now_s = time.time()

    series = scraped.prometheus.ask(
        "query_exemplars",
        query="latencytrace_request_duration_seconds_bucket",
        start=now_s - 600,
        end=now_s,
    )

    marked = {exemplar["labels"]["trace_id"] for each in series for exemplar in each["exemplars"]}
    assert marked
    assert marked <= scraped.trace_ids
    scraped.service.request(marked.pop())


def test_means_of_stages_add_up_to_the_mean_duration(scraped: Scraped) -> None:
    stages = scraped.prometheus.value("sum(latencytrace_stage_duration_seconds_sum)")
    requests = scraped.prometheus.value("sum(latencytrace_request_duration_seconds_sum)")

    assert stages == pytest.approx(requests)


def test_the_service_named_by_a_request_is_not_that_of_the_target(scraped: Scraped) -> None:
    found = scraped.prometheus.ask("label/service/values")

    assert found == ["rag"]
