"""Requests by an attribute, filters as chips, releases and trace ids, in a real browser."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.support.builders.spans.otlp_messages import message
from tests.support.builders.tenant_chats import chats
from tests.support.servers.browser import check_sound, opened
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

TRACE = f"{7:032x}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("groups") / "data") as running:
        every = list(chats(time.time_ns()))
        for at in range(0, len(every), 900):
            assert running.post(message(every[at : at + 900]).SerializeToString()).is_success
        until(lambda: running.ask("/breakdown")["requests"] == 1_200, running.said)
        yield running


@pytest.mark.long
@pytest.mark.parametrize(
    "path", ["/breakdown?by=tenant&where=tenant%3Dacme", "/requests?by=version"]
)
def test_it_is_sound_on_every_screen(
    service: RunningService, browser: Browser, path: str, tmp_path: Path
) -> None:
    check_sound(browser, service.url, path, tmp_path / "page.png")


def test_a_value_leads_to_its_requests_and_its_chip_away_from_them(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?since=2h&by=tenant") as (page, watched):
        rows = page.locator(".groups tbody tr")
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("globex")
        of_globex = rows.first.locator("td").first.inner_text()
        expect(page.locator(".groups tfoot")).to_contain_text("1,200")
        page.get_by_role("link", name="globex", exact=True).click()

        expect(page.locator(".facts").first).to_contain_text(f"{of_globex} requests")
        expect(page.locator(".chip")).to_contain_text("tenant = globex")
        page.get_by_role("link", name="Remove the filter tenant = globex").click()
        expect(page.locator(".facts").first).to_contain_text("1,200 requests")
        assert parse_qs(urlsplit(page.url).query) == {"since": ["2h"]}
        assert watched.errors == []


def test_a_value_can_be_left_out(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/requests?since=2h&by=tenant") as (page, _):
        page.get_by_role("link", name="Without tenant globex").click()

        expect(page.locator(".groups tbody tr")).to_have_count(2)
        expect(page.locator(".chip")).to_contain_text("not tenant = globex")


def test_an_attribute_that_no_request_has_is_answered_with_the_nearest(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?by=tennant") as (page, _):
        expect(page.get_by_role("alert")).to_contain_text("nearest: tenant")


@pytest.mark.parametrize("condition", ["tennant%3Dglobex", "tenant%3Dglobx"])
def test_a_filter_that_no_request_meets_is_answered_with_the_nearest(
    service: RunningService, browser: Browser, condition: str
) -> None:
    with opened(browser, f"{service.url}/requests?since=2h&where={condition}") as (page, _):
        expect(page.locator(".empty")).to_contain_text("without ten")
        page.get_by_role("link", name="did you mean tenant = globex?").click()

        expect(page.locator(".chip")).to_contain_text("tenant = globex")
        expect(page.locator(".rows tbody tr").first).to_be_visible()


def test_a_key_of_300_characters_widens_no_page(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/requests?since=2h&by={'x' * 300}") as (page, _):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("tenant=acme", {"where": ["tenant=acme"]}),
        ("version != 1", {"without": ["version=1"]}),
        ("status=failed", {"status": ["failed"]}),
        ("http.route=POST /chat", {"route": ["POST /chat"]}),
    ],
)
def test_a_filter_is_added_as_it_is_written(
    service: RunningService, browser: Browser, written: str, found: dict[str, list[str]]
) -> None:
    with opened(browser, f"{service.url}/requests?since=2h&order=newest") as (page, _):
        page.get_by_label("Add a filter").fill(written)
        page.get_by_label("Add a filter").press("Enter")
        page.wait_for_url(re.compile(next(iter(found))))

        asked = parse_qs(urlsplit(page.url).query)
        assert asked == {"since": ["2h"], "order": ["newest"], **found}


def test_what_is_no_filter_is_answered_with_how_to_write_one(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/requests?add=acme") as (page, watched):
        expect(page.get_by_role("alert")).to_contain_text("write KEY=VALUE")
        assert watched.status == 400


@pytest.mark.parametrize(
    "written", [TRACE, TRACE.upper(), f"00-{TRACE}-{'a' * 16}-01"], ids=["id", "upper", "parent"]
)
def test_a_trace_id_leads_to_its_request(
    service: RunningService, browser: Browser, written: str
) -> None:
    with opened(browser, service.url) as (page, watched):
        page.get_by_label("Trace ID, its beginning").fill(written)
        page.get_by_label("Trace ID, its beginning").press("Enter")
        page.wait_for_url(f"**/requests/{TRACE}")

        expect(page.get_by_role("heading", level=1)).to_contain_text("POST /chat")
        expect(page.locator(".chips").first).to_contain_text("tenant")
        expect(page.locator(".facts")).to_contain_text(re.compile("this route.s p50"))
        assert watched.errors == []


@pytest.mark.parametrize(
    ("written", "said", "status"),
    [
        ("0" * 20, "Traces that begin with", 200),
        ("f" * 5, "No such trace", 404),
        ("no id", "is not a trace ID", 400),
    ],
)
def test_a_beginning_is_answered_with_the_traces_that_have_it(
    service: RunningService, browser: Browser, written: str, said: str, status: int
) -> None:
    with opened(browser, f"{service.url}/trace?id={written}") as (page, watched):
        expect(page.get_by_role("main")).to_contain_text(said)
        assert watched.status == status


def test_a_release_leads_to_the_comparison_with_the_version_before(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?since=2h") as (page, _):
        expect(page.locator("svg.timeline .release")).to_have_count(1)
        expect(page.locator("svg.heat .release")).to_have_count(1)
        page.locator(".releases").get_by_role("link").click()
        page.wait_for_url("**/compare?**")

        asked = parse_qs(urlsplit(page.url).query)
        assert (asked["a"], asked["b"]) == (["version=1"], ["version=2"])
