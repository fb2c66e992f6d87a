"""The web pages in a real browser: what a person sees, and what a page must not do."""

import csv
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, parse_qsl, urljoin, urlsplit
from xml.etree import ElementTree as ET

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from latencytrace.model import BadRequest, RequestStatus, Span, semconv
from latencytrace.model.objective import HOUR_NS, MINUTE_NS
from latencytrace.model.packed import RuntimeGap
from latencytrace.service.alerting.document import AlertLinks, alert_document
from latencytrace.service.objectives.memory import ObjectiveMemory
from tests.support.builders.notices import LINKS, made_alert
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.seen_traffic import (
    FAILED_TRACE,
    HOSTILE_TRACE,
    HUGE_TRACE,
    MS,
    SLOW_TRACE,
    chat,
    hostile,
    huge,
    traffic,
)
from tests.support.builders.spans.otlp_messages import message, one_span
from tests.support.few import few
from tests.support.servers.browser import SCREENS, check_sound, keep, opened, without_values
from tests.support.servers.command_line import COMMAND, environment
from tests.support.servers.ports import free_port
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

TOKEN = "the pages' token"
HUGE = 12_000
PAUSED_TRACE = f"{11:032x}"
BUMP_ROWS = 4  # of the heat map, which the slow stretch covers
POST = 2000  # spans of a post
PHONE = SCREENS["phone"]["viewport"]
PLAIN = "duration=100ms.."  # leaves out the request of hostile names
PAGES = {
    "overview": f"/?{PLAIN}",
    "hostile overview": "/",
    "breakdown": f"/breakdown?{PLAIN}",
    "requests": f"/requests?{PLAIN}&limit=10",
    "hostile requests": "/requests",
    "closed trace": f"/requests/{SLOW_TRACE}",
    "failed trace": f"/requests/{FAILED_TRACE}",
    "hostile trace": f"/requests/{HOSTILE_TRACE}",
    "quiet objectives": "/objectives",
    "health without agents": "/health",
    "nothing found": "/breakdown?route=nothing",
    "API": "/docs",
}


def post(service: RunningService, spans: Iterable[Span]) -> None:
    every = list(spans)
    for at in range(0, len(every), POST):
        body = message(every[at : at + POST]).SerializeToString()
        assert service.post(body).is_success


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("pages")
    objectives = objectives_yaml(folder)
    kept = {"LATENCYTRACE_CAPTURE_CONTENT": "1"}  # else most hostile names would be taken out
    now_ns = time.time_ns()
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "lock").touch(mode=0o600)
    memory = ObjectiveMemory.open(folder / "data", now_ns)  # as an earlier process left it
    over = made_alert(started_ns=now_ns - 20 * MINUTE_NS, ended_ns=now_ns - 10 * MINUTE_NS)
    memory.keep_past([alert_document(over, LINKS)])
    memory.close()
    with RunningService(folder / "data", "--objectives", str(objectives), env=kept) as running:
        post(running, [*traffic(now_ns), *hostile(HOSTILE_TRACE, now_ns - 9 * 10**9)])
        running.request(SLOW_TRACE)
        running.request(FAILED_TRACE)
        running.request(HOSTILE_TRACE)
        until(lambda: is_counted(running), running.said)
        yield running


def is_counted(service: RunningService) -> bool:
    """Tell whether the objective has counted requests, which it does at its next tick."""
    objectives = cast("list[dict[str, Any]]", service.ask("/objectives")["objectives"])
    return bool(objectives[0]["requests"])


def row(page: Page, text: str) -> Any:
    return page.locator(".grid-row", has_text=text).first


def test_one_gets_from_the_overview_to_the_guilty_span(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, service.url) as (page, watched):
        page.locator("tr", has_text="POST /chat rag").get_by_role("link").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Breakdown POST /chat")
        page.get_by_role("link", name="see the requests").click()
        page.locator("tr", has_text="4.59 s").get_by_role("link").first.click()
        row(page, "search passages").click()

        expect(row(page, "search passages")).to_contain_text("4.20 s")
        expect(page.locator("#detail")).to_contain_text("qdrant")
        assert watched.errors == []


