"""The numbers and sentences of pages, of requests whose times are known."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import cast

import pytest
from playwright.sync_api import Browser, expect

from latencytrace.model import Span, SpanKind, semconv
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.browser import opened
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

MS = 1_000_000
ROUTES = 60
THIRDS = {
    "embed": (0, 30 * MS),
    "retrieve": (30 * MS, 60 * MS),
    "rerank": (60 * MS, 90 * MS),
}
HTML = {"accept": "text/html"}


def request(
    number: int, service: str, start_ns: int, ended_ns: int, **stages: tuple[int, int]
) -> list[Span]:
    """A request and a span of each of these stages, from when until when."""
    trace_id = f"{number:032x}"
    root = one_span(
        trace_id,
        f"{number * 1000:016x}",
        name="POST /chat",
        kind=SpanKind.SERVER,
        start_ns=start_ns,
        end_ns=start_ns + ended_ns,
        attributes={"http.route": "/chat", "http.request.method": "POST"},
    )
    below = [
        one_span(
            trace_id,
            f"{number * 1000 + place:016x}",
            parent_id=root.span_id,
            name=stage,
            kind=SpanKind.INTERNAL,
            start_ns=start_ns + since_ns,
            end_ns=start_ns + until_ns,
            attributes={semconv.STAGE: stage},
        )
        for place, (stage, (since_ns, until_ns)) in enumerate(stages.items(), 1)
    ]
    return [replace(span, service=service) for span in (root, *below)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    now_ns = time.time_ns() - 60 * 10**9
    spans = [
        *request(1, "placed nowhere", now_ns, 100 * MS, other=(0, 95 * MS)),
        *request(2, "dark", now_ns, 100 * MS, decode=(0, 5 * MS)),
        *request(3, "whole", now_ns, 100 * MS, prefill=(0, 20 * MS), decode=(20 * MS, 90 * MS)),
        *request(4, "thirds", now_ns, 90 * MS + 100, **THIRDS),
    ]
    many = [
        replace(
            request(100 + place, "many", now_ns, MS)[0],
            attributes={"http.route": f"/{place}", "http.request.method": "GET"},
        )
        for place in range(ROUTES)
    ]
    with RunningService(tmp_path_factory.mktemp("numbers") / "data") as running:
        assert running.post(otlp(*spans, *many)).is_success
        until(lambda: running.ask("/breakdown")["requests"] == 4 + ROUTES, running.said)
        yield running


def test_spans_that_cannot_be_placed_are_not_called_time_without_spans(
    service: RunningService,
) -> None:
    placed = service.get("/breakdown?service=placed+nowhere", HTML).text
    dark = service.get("/breakdown?service=dark", HTML).text

    assert "half is time of spans that cannot be placed in a stage (other). The row" in placed
    assert "no span explains" not in placed
    assert "half is time that no span explains (unattributed). A request shows" in dark


def test_a_first_token_that_no_caller_got_is_said_to_be_the_models(
    service: RunningService,
) -> None:
    breakdown, requests = (
        service.get(f"{path}?service=whole", HTML).text for path in ("/breakdown", "/requests")
    )

    assert "* 1 request measured at the model" in breakdown
    assert 'title="measured at the model">*</span> 20.0 ms' in requests


@pytest.mark.parametrize("path", ["/breakdown", f"/requests/{4:032x}", "/whatif"])
def test_the_shares_of_a_page_add_up_and_none_is_nothing(
    service: RunningService, path: str
) -> None:
    page = unescape(service.get(f"{path}?service=thirds", HTML).text)

    shares = re.findall(r'<td class="n">([^ ]* %)</td>', page)
    assert shares == ["33.4 %", "33.3 %", "33.3 %", "<0.1 %"]


def test_all_routes_are_shown_where_they_are_asked_for(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/?service=many") as (page, watched):
        expect(page.locator("tbody tr")).to_have_count(50)
        page.get_by_role("link", name="show all").click()
        expect(page.locator("tbody tr")).to_have_count(ROUTES)
        as_json = page.get_by_role("link", name="JSON", exact=True).get_attribute("href") or ""

        assert len(service.client.get(f"{service.url}{as_json}").json()["routes"]) == ROUTES
        assert watched.errors == []


def test_the_file_of_routes_has_all(service: RunningService) -> None:
    file = service.get("/?service=many&export=routes.csv").text

    assert len(file.splitlines()) == 1 + ROUTES


def test_the_overview_of_the_api_has_as_many_routes_as_are_asked_for(
    service: RunningService,
) -> None:
    numbers = [
        len(cast("list[object]", service.ask(f"/overview?service=many{limit}")["routes"]))
        for limit in ("", "&limit=1000", "&limit=7")
    ]

    assert numbers == [50, ROUTES, 7]
    assert service.get("/api/v1/overview?limit=1001").status_code == 400
