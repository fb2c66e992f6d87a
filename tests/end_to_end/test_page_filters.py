"""The filters of pages in a real browser: what the form sends, and which links keep them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.support.builders.seen_traffic import chat
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.few import few
from tests.support.servers.browser import opened, violations
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

SERVICE = "خدمت\u200cگر"  # with a joiner that nobody sees
LONG = "&".join(f"attribute.{place}={'x' * 40}" for place in range(10))
TRACE = f"{21:032x}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("filters") / "data") as running:
        spans = [
            replace(span, service=SERVICE) if span.service == "rag" else span
            for span in chat(TRACE, time.time_ns() - 60 * 10**9)
        ]
        assert running.post(otlp(*spans)).is_success
        until(lambda: running.ask("/breakdown")["requests"] == 1, running.said)
        yield running


@pytest.mark.parametrize(
    "asked",
    few(
        1,
        [
            {"service": SERVICE, "detail": "full", "after": "..1h", "since": "2h"},
            {"service": "rag", "where": LONG},
            {"a": f"service={SERVICE}", "b": LONG, "least": "5"},
        ],
    ),
    ids=["invisible", "long", "sides"],
)
def test_the_form_sends_back_what_was_asked_for(
    service: RunningService, browser: Browser, asked: dict[str, str]
) -> None:
    path = "/compare" if "a" in asked else "/breakdown"
    with opened(browser, f"{service.url}{path}?{urlencode(asked)}") as (page, _):
        with page.expect_navigation():
            page.get_by_role("button", name="Apply").click()

        assert dict(parse_qsl(urlsplit(page.url).query)) == asked


def test_a_service_is_proposed_by_its_own_name(service: RunningService, browser: Browser) -> None:
    with opened(browser, service.url) as (page, _):
        proposed = page.locator("#services option").evaluate_all(
            "all => all.map(one => one.value)"
        )

        assert SERVICE in proposed


def test_the_filters_are_kept_through_a_request(service: RunningService, browser: Browser) -> None:
    asked = {"service": SERVICE, "since": "24h"}
    with opened(browser, f"{service.url}/requests?{urlencode(asked)}") as (page, _):
        page.locator("tbody").get_by_role("link").first.click()
        page.wait_for_url(f"**/requests/{TRACE}**")
        page.locator(".grid-row", has_text="search passages").click()
        page.get_by_role("navigation").get_by_role("link", name="Requests").click()
        page.wait_for_url("**/requests?**")

        assert dict(parse_qsl(urlsplit(page.url).query)) == asked


@pytest.mark.parametrize(
    ("over", "path"), few(1, [("SLOs", "objectives"), ("GPU", "gpu"), ("Health", "health")])
)
def test_the_filters_are_kept_through_pages_without_a_form(
    service: RunningService, browser: Browser, over: str, path: str
) -> None:
    asked = {"service": SERVICE, "since": "24h"}
    with opened(browser, f"{service.url}/requests?{urlencode(asked)}") as (page, _):
        links = page.get_by_role("navigation")
        links.get_by_role("link", name=over).click()
        page.wait_for_url(f"**/{path}?**")
        links.get_by_role("link", name="Breakdown").click()
        page.wait_for_url("**/breakdown?**")

        assert dict(parse_qsl(urlsplit(page.url).query)) == asked


def test_a_filter_that_cannot_be_read_stays_in_the_form(
    service: RunningService, browser: Browser
) -> None:
    asked = {"service": SERVICE, "route": "POST /chat", "since": "1 hour"}
    with opened(browser, f"{service.url}/breakdown?{urlencode(asked)}") as (page, watched):
        expect(page.get_by_role("alert")).to_contain_text("'1 hour' is not a valid time")
        page.get_by_label("Since").fill("1h")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".facts strong")).to_have_text("1 request")

        assert watched.status == 400
        assert dict(parse_qsl(urlsplit(page.url).query)) == {**asked, "since": "1h"}


def test_parameters_that_cannot_be_read_are_fields_too(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/requests?sevice=rag&limit=many&since=2h") as (page, _):
        page.get_by_label("Sevice").fill("")
        page.get_by_label("Service").fill("gateway")
        page.get_by_label("Limit").fill("5")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".bar-line")).to_contain_text("1 of 1 request")

        found = dict(parse_qsl(urlsplit(page.url).query))
        assert found == {"service": "gateway", "limit": "5", "since": "2h"}


def test_programs_are_answered_as_before(service: RunningService) -> None:
    answer = service.get("/breakdown?since=1+hour", {"accept": "*/*"})

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_of_a_wrong_filter_is_sound(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/requests?sevice=rag&since=1+hour") as (page, _):
        assert violations(page) == []


def test_the_durations_of_the_list_are_what_the_tail_explains(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/requests?since=2h&duration=100ms..") as (page, _):
        page.get_by_role("link", name="why the slowest are slow").click()
        selected = "slow: the 1 request you selected, of 100 ms or more"
        expect(page.locator(".facts")).to_contain_text(selected)

        assert dict(parse_qsl(urlsplit(page.url).query)) == {"since": "2h", "selected": "100ms.."}


def test_a_baseline_that_is_not_there_is_not_found(service: RunningService) -> None:
    answer = service.get("/compare?a=baseline:none&b=since%3D1h", {"accept": "text/html"})

    assert answer.status_code == 404
    assert "none" in answer.text