@pytest.mark.parametrize("path", few(4, PAGES.values()), ids=PAGES)
def test_a_page_is_sound(
    service: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, service.url, path, picture)


def test_pages_say_the_same_as_the_api(service: RunningService, browser: Browser) -> None:
    wanted = "service=rag&route=POST+%2Fchat&since=2h"
    counted = service.ask(f"/breakdown?{wanted}")["requests"]
    with opened(browser, f"{service.url}/breakdown?{wanted}") as (page, _):
        expect(page.locator(".facts strong")).to_have_text(f"{counted} requests")
        page.get_by_role("link", name="see the requests").click()

        expect(page.locator(".bar-line")).to_contain_text(f"of {counted} requests")


PART = (
    "<br><span class=quiet>rank_the_candidates_of_every_shard_that_answered_in_time 1.20 s</span>"
)
ALERT = """
<article class="firing"><table><tbody><tr><th scope="row"><a href="#"><code>0123456789ab</code></a></th>
<td class="n">12.34 s</td><td class="wide"><svg class="bar" viewBox="0 0 400 18"></svg></td>
<td>retrieve took 4.20 s of 4.59 s, and waited for the search of passages for most of it</td></tr></tbody></table></article>
"""  # noqa: E501 - as the template writes it


def test_nothing_is_wider_than_a_phone_and_no_stage_breaks_within_its_name(
    service: RunningService, browser: Browser
) -> None:
    wide = "document.documentElement.scrollWidth"
    # Of the stage's name alone: the names of its parts stand below.
    lines = """found => found.map(one => {
        const name = document.createRange();
        name.selectNodeContents(one.childNodes[1]);
        return name.getClientRects().length;
    })"""
    with opened(browser, f"{service.url}/objectives", viewport=PHONE, bypass_csp=True) as (
        page,
        _,
    ):
        page.evaluate(
            "html => document.querySelector('main').insertAdjacentHTML('afterbegin', html)", ALERT
        )
        row_id = page.locator(".firing th")

        assert page.evaluate(wide) <= PHONE["width"]
        assert row_id.evaluate("one => one.offsetHeight") < 40
    with opened(browser, f"{service.url}/breakdown?since=2h", viewport=PHONE) as (page, _):
        assert page.evaluate(wide) <= PHONE["width"]
        assert max(page.locator(".stages tbody th").evaluate_all(lines)) == 1
        summary = page.locator("summary").first
        assert summary.evaluate("one => getComputedStyle(one).display") == "list-item"


def test_a_ledger_with_long_names_is_no_wider_than_a_phone(
    service: RunningService, browser: Browser
) -> None:
    address = f"{service.url}/requests/{SLOW_TRACE}"
    with opened(browser, address, viewport=PHONE, bypass_csp=True) as (page, _):
        stage = page.locator(".ledger tbody th").first
        stage.evaluate("(one, html) => one.insertAdjacentHTML('beforeend', html)", PART)

        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_form_and_the_json_keep_what_the_list_was_asked_for(
    service: RunningService, browser: Browser
) -> None:
    asked = "since=2h&input_tokens=1..&order=newest&limit=2"
    with opened(browser, f"{service.url}/requests?{asked}") as (page, _):
        as_json = page.get_by_role("link", name="JSON", exact=True).get_attribute("href") or ""
        page.get_by_label("Service").fill("rag")
        page.get_by_role("button", name="Apply").click()
        page.wait_for_url("**service=rag**")

        assert dict(parse_qsl(urlsplit(as_json).query)) == dict(parse_qsl(asked))
        assert parse_qs(urlsplit(page.url).query).items() >= parse_qs(asked).items()
        expect(page.locator(".chip", has_text="input tokens 1..")).to_be_visible()


