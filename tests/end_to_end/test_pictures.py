"""Pictures of long, deep and narrow times in a real browser: words, axes and keys."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from latencytrace.model import Span, SpanKind, semconv
from latencytrace.model.objective import HOUR_NS, MINUTE_NS
from latencytrace.model.texts.units import duration
from tests.support.builders.seen_traffic import FAILED_TRACE, MS, SLOW_TRACE, span_id, traffic
from tests.support.builders.spans.otlp_messages import message, one_span
from tests.support.servers.browser import SCREENS, check_sound, opened
from tests.support.servers.running_service import RunningService

pytestmark = pytest.mark.long

SECOND_NS = 10**9
DEEP_TRACE = f"{21:032x}"
LEVELS = 61
READABLE_PX = 90
PHONE = SCREENS["phone"]
DESK = {"viewport": {"width": 1280, "height": 900}}
SIZES = {"desk": DESK, "phone": PHONE}


def deep(start_ns: int) -> Iterator[Span]:
    """A request of three hours, each of whose spans but the last has one below it."""
    for level in range(LEVELS):
        lasted_ns = 3 * HOUR_NS if level == 0 else 567 * SECOND_NS + (LEVELS - level) * MINUTE_NS
        span = one_span(
            DEEP_TRACE,
            span_id(DEEP_TRACE, level),
            parent_id=span_id(DEEP_TRACE, level - 1) if level else None,
            name=f"call {level} of an agent that calls itself",
            kind=SpanKind.INTERNAL if level else SpanKind.SERVER,
            start_ns=start_ns + level * SECOND_NS,
            end_ns=start_ns + level * SECOND_NS + lasted_ns,
            attributes={semconv.STAGE: "tool"} if level else {"http.route": "/deep"},
        )
        yield replace(span, service="agent")


def alike(service: str, starts_ns: Sequence[int], lasted_ns: int, first: int) -> Iterator[Span]:
    """Requests that take about as long."""
    for number, start_ns in enumerate(starts_ns):
        trace_id = f"{first + number:032x}"
        span = one_span(
            trace_id,
            span_id(trace_id, 0),
            start_ns=start_ns,
            end_ns=start_ns + lasted_ns + lasted_ns * (number % 3) // 100,
            attributes={"http.route": "/alike"},
        )
        yield replace(span, service=service)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    now_ns = time.time_ns()
    spans = [
        *traffic(now_ns),
        *deep(now_ns - 4 * HOUR_NS),
        *alike(
            "batch", [now_ns - (5 * at + 95) * MINUTE_NS for at in range(30)], 83 * MINUTE_NS, 3000
        ),
        *alike("narrow", [now_ns - at * MINUTE_NS for at in range(1, 30)], 80 * MS, 4000),
    ]
    with RunningService(tmp_path_factory.mktemp("pictures") / "data") as running:
        assert running.post(message(spans).SerializeToString()).is_success
        for trace_id in (DEEP_TRACE, SLOW_TRACE, FAILED_TRACE, f"{3029:032x}", f"{4028:032x}"):
            running.request(trace_id)
        yield running


def in_view(page: Page, name: str) -> Locator:
    """A row of the waterfall, which is scrolled to."""
    page.locator(".grid[data-ready]").wait_for()
    page.locator("#find").fill(name)
    found = page.locator(".grid-row.hit", has_text=name).first
    found.wait_for()
    return found


def test_scripts_write_durations_in_the_words_of_the_service(
    service: RunningService, browser: Browser
) -> None:
    powers = [head * 10**power for power in range(18) for head in (1, 2.5, 6.125, 9.994, 9.995)]
    borders = [
        edge + step
        for edge in (995, 999_499, 999_500, 9_995_000, 99_950_000, 59_997 * MS, 3600 * SECOND_NS)
        for step in (-1, 0, 1)
    ]
    halves = [eighths * unit / 8 for eighths in range(1, 400, 3) for unit in (1000, MS, SECOND_NS)]
    longer = [seconds * SECOND_NS / 4 for seconds in range(200, 800_000, 211)]
    values = [0, 0.5, 10800 * SECOND_NS, *powers, *borders, *halves, *longer]
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}") as (page, watched):
        said = page.evaluate(
            """async (values) => {
              const trace = document.querySelector('script[src$="/trace.js"]').src;
              const { duration } = await import(new URL('duration.js', trace));
              return values.map(duration);
            }""",
            values,
        )

    assert said == [duration(value) for value in values]
    assert watched.errors == []


@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES)
def test_a_waterfall_says_hours_and_minutes(
    service: RunningService, browser: Browser, options: dict[str, Any]
) -> None:
    with opened(browser, f"{service.url}/requests/{DEEP_TRACE}", **options) as (page, _):
        first = page.locator(".grid-row").first
        expect(first.locator(".took")).to_have_text("3 h 00 min")
        expect(page.locator(".ruler span").last).to_have_text("3 h 00 min")
        expect(in_view(page, "call 60 ").locator(".took")).to_have_text("10 min 27 s")


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES)
def test_names_are_readable_however_deep(
    service: RunningService,
    browser: Browser,
    options: dict[str, Any],
    media: Literal["print", "screen"],
) -> None:
    room = """row => row.querySelector('.name').getBoundingClientRect().right
        - row.querySelector('.name > span:not(.level)').getBoundingClientRect().left"""
    left = "row => row.querySelector('.twist').getBoundingClientRect().left"
    with opened(browser, f"{service.url}/requests/{DEEP_TRACE}", **options) as (page, _):
        last = in_view(page, "call 60 ")
        page.emulate_media(media=media)
        rows = page.locator(".grid-row:visible")
        lefts = [one.evaluate(left) for one in rows.all()]

        assert last.evaluate(room) >= READABLE_PX
        assert len(set(lefts)) == len(lefts)  # the tree is still to be seen
        expect(last.locator(".level")).to_have_text("61")
        expect(last).to_have_attribute("aria-level", "61")


@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES)
def test_without_javascript_no_number_is_cut_and_no_name_disappears(
    service: RunningService, browser: Browser, options: dict[str, Any]
) -> None:
    address = f"{service.url}/requests/{DEEP_TRACE}"
    cut = (
        "cells => cells.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
    )
    room = """cell => cell.getBoundingClientRect().right
        - cell.querySelector('a').getBoundingClientRect().left"""
    with opened(browser, address, java_script_enabled=False, **options) as (page, _):
        names = page.locator(".waterfall tbody th")
        expect(names).to_have_count(LEVELS)

        assert page.locator(".waterfall td.n").evaluate_all(cut) == []
        assert names.last.evaluate(room) >= READABLE_PX
        expect(names.last.locator(".level")).to_have_text("61")


@pytest.mark.parametrize("path", [f"/requests/{DEEP_TRACE}", "/breakdown?service=batch&since=6h"])
def test_a_page_of_long_times_is_sound(
    service: RunningService, browser: Browser, path: str
) -> None:
    check_sound(browser, service.url, path)


@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES)
def test_the_columns_of_a_waterfall_have_headers(
    service: RunningService, browser: Browser, options: dict[str, Any]
) -> None:
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}", **options) as (page, _):
        grid = page.get_by_role("treegrid")
        grid.get_by_role("rowheader", name="search passages").wait_for()
        headers = grid.get_by_role("columnheader")
        cells = grid.get_by_role("row").last.locator("> [role]")

        expect(headers).to_have_count(5)
        names = ("Span", "Stage", "Critical path", "Duration", "Over time")
        for place, name in enumerate(names):
            expect(headers.nth(place)).to_have_accessible_name(name)
        expect(cells).to_have_count(5)
        expect(grid).to_have_attribute("aria-rowcount", "9")  # the header is one


def test_numbers_of_a_waterfall_on_a_phone_say_what_they_are(
    service: RunningService, browser: Browser
) -> None:
    label = "one => getComputedStyle(one, '::before').content"
    with opened(browser, f"{service.url}/requests/{SLOW_TRACE}", **PHONE) as (page, _):
        found = in_view(page, "search passages")

        expect(found.locator(".took")).to_be_visible()
        expect(found.locator(".stage-name")).to_be_visible()
        assert found.locator(".took").evaluate(label) == '"duration "'
        assert found.locator(".held-up").evaluate(label) == '"critical path "'


def picture(page: Page, kind: str) -> tuple[Locator, dict[str, Any]]:
    """A picture with the focus, and where its cells lie."""
    found = page.locator(f"svg.{kind}[data-ready]")
    scale: dict[str, Any] = json.loads(str(found.get_attribute("data-scale")))
    found.focus()
    return found, scale


def press(page: Page, key: str, times: int) -> str:
    """Press a key so often; what the page then says."""
    for _ in range(times):
        page.keyboard.press(key)
    return page.locator("#said").inner_text()


def marked(found: Locator) -> dict[str, float]:
    """Where the cursor of a picture is."""
    brush = found.locator(".brush")
    return {name: float(brush.get_attribute(name) or 0) for name in ("x", "y", "width", "height")}


def test_the_cursor_stays_on_the_stages_over_time(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=7d") as (page, watched):
        found, scale = picture(page, "timeline")
        end = press(page, "ArrowRight", 80)
        right = marked(found)
        begin = press(page, "ArrowLeft", 80)
        left = marked(found)
        press(page, "ArrowRight", 80)
        page.keyboard.press("Enter")
        page.wait_for_url("**until=**")

        assert left["x"] == pytest.approx(scale["left"])
        assert 900 - scale["column"] <= right["x"] < 900
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: \d+ requests, mean", end)
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: no request", begin)
        (until,) = parse_qs(urlsplit(page.url).query)["until"]
        assert until <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
        assert watched.errors == []


def test_the_cursor_stays_on_the_heat_map(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, _):
        found, scale = picture(page, "heat")
        rows = [row for _, row, _ in scale["cells"]]
        press(page, "ArrowRight", 70)
        press(page, "ArrowUp", 30)
        corner = marked(found)
        press(page, "ArrowLeft", 70)
        press(page, "ArrowDown", 30)
        other = marked(found)

        assert 900 - scale["column"] <= corner["x"] < 900
        assert corner["y"] == pytest.approx(scale["zero"] - (max(rows) + 1) * scale["row"])
        assert other["x"] == pytest.approx(scale["left"])
        assert other["y"] == pytest.approx(scale["zero"] - (min(rows) + 1) * scale["row"])


def test_a_bump_of_the_heat_map_is_selected_with_keys(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, watched):
        _, scale = picture(page, "heat")
        slowest_column, slowest_row, _ = max(scale["cells"], key=lambda cell: cell[1])
        slow = [(column, row) for column, row, _ in scale["cells"] if column < slowest_column]
        top = max(row for _, row in slow)
        bump = [column for column, row in slow if row > top - 4]
        alone = press(page, "ArrowDown", slowest_row - top)
        press(page, "ArrowLeft", slowest_column - max(bump))
        press(page, "Shift+ArrowDown", 3)
        said = press(page, "Shift+ArrowLeft", max(bump) - min(bump))
        page.keyboard.press("Enter")

        assert "from " in alone
        assert re.match(r"12 requests, .* s to .* s, from .* UTC until .* UTC: why\?$", said)
        expect(page.get_by_role("heading", level=1)).to_have_text("Why slow")
        expect(page.get_by_role("main")).to_contain_text("the 12 requests you selected")
        assert watched.errors == []


def test_a_stretch_of_the_stages_over_time_is_selected_with_keys(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, _):
        picture(page, "timeline")
        press(page, "ArrowLeft", 1)
        said = press(page, "Shift+ArrowLeft", 2)
        page.keyboard.press("Enter")
        page.wait_for_url("**until=**")

        expect(page.locator(".facts strong")).to_have_text(said.rpartition(": ")[2])
        assert re.match(r"\S+ \S+ UTC until \S+ \S+ UTC: \d+ requests$", said)


def test_escape_selects_nothing(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, _):
        found, scale = picture(page, "heat")
        press(page, "Shift+ArrowLeft", 5)
        wide = marked(found)["width"]
        press(page, "Escape", 1)
        none = marked(found)["width"]
        press(page, "ArrowRight", 1)

        assert wide == pytest.approx(6 * scale["column"])
        assert none == 0
        assert marked(found)["width"] == pytest.approx(scale["column"])


def test_one_request_is_said_in_the_singular(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=7d&duration=4s..") as (
        page,
        _,
    ):
        picture(page, "heat")
        expect(page.locator("#said")).to_contain_text(re.compile("^1 request, .* from .* UTC"))
        picture(page, "timeline")
        expect(page.locator("#said")).to_contain_text(re.compile("^[-0-9]+ .* UTC: 1 request, "))


def test_pictures_that_take_keys_say_so(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, _):
        page.locator("svg.heat[data-ready]").wait_for()
        pictures = page.get_by_role("application")

        expect(pictures).to_have_count(2)
        for one in pictures.all():
            expect(one).to_have_attribute("aria-roledescription", "interactive picture")
            expect(one).to_have_accessible_description(re.compile("Shift.*Enter.*Escape"))
        page.locator("#keys summary").click()
        expect(page.locator("#keys")).to_contain_text("with an arrow selects more")
    address = f"{service.url}/breakdown?service=rag"
    with opened(browser, address, java_script_enabled=False) as (page, _):
        expect(page.locator("svg[tabindex]")).to_have_count(0)  # nothing takes keys


@pytest.mark.parametrize("wanted", ["batch&since=6h", "narrow&since=2h", "rag&since=7d"])
def test_axes_have_whole_labels_in_round_durations_and_name_their_time_zone(
    service: RunningService, browser: Browser, wanted: str
) -> None:
    outside = """texts => texts.filter(one => one.getBBox().x < 0
        || one.getBBox().x + one.getBBox().width > 900).map(one => one.textContent)"""
    with opened(browser, f"{service.url}/breakdown?service={wanted}") as (page, _):
        for kind in ("timeline", "heat"):
            texts = page.locator(f"svg.{kind} text.axis")
            durations = page.locator(f"svg.{kind} text[text-anchor=end]")
            assert texts.evaluate_all(outside) == []
            assert durations.count() >= 1
            assert not [
                one for one in durations.all_text_contents() if one.endswith((" 00 min", ".00 s"))
            ]
            moments = page.locator(f"svg.{kind} text.axis:not([text-anchor=end])")
            expect(moments.last).to_have_text(re.compile(" UTC$"))


def test_a_form_that_leads_nowhere_can_be_filled_on(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=rag&since=2h") as (page, _):
        asked = []
        page.route("**/breakdown?**", lambda route: route.fulfill(status=204))
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("button", name="Apply").click()
        page.wait_for_timeout(100)

        expect(page.get_by_label("Route")).to_be_enabled()
        expect(page.locator("form.cohort :disabled")).to_have_count(0)
        assert [urlsplit(one).query for one in asked] == ["service=rag&since=2h"]


@pytest.mark.parametrize(
    "path",
    [
        "/breakdown?service=rag&where=tenant%3Dacme&where=tier%3Dgold",
        "/requests?service=rag&since=2h&order=newest&limit=3",
        "/tail?since=90m&quantile=0.9",
        "/compare?a=since%3D2h%26until%3D10m&b=since%3D10m&service=rag&least=7",
    ],
)
def test_the_address_that_is_copied_means_the_same_time_tomorrow(
    service: RunningService, browser: Browser, path: str
) -> None:
    may = {"permissions": ["clipboard-read", "clipboard-write"]}
    relative = re.compile(r"(since|until)=\d+[mhd]\b")
    with opened(browser, f"{service.url}{path}", **may) as (page, _):
        page.keyboard.press("y")
        expect(page.locator("#said")).to_have_text("The address is copied.")
        copied = page.evaluate("navigator.clipboard.readText()")
    before, after = (parse_qs(urlsplit(one).query) for one in (path, copied))
    times = {"since", "until"}

    assert urlsplit(copied)[:3] == (*urlsplit(service.url)[:2], urlsplit(path).path)
    assert times <= set(after)
    assert not [text for texts in after.values() for text in texts if relative.search(text)]
    assert {name: texts for name, texts in after.items() if name not in {*times, "a", "b"}} == {
        name: texts for name, texts in before.items() if name not in {*times, "a", "b"}
    }
    with opened(browser, copied) as (page, watched):
        assert watched.status == 200
        expect(page.locator(".problem")).to_have_count(0)
