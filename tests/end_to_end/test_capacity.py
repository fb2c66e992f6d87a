"""Latency against load, from spans that a real service received to the answer and its pictures."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from pydantic import TypeAdapter

from latencytrace.model import Stage
from latencytrace.service.answers.load.capacity_documents import CapacityDocument
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.few import few
from tests.support.servers.browser import check_sound, opened
from tests.support.servers.command_line import latencytrace
from tests.support.servers.running_service import RunningService
from tests.support.simulation.cohorts import BEGIN_NS
from tests.support.simulation.queues import Station, arrivals, served, spans_of
from tests.support.waiting import until

SERVERS = 4
DECODE = Station(stage=Stage.DECODE, servers=SERVERS, mean_ms=100)
PAGES = {
    "capacity": "/capacity",
    "capacity of nobody": "/capacity?service=nobody",
    "capacity within a second": "/capacity?within=1s",
}
AT_ONCE = 600  # spans of one message


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One whose requests came faster and faster to four servers, and that has an objective."""
    folder = tmp_path_factory.mktemp("capacity")
    random = np.random.default_rng(7)
    loads = [(load * DECODE.most_per_s, 12.0) for load in (0.3, 0.6, 0.9, 1.1)]
    columns = served(random, arrivals(random, loads), [DECODE])
    spans = list(spans_of(columns, time.time_ns() - 300 * 10**9 - BEGIN_NS))
    objectives = objectives_yaml(folder, threshold_s=0.4)
    with RunningService(folder / "data", "--objectives", str(objectives)) as running:
        for first in range(0, len(spans), AT_ONCE):
            assert running.post(otlp(*spans[first : first + AT_ONCE])).is_success
        until(lambda: running.ask("/breakdown")["requests"] == len(columns), running.said)
        until(lambda: bool(running.ask("/objectives")["objectives"]), running.said)
        yield running


def asked(service: RunningService, more: str = "") -> CapacityDocument:
    return cast(CapacityDocument, service.ask(f"/capacity?since=1h{more}"))


def test_the_knee_is_at_the_servers_and_the_queue_grows_first(service: RunningService) -> None:
    document = asked(service)

    TypeAdapter(CapacityDocument).validate_python(document, strict=False)
    knee, growth = document["knee"], document["growth"]
    assert knee is not None
    assert growth is not None
    assert knee["low"] <= SERVERS <= knee["high"]
    assert knee["low_per_second"] <= knee["served_per_second"] <= knee["high_per_second"]
    assert growth["first_stage"] == "queue"
    assert "queue grows first" in document["sentence"]


def test_good_is_what_the_objectives_say_unless_limits_are_named(
    service: RunningService,
) -> None:
    by_objective, named = asked(service)["goodput"], asked(service, "&within=400ms")["goodput"]

    assert by_objective is not None
    assert named is not None
    assert by_objective["limits"][0]["route"] == "POST /chat"
    assert named["limits"][0]["route"] is None
    assert named["limits"][0]["at_most_ns"] == 400_000_000
    assert named["good_ratio"] == by_objective["good_ratio"]
    assert 0.3 < named["good_ratio"] < 1


def test_a_cohort_with_few_requests_is_an_answer(service: RunningService) -> None:
    document = asked(service, "&service=nobody")

    assert (document["requests"], document["knee"], document["needed_requests"]) == (0, None, 500)


def test_a_limit_that_is_no_duration_is_refused(service: RunningService) -> None:
    answer = service.get("/api/v1/capacity?within=soon")

    assert answer.status_code == 400
    assert "'soon' is no duration: write 2s" in answer.json()["detail"]


@pytest.mark.parametrize("rate", ["inf", "nan", "0", "1e300"])
def test_a_rate_that_no_replicas_answer_is_refused(service: RunningService, rate: str) -> None:
    assert service.get(f"/api/v1/capacity?since=1h&rate={rate}").status_code == 400


def test_the_command_prints_the_knee_first_and_the_levels_below(service: RunningService) -> None:
    ended = latencytrace("capacity", "--within", "400ms", "--url", service.url)

    assert ended.returncode == 0
    assert ended.stdout.splitlines()[2].startswith("Knee: ")
    assert "Goodput: " in ended.stdout
    assert "concurrency" in ended.stdout
    assert "queue" in ended.stdout.split("growth", 1)[1]


@pytest.mark.parametrize("path", few(1, PAGES.values()), ids=PAGES)
def test_the_page_is_sound(
    service: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, service.url, path, picture)


def test_the_page_says_the_same_as_the_api(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/capacity") as (page, watched):
        page.get_by_label("Within", exact=True).fill("400ms")
        page.get_by_role("button", name="Apply").click()
        address = page.get_by_role("link", name="JSON", exact=True).get_attribute("href")
        found: Any = service.get(str(address)).json()

        expect(page.locator(".verdict strong")).to_have_text(found["sentence"])
        expect(page.locator(".levels tbody tr")).to_have_count(len(found["levels"]))
        expect(page.locator(".levels tr", has_text="knee")).to_have_count(1)
        assert found["goodput"]["limits"][0]["at_most_ns"] == 400_000_000
        assert watched.errors == []


def test_the_page_says_what_to_write_for_a_limit(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/capacity?within=soon") as (page, watched):
        expect(page.locator(".problem").first).to_contain_text("'soon' is no duration")

    assert watched.status == 400