def test_the_failed_requests_of_the_overview_are_those_of_its_link(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/?since=2h") as (page, _):
        page.get_by_role("link", name=re.compile("failed")).first.click()

        expect(page.locator(".chip", has_text="status failed")).to_be_visible()
        expect(page.locator(".bar-line")).to_contain_text("1 of 1 request")


SEEN = {
    "/": "POST /chat",
    "/breakdown": "retrieve",
    "/requests": "4.60 s",
    f"/requests/{SLOW_TRACE}": "search passages",
    "/objectives": "of the budget left",
    "/health": "nothing is lost",
}


@pytest.mark.parametrize(("path", "text"), few(2, SEEN.items()), ids=SEEN)
def test_a_page_is_read_without_javascript(
    service: RunningService, browser: Browser, path: str, text: str
) -> None:
    with opened(browser, f"{service.url}{path}", java_script_enabled=False) as (page, _):
        expect(page.get_by_role("main")).to_contain_text(text)


def test_a_span_is_opened_without_javascript(service: RunningService, browser: Browser) -> None:
    address = f"{service.url}/requests/{SLOW_TRACE}"
    with opened(browser, address, java_script_enabled=False) as (page, _):
        rows = page.get_by_role("group", name="Waterfall")
        rows.get_by_role("link", name="search passages").click()

        expect(page.locator("#detail")).to_contain_text("qdrant")


def test_a_cell_of_the_heat_map_leads_to_its_requests(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, watched):
        heat = page.locator("svg.heat[data-ready]")
        heat.focus()
        page.keyboard.press("Enter")  # the slowest cell

        expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
        expect(page.locator(".bar-line")).to_contain_text("1 of 1 request")
        expect(page.get_by_role("main")).to_contain_text("4.59 s")
        assert watched.errors == []


def test_the_cause_of_a_bump_in_the_heat_map_is_two_clicks_away(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, watched):
        heat = page.locator("svg.heat[data-ready]")
        heat.focus()
        page.keyboard.press("Enter")  # the bump: the slowest cell
        page.locator("td[data-label=Duration]").get_by_role("link").first.click()

        held = page.locator(".held")
        expect(held).to_contain_text("Longest wait: search passages, retrieve 4.20 s")
        assert watched.errors == []


@pytest.mark.parametrize("options", [SCREENS["light"]], ids=["selected"])
def test_a_bump_of_many_requests_in_the_heat_map_asks_why_these_are_slow(
    service: RunningService, browser: Browser, options: dict[str, Any], picture: Path | None
) -> None:
    address = f"{service.url}/breakdown?service=rag&since=2h"
    with opened(browser, address, **options) as (page, watched):
        heat = page.locator("svg.heat[data-ready]")
        expect(heat).to_have_css("user-select", "none")  # what is dragged over is no text
        scale = heat.evaluate("svg => JSON.parse(svg.dataset.scale)")
        ratio = heat.evaluate(
            "svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
        )
        slowest = max(scale["cells"], key=lambda cell: cell[1])[0]  # after the bump
        slow = [(column, row) for column, row, _ in scale["cells"] if column < slowest]
        top = max(row for _, row in slow)
        bump = [column for column, row in slow if row > top - BUMP_ROWS]
        heat.scroll_into_view_if_needed()
        box = heat.bounding_box()
        assert box is not None
        left, right, high, low = (
            box["x"] + ratio * (scale["left"] + (min(bump) + 0.1) * scale["column"]),
            box["x"] + ratio * (scale["left"] + (max(bump) + 0.9) * scale["column"]),
            box["y"] + ratio * (scale["zero"] - (top + 0.9) * scale["row"]),
            box["y"] + ratio * (scale["zero"] - (top - BUMP_ROWS + 1.1) * scale["row"]),
        )
        page.mouse.move(left, high)
        page.mouse.down()
        page.mouse.move(right, low, steps=4)
        page.mouse.up()

        expect(page.get_by_role("heading", level=1)).to_have_text("Why slow")
        main = page.get_by_role("main")
        expect(main).to_contain_text(re.compile(r"from [-\d]+ [:\d]+ UTC until [-\d]+ [:\d]+ UTC"))
        expect(main).to_contain_text("the 12 requests you selected")
        expect(page.locator("#cause")).to_contain_text("retrieve takes")
        keep(page, picture)
        page.locator("td[data-label=Trace]").get_by_role("link").first.click()
        expect(page.locator("#detail h2")).to_have_text("search passages")
        assert watched.errors == []


def test_an_objective_shows_its_budget_and_its_burn_over_time(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/objectives") as (page, watched):
        budget = page.get_by_role("group", name="Budget of chat-e2e over time").get_by_role("img")
        expect(budget).to_have_accessible_name(re.compile("Budget left over the period: .* now"))
        expect(budget.locator("path.line")).to_have_attribute("d", re.compile("^M.*L"))
        [objective] = cast("list[dict[str, Any]]", service.ask("/objectives")["objectives"])
        lines = page.get_by_role("img", name=re.compile("Burn rates of both windows"))
        expect(lines).to_have_count(len(objective["burn_rates"]))
        expect(budget.locator(".incident")).to_have_count(1)
        assert watched.errors == []


def test_an_alert_that_is_over_stands_with_its_cause_and_leads_to_its_time(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/objectives") as (page, watched):
        over = page.get_by_role("group", name="Past alerts").locator("tbody tr")
        expect(over).to_have_count(1)
        expect(over).to_contain_text("10 min")
        expect(over).to_contain_text(re.compile("retrieve: .* of the extra time"))
        over.get_by_role("rowheader").get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Breakdown POST /chat")
        expect(page.locator(".facts strong")).to_contain_text("requests")
        assert watched.errors == []


@pytest.mark.parametrize("options", [SCREENS["light"]], ids=["trace"])
def test_an_alerts_link_leads_to_the_line_that_explains_it(
    service: RunningService, browser: Browser, options: dict[str, Any], picture: Path | None
) -> None:
    found = service.ask(f"/requests/{SLOW_TRACE}")
    bad = BadRequest(
        trace_id=SLOW_TRACE,
        span_id=str(found["span_id"]),
        status=RequestStatus.OK,
        duration_ns=4_600_000_000,
        ledger={},
    )
    address = AlertLinks(service=service.url, dashboard=None).of_request(bad)
    with opened(browser, address, **options) as (page, watched):
        page.locator(".held").get_by_role("link").click()

        expect(page.locator("#detail h2")).to_have_text("search passages")
        expect(row(page, "search passages")).to_have_attribute("aria-selected", "true")
        keep(page, picture)
        assert watched.errors == []


def test_the_requests_around_a_quantile_are_listed_behind_their_number(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, watched):
        around = page.get_by_role("group", name="Typical requests at quantiles")
        expect(around.get_by_role("rowheader")).to_have_text(["p50", "p90", "p99"])
        slowest = around.get_by_role("link").last
        count = slowest.inner_text()
        slowest.click()

        expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
        expect(page.locator(".bar-line")).to_contain_text(f"of {count} requests")
        expect(page.get_by_role("main")).to_contain_text("4.59 s")
        assert watched.errors == []


def test_a_stretch_of_the_stages_over_time_leads_to_its_breakdown(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, watched):
        whole = page.locator(".facts strong").inner_text()
        picture = page.locator("svg.timeline[data-ready]")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.85 * box["width"], y)
        expect(page.locator(".tip:visible")).to_contain_text("UTC")
        page.mouse.down()
        page.mouse.move(box["x"] + 0.9 * box["width"], y, steps=3)
        page.mouse.up()
        page.wait_for_url("**until=**")

        expect(page.locator(".facts strong")).to_contain_text("requests")
        part = page.locator(".facts strong").inner_text()
        assert 0 < int(part.split()[0]) < int(whole.split()[0])
        address = page.get_by_role("link", name="JSON", exact=True).get_attribute("href")
        found: Any = service.get(str(address)).json()
        assert part == f"{found['requests']} requests"
        assert watched.errors == []


def test_a_live_page_replaces_what_changed_and_keeps_what_is_open(
    service: RunningService, browser: Browser
) -> None:
    wanted = "service=rag&since=2h"
    with opened(browser, f"{service.url}/breakdown?{wanted}") as (page, watched):
        before = int(page.locator(".facts strong").inner_text().split()[0])
        table = page.locator("details", has_text="The slowest cells as a table")
        table.locator("summary").click()
        page.get_by_label("Route").fill("POST /ch")  # not asked for yet
        page.evaluate("document.body.dataset.loaded = 'once'")
        page.get_by_role("button", name="Live").click()
        post(service, chat(f"{77:032x}", time.time_ns() - 10**9))

        more = re.compile(rf"^{before + 1} requests$")
        expect(page.locator(".facts strong")).to_have_text(more)
        assert page.locator("body").get_attribute("data-loaded") == "once"
        expect(page.get_by_label("Route")).to_have_value("POST /ch")
        assert table.evaluate("one => one.open")
        page.locator("svg.heat[data-ready]").wait_for()
        page.locator("svg.timeline[data-ready]").wait_for()
        assert watched.errors == []


def test_live_leads_from_a_stretch_of_the_past_to_the_newest_requests(
    service: RunningService, browser: Browser
) -> None:
    stretch = "service=rag&since=2h&until=1m"
    with opened(browser, f"{service.url}/breakdown?{stretch}") as (page, watched):
        page.get_by_role("button", name="Live").click()

        page.wait_for_url("**/breakdown?service=rag")
        expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
        assert watched.errors == []


NOTE_WHAT_IS_SAID = """() => {
  const said = document.getElementById('said');
  window.told = [];
  const note = () => window.told.push(said.textContent);
  new MutationObserver(note).observe(said, { childList: true });
}"""


@pytest.mark.long
def test_a_live_page_outlives_a_restart_of_its_service(tmp_path: Path, browser: Browser) -> None:
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    with RunningService(tmp_path / "data", *listen) as first:
        post(first, chat(f"{1:032x}", time.time_ns() - 10**9))
        first.request(f"{1:032x}")
        with opened(browser, f"{first.url}/breakdown?since=2h") as (page, _):
            shown = page.locator(".facts strong").inner_text()
            page.evaluate(NOTE_WHAT_IS_SAID)
            page.keyboard.press("l")
            first.end()

            expect(page.locator("#said")).to_contain_text("does not answer")
            expect(page.locator(".facts strong")).to_have_text(shown)
            with RunningService(tmp_path / "data", *listen) as again:
                says = "window.told.includes('The service answers again.')"
                until(lambda: page.evaluate(says), again.said)
                expect(page.locator(".facts strong")).to_have_text(shown)


OFFERED = {
    "/?since=2h": ["routes.csv"],
    "/breakdown?since=2h": [
        "stages.csv",
        "quantiles.csv",
        "timeline.csv",
        "durations.csv",
        "timeline.svg",
        "durations.svg",
    ],
    "/requests?since=2h": ["requests.svg"],
    f"/requests/{SLOW_TRACE}": ["ledger.csv", "spans.csv", "critical-path.svg"],
    f"/requests/{HOSTILE_TRACE}": ["ledger.csv", "spans.csv", "critical-path.svg"],
    "/objectives": ["objectives.csv", "budget.csv", "alerts.csv"],
}


@pytest.mark.parametrize(("path", "names"), few(2, OFFERED.items()), ids=OFFERED)
def test_a_page_offers_its_tables_and_pictures_as_files(
    service: RunningService, path: str, names: list[str]
) -> None:
    page = service.get(path, {"accept": "text/html"}).text
    links = dict(re.findall(r'<a href="([^"]*)" download="([\w.-]+)">\2', page))

    assert list(links.values()) == names
    for link, name in links.items():
        address = urljoin(f"{service.url}{path}", unescape(link))
        answer = service.client.get(address)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-disposition"].endswith(name)
        if name.endswith(".svg"):
            assert ET.fromstring(answer.text).tag.endswith("svg")  # noqa: S314 - ours
        else:
            head, *rows = csv.reader(answer.text.splitlines())
            assert rows
            assert all(len(row) == len(head) for row in rows)
            assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "\t"))]


