"""The pages that explain, forecast and compare cohorts, in a real browser."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from tests.support.builders.compared_versions import REQUESTS as OF_EACH
from tests.support.builders.compared_versions import VERSIONS, compared_versions
from tests.support.builders.seen_traffic import HOSTILE
from tests.support.builders.slow_searches import REQUESTS, SLOW_EVERY, slow_searches
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.few import few
from tests.support.servers.browser import (
    check_sound,
    opened,
    violations,
    without_values,
)
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

TAIL = "/tail?service=search&quantile=0.95"
EVIL = f"svc {HOSTILE}"
EVIL_TAIL = f"/tail?{urlencode({'service': EVIL, 'quantile': '0.95'})}"
WHATIF = "/whatif?service=search&stage=retrieve"
SLOWER = "/compare?a=version%3D1&b=version%3Dslower-search"
EVIL_COMPARE = f"/compare?{urlencode({'a': urlencode({'service': EVIL}), 'b': 'service=search'})}"
PAGES = {
    "tail": TAIL,
    "hostile tail": EVIL_TAIL,
    "tail of few": "/tail?service=search",
    "tail of none": "/tail?service=nobody",
    "tail of a selection": f"{TAIL}&selected=1s..9s&selected_until=1s",
    "tail of an empty selection": f"{TAIL}&selected=900s..",
    "hostile comparison": EVIL_COMPARE,
    "comparison of what is proposed": "/compare",
    "what if": WHATIF,
    "what if of no stage": "/whatif",
}
WRONG = {
    "tail of a wrong quantile": "/tail?quantile=2",
    "tail of a wrong selection": "/tail?selected=never",
    "tail of a selection without durations": "/tail?selected_since=1h",
    "comparison of nonsense": "/compare?a=nonsense",
    "comparison of a wrong filter": "/compare?a=version%3D1&b=sevice%3Drag",
    "what if of too much": f"{WHATIF}&amount=200",
    "what if of a stage that is none": "/whatif?stage=nothing",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that holds slow searches, once more with hostile names."""
    kept = {"LATENCYTRACE_CAPTURE_CONTENT": "1"}  # else most hostile names would be taken out
    with RunningService(tmp_path_factory.mktemp("analyses") / "data", env=kept) as running:
        plain = [replace(span, service="search") for span in slow_searches()]
        evil = [replace(span, service=EVIL) for span in slow_searches(HOSTILE, 10_000)]
        for spans in (plain, evil):
            assert running.post(otlp(*spans)).is_success
        until(lambda: running.ask("/breakdown")["requests"] == 2 * REQUESTS, running.said)
        yield running


@pytest.mark.parametrize("path", few(3, PAGES.values()), ids=PAGES)
def test_a_page_is_sound(
    service: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, service.url, path, picture)


@pytest.mark.parametrize("path", few(3, WRONG.values()), ids=WRONG)
def test_a_wrong_parameter_is_refused_by_the_page_that_has_its_form(
    service: RunningService, browser: Browser, path: str
) -> None:
    with opened(browser, f"{service.url}{path}") as (page, watched):
        expect(page.locator(".problem").first).to_be_visible()
        expect(page.get_by_role("search")).to_be_visible()
        assert violations(page) == []

    assert watched.status == 400


@pytest.mark.parametrize("path", [EVIL_TAIL, EVIL_COMPARE])
def test_hostile_names_are_text(service: RunningService, browser: Browser, path: str) -> None:
    with opened(browser, f"{service.url}{path}") as (page, watched):
        said = page.content()

        expect(page.get_by_role("main")).to_contain_text("<script>alert(1)")
        assert "<script>alert" not in said
        assert not re.search("[\x1b\u202e]", without_values(said))
        assert watched.errors == []


