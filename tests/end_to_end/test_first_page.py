"""The first page in a real browser while one tenant's requests are slow, and when all is well."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.spans.otlp_messages import message
from tests.support.builders.tenant_chats import chats
from tests.support.few import few
from tests.support.servers.browser import check_sound, opened
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

MS, SECOND_NS = 10**6, 10**9
MOST_CLICKS = 2
# Questions of an engineer on call: what is clicked from the first page on, and what answers.
FLOWS = {
    "is anything wrong": ([], ".headline", "1 incident: POST /chat slow since "),
    "where": ([".routes tbody th a >> nth=0"], "main", "Time on the critical path by stage"),
    "why slow": ([".incident .act a >> nth=0"], ".verdict", "tenant globex"),
    "is the release worse": (
        [".routes .release .reach"],
        ".verdict",
        "Left out: a slow spell after",
    ),
    "one request": (
        [".incident .act a >> nth=1", "tbody a >> nth=0"],
        ".held",
        "Longest wait: retrieve",
    ),
    "is the alert real": ([".incident .facts a"], ".firing", "Slow stage: retrieve"),
    "would a faster search help": (
        [".incident .act a >> nth=0", ".verdict a"],
        ".verdict",
        "If retrieve were 50 % faster",
    ),
    "is the service well": ([".pace a"], "main", "nothing is lost"),
}
SCREENS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": {"width": 1440, "height": 900}},
    "narrow": {"viewport": {"width": 1024, "height": 768}},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("first")
    objectives = objectives_yaml(folder, 2.0, "1d")
    with RunningService(folder / "data", "--objectives", str(objectives)) as running:
        every = list(chats(time.time_ns()))
        for at in range(0, len(every), 900):
            body = message(every[at : at + 900]).SerializeToString()
            until(lambda body=body: running.post(body).is_success, running.said)  # type: ignore[misc] # bound now
        until(lambda: bool(running.ask("/alerts")["alerts"]), running.said)
        yield running


@pytest.mark.parametrize("options", few(1, SCREENS.values()), ids=SCREENS)
def test_it_is_sound_on_every_screen(
    service: RunningService, browser: Browser, options: dict[str, Any]
) -> None:
    check_sound(browser, service.url, "/", **options)


@pytest.mark.parametrize("path", ["/", "/objectives"], ids=["incident", "objectives"])
def test_an_incident_and_its_objective_are_drawn_soundly(
    service: RunningService, browser: Browser, path: str, picture: Path | None
) -> None:
    check_sound(browser, service.url, path, picture)


def test_at_1024_pixels_what_is_wrong_where_and_since_when_needs_no_scrolling(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/", **SCREENS["narrow"]) as (page, _):
        sentence = page.locator(".headline")
        expect(sentence).to_contain_text("1 incident: POST /chat slow since ")
        expect(sentence).to_contain_text(", retrieve, tenant globex")
        card = page.locator(".incident")
        expect(card).to_have_count(1)
        row = page.get_by_role("row").filter(has_text="rag").first
        expect(row).to_contain_text("▲ incident")
        expect(row).to_contain_text("chat-e2e: ")
        bottoms = [one.bounding_box() for one in (sentence, card, row)]
        assert all(box is not None and box["y"] + box["height"] <= 768 for box in bottoms)
        expect(page.locator(".release")).to_have_count(1)


def test_its_card_leads_to_why_and_to_the_requests(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/") as (page, _):
        page.locator(".incident").get_by_role("link", name="Requests").click()
        expect(page.locator("tbody tr").first).to_contain_text("retrieve")
    with opened(browser, f"{service.url}/") as (page, _):
        page.locator(".incident").get_by_role("link", name="Why slow").click()
        expect(page.locator(".verdict")).to_contain_text("retrieve")
        expect(page.locator(".verdict")).to_contain_text("globex")


def test_a_release_line_in_its_row_compares_before_and_after(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/") as (page, _):
        line = page.locator(".routes a.release .mark").evaluate(
            "(one) => { const {x, y, height} = one.getBoundingClientRect(); "
            "return {x, y: y + height / 2}; }"
        )
        page.mouse.click(line["x"] + 3, line["y"])  # beside it, as people do

        page.wait_for_url("**/compare?**")
        expect(page.get_by_role("combobox", name="Before", exact=True)).to_have_value("version=1")
        expect(page.get_by_role("combobox", name="After", exact=True)).to_have_value("version=2")
        expect(page.locator(".verdict")).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize(("clicks", "place", "answer"), FLOWS.values(), ids=FLOWS)
def test_each_question_is_answered_within_two_clicks(
    service: RunningService, browser: Browser, clicks: list[str], place: str, answer: str
) -> None:
    with opened(browser, f"{service.url}/", **SCREENS["narrow"]) as (page, watched):
        for one in clicks:
            page.locator(one).click(force=True)  # a line of no width among them

        expect(page.locator(place).first).to_contain_text(answer)
        assert watched.errors == []
    assert len(clicks) <= MOST_CLICKS


@pytest.mark.long
@pytest.mark.parametrize("path", ["/", "/requests", "/breakdown?by=tenant"])
def test_the_first_row_is_five_tabs_away(
    service: RunningService, browser: Browser, path: str
) -> None:
    with opened(browser, f"{service.url}{path}") as (page, _):
        for key in ("Tab", "Tab", "Enter", "Tab", "Tab"):
            page.keyboard.press(key)

        assert page.evaluate("document.activeElement.closest('tbody tr') !== null")


def test_an_incident_is_acknowledged_on_its_card(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/") as (page, watched):
        page.get_by_role("button", name="Acknowledge").click()

        expect(page.locator(".incident")).to_contain_text("Acknowledged by somebody")
        assert watched.errors == []
    assert all(one["acknowledged"] for one in service.ask("/alerts")["alerts"])  # type: ignore[attr-defined] # a list


def test_without_scripts_it_says_the_same_and_has_no_button(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/", java_script_enabled=False) as (page, _):
        expect(page.locator(".headline")).to_contain_text("tenant globex")
        expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)


def test_an_objective_of_which_no_request_is_shown_is_named_below(
    service: RunningService, browser: Browser
) -> None:
    with opened(
        browser, f"{service.url}/?since=2000-01-01T00:00:00Z&until=2001-01-01T00:00:00Z"
    ) as (page, _):
        below = page.locator(".others")
        expect(below).to_contain_text("Other objectives:")
        below.get_by_role("link").click()

        expect(page.locator(".panel").first).to_contain_text("POST /chat")
    with opened(browser, f"{service.url}/") as (page, _):
        expect(page.locator(".routes")).to_be_visible()
        expect(page.locator(".others")).to_have_count(0)