def test_a_request_whose_ledger_came_late_says_how_late(service: RunningService) -> None:
    now_ns = time.time_ns()
    late, soon = f"{0x1A7E:032x}", f"{0x5001:032x}"
    post(service, [*chat(late, now_ns - 200 * 10**9), *chat(soon, now_ns - 10**9)])
    service.request(late)
    service.request(soon)

    assert "ledger written 3 min " in service.get(f"/requests/{late}").text
    assert "ledger written" not in service.get(f"/requests/{soon}").text


def test_a_trace_is_saved_for_perfetto(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}") as (page, _):
        address = page.get_by_role("link", name="for Perfetto").get_attribute("href")
        answer = service.get(str(address))

    events = answer.json()["traceEvents"]
    assert SLOW_TRACE in answer.headers["content-disposition"]
    assert "search passages" in {event["name"] for event in events if event["ph"] == "X"}
    path = [event for event in events if event.get("cat") == "critical_path"]
    assert sum(event["dur"] for event in path) == pytest.approx(4.6e6, rel=0.01)


def swipe(page: Page, selector: str, across: int, down: int) -> None:
    """Draw a finger over an element, as a phone reports it."""
    target = page.locator(selector)
    target.evaluate("element => element.scrollIntoView({block: 'center'})")
    box = target.bounding_box()
    assert box is not None
    x, y = page.evaluate("innerWidth") - 80, box["y"] + box["height"] * 0.6
    finger = page.context.new_cdp_session(page)
    for step in range(11):
        at = {"x": x + across * step / 10, "y": y + down * step / 10}
        kind = "touchMove" if step else "touchStart"
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
        page.evaluate("new Promise(requestAnimationFrame)")
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_on_the_heat_map_scrolls_it_and_the_page(
    service: RunningService, browser: Browser
) -> None:
    phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    left = "document.querySelector('svg.heat').closest('.scroll').scrollLeft"
    with opened(browser, f"{service.url}/breakdown?since=2h", **phone) as (page, watched):
        page.locator("svg.heat[data-ready]").wait_for()
        newest = page.evaluate(left)
        swipe(page, "svg.heat", 150, 0)
        older = page.evaluate(left)
        before = page.evaluate("scrollY")
        swipe(page, "svg.heat", 0, 120)

        assert older < newest
        assert page.evaluate("scrollY") < before
        assert page.locator(".heat .brush").get_attribute("width") in {None, "0"}
        assert urlsplit(page.url).path == "/breakdown"
        assert watched.errors == []


