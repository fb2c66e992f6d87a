"""The cohort that the address of a page names, and the links that keep it."""

from fastapi import Request

from latencytrace.service.web.pages.cohort_bar import Asked, asked

NOW_NS = 1_763_690_000 * 10**9


def question(query: str) -> Asked:
    scope = {"type": "http", "query_string": query.encode(), "headers": []}
    return asked(Request(scope), NOW_NS)


def test_a_link_to_the_page_without_its_only_filter_leads_to_the_page_without_it() -> None:
    assert question("route=nothing").link("", route=None) == "?"
    assert question("route=nothing&since=2h").link("", route=None) == "?since=2h"
    assert question("route=nothing").link("/requests", route=None) == "/requests"