def test_the_cause_is_two_clicks_from_the_breakdown_and_the_guilty_span_a_third(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/breakdown?service=search") as (page, watched):
        page.get_by_role("link", name="why the slowest are slow").first.click()
        page.get_by_role("link", name="take the slowest 5 %").click()
        expect(page.locator(".verdict")).to_contain_text(
            "Slower dependency: 100.0 % of slow requests have collection big"
        )
        page.locator(".examples").get_by_role("link").first.click()

        expect(page.locator("#detail h2")).to_have_text("a span of retrieve")
        assert watched.errors == []


def test_the_tail_says_the_same_as_the_api(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}{TAIL}") as (page, _):
        address = page.get_by_role("link", name="JSON", exact=True).get_attribute("href")
        found: Any = service.get(str(address)).json()

        assert (found["requests"], found["quantile"]) == (REQUESTS, 0.95)
        expect(page.locator(".verdict strong")).to_have_text(found["cause"]["sentence"])
        retrieve = page.locator(".stages tr", has_text="retrieve")
        expect(retrieve).to_contain_text(f"{found['stages'][0]['excess_ns'] / 1e6:.0f} ms")
        expect(retrieve).to_contain_text(f"{found['stages'][0]['low_ns'] / 1e6:.0f} ms …")


@pytest.mark.parametrize(
    "path", [TAIL, EVIL_TAIL], ids=["an attribute", "an attribute with a hostile value"]
)
def test_what_sets_the_tail_apart_leads_to_those_requests(
    service: RunningService, browser: Browser, path: str
) -> None:
    with opened(browser, f"{service.url}{path}") as (page, _):
        page.get_by_role(
            "link", name=re.compile("see them: slow requests with collection")
        ).click()

        expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
        expect(page.locator(".bar-line")).to_contain_text("20 of 20 requests")


def test_a_longer_time_is_offered_until_there_is_none(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/tail?service=search") as (page, _):
        for since in ("1d", "7d", "30d"):
            page.get_by_role("link", name=f"take the requests of the last {since}").click()
            expect(page.get_by_label("Since")).to_have_value(since)

        expect(page.get_by_role("link", name="take the slowest 5 %")).to_be_visible()
        expect(page.get_by_role("link", name="take the requests of")).to_have_count(0)


def test_the_tail_begins_where_the_picker_says(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}/tail?service=search") as (page, _):
        expect(page.locator(".verdict")).to_contain_text("400 of at least 1,000")
        page.get_by_label("Slowest").select_option("0.9")
        page.get_by_role("button", name="Apply").click()

        expect(page.locator(".facts")).to_contain_text("slow: 40 requests above p90")
        expect(page.get_by_label("Service")).to_have_value("search")


@pytest.mark.parametrize(
    ("selected", "said"),
    [
        ("1ns..112ms", "these take no longer than the requests around the median"),
        ("1ns..", "all requests around the median are selected"),
        ("900s..", "0 requests selected, it takes 10"),
        ("500ms..", "Slower dependency: 100.0 % of slow requests have collection big"),
    ],
)
def test_a_selection_is_explained_or_it_says_why_not(
    service: RunningService, browser: Browser, selected: str, said: str
) -> None:
    with opened(browser, f"{service.url}/tail?service=search&selected={selected}") as (page, _):
        expect(page.locator("#cause")).to_contain_text(said)


def test_requests_that_were_selected_are_those_of_the_cohort(
    service: RunningService, browser: Browser
) -> None:
    asked = "service=search&duration=..975ms&selected=500ms.."
    with opened(browser, f"{service.url}/tail?{asked}") as (page, _):
        found: Any = service.ask(f"/tail?{asked}")["tail_requests"]
        assert 0 < found < REQUESTS / SLOW_EVERY
        page.locator(".facts").get_by_role("link", name=f"{found} requests").click()

        expect(page.locator(".bar-line")).to_contain_text(f"{found} of {found} requests")


def test_a_faster_stage_is_forecast_as_the_api_does(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/whatif?service=search") as (page, watched):
        page.locator("select[name=stage]").select_option("retrieve")
        page.get_by_label("were", exact=True).fill("80")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".verdict")).to_contain_text(
            re.compile(r"If retrieve were 80 % faster: p50 [\d.]+ % faster, p95")
        )
        address = page.get_by_role("link", name="JSON", exact=True).get_attribute("href")
        found: Any = service.get(str(address)).json()

        assert "faster=0.8" in str(address)
        assert found["duration_ns"]["p95"]["then"] < 0.5 * found["duration_ns"]["p95"]["now"]
        then_ms = found["duration_ns"]["p95"]["then"] / 1e6
        expect(page.locator(".forecast tr", has_text="p95")).to_contain_text(f"{then_ms:.0f} ms")
        expect(page.locator(".facts")).to_contain_text(
            f"Back-tested error: {100 * found['error_ratio']:.1f} %"
        )
        assert watched.errors == []


def test_calls_of_a_stage_are_cut_short(service: RunningService, browser: Browser) -> None:
    with opened(browser, f"{service.url}{WHATIF}") as (page, _):
        page.get_by_label("were", exact=True).fill("20")
        page.get_by_label("Unit").select_option("ms at most")
        page.get_by_role("button", name="Apply").click()

        expect(page.locator(".verdict")).to_contain_text(
            "no call of retrieve took longer than 20 ms"
        )
        exported = page.get_by_role("link", name="JSON", exact=True)
        expect(exported).to_have_attribute("href", re.compile("at_most_ms=20"))


def test_the_cause_of_the_tail_leads_to_what_mending_it_would_give(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}{TAIL}") as (page, _):
        page.get_by_role("link", name="What if retrieve were 50 % faster?").click()

        expect(page.locator(".verdict")).to_contain_text(
            re.compile("If retrieve were 50 % faster: p50 [0-9.]+ % f")
        )
        page.get_by_role("link", name="decode: if 50 % faster").click()
        expect(page.locator(".verdict")).to_contain_text(
            re.compile("If decode were 50 % faster: p50 [0-9.]+ % f")
        )
        expect(page.get_by_label("Service")).to_have_value("search")


@pytest.mark.parametrize(
    ("path", "said"),
    few(
        4,
        [
            ("/tail?quantile=2", "quantile: Input should be less than or equal to 0.9999"),
            ("/tail?quantile=much", "quantile: Input should be a valid number"),
            ("/compare?service=nobody", "without service: "),
            ("/compare?a=nonsense", "'nonsense' is no cohort: write KEY=VALUE"),
            ("/compare?a=colour%3Dred", "'colour' is no filter of requests: use service"),
            ("/compare?a=baseline:gone", "gone"),
            ("/compare?a=since%3Dyesterday", "is not a valid time"),
            ("/compare?a=service%3Dsearch&least=much", "least: Input should be a valid number"),
            ("/compare?a=service%3Dnobody", "a side is empty: say which requests"),
            ("/compare?a=service%3Dnobody&b=since%3D1h", "Before: 0 requests; after: 800"),
            ("/whatif", "Choose a stage"),
            (f"{WHATIF}&amount=200", "amount: a stage can be 100 % faster at most, not 200 %"),
            (f"{WHATIF}&amount=some", "amount: Input should be a valid number"),
            (f"{WHATIF}&change=at_most_ms", "say how many milliseconds"),
            ("/whatif?stage=search", "stage 'search' is not known: use"),
            ("/whatif?stage=retrieve&service=nobody", "without service: "),
            ("/tail?since=yesterday", "is not a valid time"),
            ("/tail?service=nobody", "without service: "),
        ],
    ),
)
def test_what_cannot_be_shown_is_said_with_what_to_do(
    service: RunningService, browser: Browser, path: str, said: str
) -> None:
    with opened(browser, f"{service.url}{path}", java_script_enabled=False) as (page, _):
        expect(page.get_by_role("main")).to_contain_text(said)


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that holds three versions, of which a baseline is saved."""
    with RunningService(tmp_path_factory.mktemp("versions") / "data") as running:
        for spans in compared_versions():
            assert running.post(otlp(*spans)).is_success
        wanted = OF_EACH * len(VERSIONS)
        until(lambda: running.ask("/breakdown")["requests"] == wanted, running.said)
        saved = running.client.put(
            f"{running.url}/api/v1/baselines/release-1", json={"cohort": "version=1"}
        )
        assert saved.is_success
        yield running


@pytest.mark.parametrize("path", [SLOWER], ids=["compare"])
def test_a_comparison_is_sound(
    versions: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, versions.url, path, picture)


def test_a_slower_version_is_named_with_its_stage_as_the_api_does(
    versions: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{versions.url}/compare") as (page, watched):
        page.get_by_role("combobox", name="Before", exact=True).select_option("version=1")
        page.get_by_role("combobox", name="After", exact=True).select_option(
            "version=slower-search"
        )
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".verdict.worse")).to_contain_text("Regression: p50 is")
        expect(page.locator(".verdict")).to_contain_text("in retrieve")
        main = page.get_by_role("main")
        expect(main).to_contain_text("Adjusted for input tokens, output tokens")
        address = page.get_by_role("link", name="JSON", exact=True).get_attribute("href")
        found: Any = versions.get(str(address)).json()

        shift = next(one for one in found["stages"] if one["stage"] == "retrieve")["p50"]
        retrieve = page.locator(".shifts tr.first", has_text="retrieve")
        expect(retrieve).to_contain_text(f"+{shift['shift'] / 1e6:.1f} ms")
        expect(retrieve).to_contain_text("▲ slower")
        prefill = page.locator(".shifts tr.first", has_text="prefill")
        expect(prefill).to_contain_text("no clear change")
        assert violations(page) == []
        assert watched.errors == []


def test_a_bar_begins_at_zero_and_ends_within_its_interval(
    versions: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{versions.url}{SLOWER}") as (page, _):
        drawn = page.locator(".shifts tr.first", has_text="retrieve").locator("svg.interval")
        edges = drawn.evaluate(
            """svg => Object.fromEntries(['rect', '.zero', '.ends'].map((name) => {
                 const { left, right } = svg.querySelector(name).getBoundingClientRect();
                 return [name, [left, right]];
               }))"""
        )

        bar, zero, ends = edges["rect"], edges[".zero"], edges[".ends"]
        assert bar[0] == pytest.approx(sum(zero) / 2, abs=2)
        assert bar[0] + 10 < ends[0] < bar[1] < ends[1]


def test_sides_are_swapped(versions: RunningService, browser: Browser) -> None:
    with opened(browser, f"{versions.url}{SLOWER}") as (page, _):
        page.get_by_role("link", name="Swap before and after").click()

        expect(page.locator(".verdict.better")).to_contain_text("Improvement: p50 is")
        expect(page.get_by_role("combobox", name="Before", exact=True)).to_have_value(
            "version=slower-search"
        )


def test_too_few_requests_are_said_with_how_many_it_takes(
    versions: RunningService, browser: Browser
) -> None:
    few = "/compare?a=version%3D1&b=version%3D1&input_tokens=500..510"
    with opened(browser, f"{versions.url}{few}") as (page, _):
        expect(page.locator(".verdict")).to_contain_text(
            re.compile(r"Not enough data: .*it takes about [\d,]+ requests of each side")
        )
        page.get_by_role("link", name="Take those of the last 1d").click()

        expect(page.get_by_label("Since")).to_have_value("1d")
        expect(page.get_by_role("combobox", name="After", exact=True)).to_have_value("version=1")


def test_a_baseline_is_compared_with_the_last_hour(
    versions: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{versions.url}/compare?version=slower-search") as (page, _):
        page.get_by_role("link", name="Compare release-1 with the last hour").click()

        expect(page.locator(".verdict.worse")).to_contain_text("in retrieve")
        expect(page.locator(".beside")).to_contain_text("baseline:release-1")
        expect(page.locator(".beside")).to_contain_text("version slower-search")


def test_both_sides_are_picked_from_what_there_is(
    versions: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{versions.url}/compare") as (page, _):
        page.get_by_role("combobox", name="Before", exact=True).select_option(
            label="baseline release-1"
        )
        page.get_by_role("combobox", name="After", exact=True).select_option(
            label="version slower-search"
        )
        page.get_by_role("button", name="Apply").click()

        expect(page.locator(".verdict.worse")).to_contain_text("in retrieve")


def test_versions_that_there_are_are_proposed(versions: RunningService, browser: Browser) -> None:
    with opened(browser, f"{versions.url}/compare") as (page, _):
        proposed = page.locator(".empty li")
        expect(proposed.first).to_contain_text(re.compile("version .+ against version .+"))
        proposed.get_by_role("link").first.click()

        expect(page.locator(".verdict")).to_be_visible()
        expect(page.locator(".beside tbody tr").first).to_contain_text("500")