def test_the_numbers_of_a_picture_that_is_wider_than_a_phone_stay_in_sight(
    service: RunningService, browser: Browser
) -> None:
    phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    first = ".heat .axis[text-anchor=end]"
    with opened(browser, f"{service.url}/breakdown?since=2h", **phone) as (page, _):
        page.locator("svg.heat[data-ready]").wait_for()
        newest = page.locator(first).first.bounding_box()
        swipe(page, "svg.heat", 150, 0)
        page.evaluate("new Promise(requestAnimationFrame)")
        older = page.locator(first).first.bounding_box()

        assert newest is not None
        assert older is not None
        assert 0 <= newest["x"] < newest["width"] + 80
        assert older["x"] == pytest.approx(newest["x"], abs=2)


def test_a_finger_on_the_ruler_of_a_waterfall_scrolls_the_page(
    service: RunningService, browser: Browser
) -> None:
    phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}", **phone) as (page, _):
        row(page, "search passages").wait_for()
        page.evaluate("scrollTo(0, 0)")
        swipe(page, "#overview-bar", 0, -120)

        assert page.evaluate("scrollY") > 0
        assert page.locator("#overview-bar .brush").count() == 0


def test_a_link_to_a_span_opens_it(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}") as (page, _):
        row(page, "prefill").click()
        expect(page.locator("#detail h2")).to_have_text("prefill")
        address = page.url
    with opened(browser, address) as (page, _):
        expect(page.locator("#detail h2")).to_have_text("prefill")
        expect(row(page, "prefill")).to_have_attribute("aria-selected", "true")


def test_the_waterfall_is_walked_with_keys(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}") as (page, _):
        first = page.locator(".grid-row").first
        first.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".grid-row:visible")).to_have_count(1)
        expect(first).to_have_attribute("aria-expanded", "false")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")

        expect(page.locator("#detail h2")).to_have_text("POST rag")


def test_an_exception_is_named_and_leads_to_its_span(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/requests/{FAILED_TRACE}") as (page, _):
        problem = page.locator(".problem")
        expect(problem).to_contain_text("TimeoutError in search passages")
        problem.get_by_role("link").click()

        expect(page.locator("#detail h2")).to_have_text("search passages")


def test_hostile_names_are_text(service: RunningService, browser: Browser) -> None:
    for path in ("/", "/breakdown", "/requests", f"/requests/{HOSTILE_TRACE}"):
        with opened(browser, f"{service.url}{path}") as (page, watched):
            said = page.content()

            assert "<script>alert" not in said
            assert not re.search("[\x1b\u202e]", without_values(said))
            assert watched.errors == []


def test_a_request_that_pauses_and_that_no_span_explains_is_shown_so(
    service: RunningService, browser: Browser
) -> None:
    start_ns = time.time_ns() - 3 * HOUR_NS  # before what other tests ask for
    gaps = f"{RuntimeGap.GARBAGE_COLLECTION}:0+{2 * MS};{RuntimeGap.EVENT_LOOP_LAG}:{5 * MS}+{MS}"
    root = one_span(
        PAUSED_TRACE,
        start_ns=start_ns,
        end_ns=start_ns + 90 * MS,
        attributes={"http.route": "/paused", semconv.RUNTIME_GAPS: gaps},
    )
    post(service, [replace(root, service="paused")])
    service.request(PAUSED_TRACE)

    check_sound(browser, service.url, "/breakdown?service=paused&since=4h")
    with opened(browser, f"{service.url}/requests/{PAUSED_TRACE}", viewport=PHONE) as (page, _):
        held = page.locator(".held")
        expect(held).to_contain_text("87.0 ms, 96.7 % of the request, is time that no span")
        expect(held).to_contain_text("Longest wait:")


def test_a_huge_trace_is_searched_with_few_elements(
    service: RunningService, browser: Browser
) -> None:
    spans = list(huge(HUGE_TRACE, time.time_ns() - 30 * 10**9, HUGE))
    post(service, reversed(spans))  # its root comes last: until then it is open
    service.request(HUGE_TRACE)
    with opened(browser, f"{service.url}/requests/{HUGE_TRACE}") as (page, watched):
        expect(page.locator("#waterfall")).to_contain_text(f"{HUGE:,} spans")
        expect(page.locator(".held")).to_contain_text("Many short waits: database")
        tools = HUGE // 10  # below the request; what is below them is closed at first
        expect(page.locator(".grid")).to_have_attribute(
            "aria-rowcount", str(2 + tools)
        )  # with the header
        page.locator("#find").fill("call 9123")
        expect(row(page, "call 9123")).to_be_visible()
        row(page, "call 9123").click()
        page.keyboard.press("f")
        expect(page.locator(".ruler span").last).to_have_text("+182 µs")
        page.keyboard.press("0")

        page.get_by_role("button", name="Expand all").click()
        expect(page.locator(".grid")).to_have_attribute("aria-rowcount", str(1 + HUGE))
        page.get_by_role("button", name="Collapse all").click()
        root = page.locator(".grid-row").first
        root.locator(".twist").click()
        held_up = root.locator("path.path").get_attribute("d") or ""
        assert 0 < held_up.count("M") <= 500  # its children's, by pixel
        assert page.evaluate("document.querySelectorAll('*').length") < 2000
        assert watched.errors == []


def test_what_is_not_there_is_said_with_what_to_do(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/requests/{'f' * 32}") as (page, _):
        expect(page.locator(".problem")).to_contain_text("never arrived, or is no longer kept")
    with opened(browser, f"{service.url}/breakdown?since=yesterday") as (page, _):
        expect(page.locator(".problem")).to_contain_text("is not a valid time")
    with opened(browser, f"{service.url}/breakdown?route=nothing&since=2h") as (page, _):
        page.get_by_role("link", name=re.compile("without route")).click()
        expect(page.locator(".facts strong")).to_contain_text("requests")


def test_programs_are_answered_as_before(service: RunningService) -> None:
    answer = service.get("/nowhere", {"accept": "*/*"})

    assert answer.headers["content-type"] == "application/problem+json"
    assert "/openapi.json" in answer.json()["detail"]


PROGRAM = """
import sqlite3, sys
import latencytrace
with latencytrace.request("nightly"):
    sqlite3.connect(":memory:").execute("select 1")
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that an agent reports to."""
    with RunningService(tmp_path_factory.mktemp("reported") / "data") as running:
        run = (*COMMAND, "run", "--endpoint", running.otlp, "--", sys.executable, "-c", PROGRAM)
        with subprocess.Popen(run, stdin=subprocess.PIPE, env=environment()):
            until(lambda: running.ask("/breakdown")["requests"] == 1, running.said)
            until(lambda: 'hook="sqlite"' in running.get("/metrics").text, running.said)
            yield running


@pytest.mark.parametrize("path", ["/health"], ids=["health"])
def test_the_page_of_health_is_sound(
    reported: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, reported.url, path, picture)


def test_health_names_the_agents_and_their_hooks(
    reported: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{reported.url}/health") as (page, _):
        agents = page.get_by_role("group", name="Agents").locator("tbody tr")
        expect(agents).to_have_count(1)
        expect(agents.locator("td[data-label=Hooked]")).to_contain_text("sqlite")
        expect(agents.locator("td[data-label=Dropped]")).to_have_text("0")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("guarded")
    everywhere = "0.0.0.0:0"
    with RunningService(
        folder / "data", "--listen", everywhere, env={"LATENCYTRACE_TOKEN": TOKEN}
    ) as running:
        yield running


@pytest.mark.parametrize("path", ["/login"], ids=["login"])
def test_the_login_page_is_sound(
    guarded: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, guarded.url, path, picture)


def test_a_token_is_exchanged_for_a_cookie(guarded: RunningService, browser: Browser) -> None:
    with opened(browser, f"{guarded.url}/requests?since=2h") as (page, _):
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not the token")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Requests")

        assert page.url == f"{guarded.url}/requests?since=2h"
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert TOKEN not in cookie["value"]
        assert page.request.get(f"{guarded.url}/api/v1/services").ok


def stranger(guarded: RunningService, path: str, headers: dict[str, str]) -> httpx.Response:
    """Ask as somebody who never logged in."""
    guarded.client.cookies.clear()
    return guarded.get(path, headers)


def test_programs_without_a_token_are_refused_as_before(guarded: RunningService) -> None:
    refused = stranger(guarded, "/api/v1/services", {})
    forged = stranger(
        guarded,
        "/api/v1/services",
        {"cookie": f"latencytrace_{urlsplit(guarded.url).port}=9999999999.0"},
    )

    assert (refused.status_code, forged.status_code) == (401, 401)
    assert refused.headers["content-type"] == "application/problem+json"


def test_a_link_from_elsewhere_is_followed_with_the_cookie(guarded: RunningService) -> None:
    from_chat = {"accept": "text/html", "sec-fetch-site": "cross-site"}
    first = stranger(guarded, "/requests?since=2h", from_chat)
    again = stranger(guarded, "/requests?since=2h&came=1", from_chat)

    assert (first.status_code, again.status_code) == (200, 401)
    assert "url=/requests?since=2h&amp;came=1" in first.text


@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example", "/\\evil"])
def test_a_login_never_leads_elsewhere(guarded: RunningService, elsewhere: str) -> None:
    answer = guarded.client.post(
        f"{guarded.url}/login", data={"token": TOKEN, "next": elsewhere}, follow_redirects=False
    )

    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_form_of_another_site_does_not_log_in(guarded: RunningService) -> None:
    answer = guarded.client.post(
        f"{guarded.url}/login",
        data={"token": TOKEN},
        headers={"origin": "https://evil.example"},
    )

    assert answer.status_code == 403
