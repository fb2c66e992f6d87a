"""The cohort that the address of a page names, and the links that keep it."""

from urllib.parse import urlencode

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.errors import QuestionError
from latencytrace.service.cohort import REPEATED, Filters
from latencytrace.service.web.pages.cohort_bar import Asked, asked, nearest
from tests.support.builders.listed_requests import Listed
from tests.support.builders.made_requests import made_request

NOW_NS = 1_763_690_000 * 10**9


def question(query: str, *own: str) -> Asked:
    scope = {"type": "http", "query_string": query.encode(), "headers": []}
    return asked(Request(scope), NOW_NS, own)


def test_a_link_to_the_page_without_its_only_filter_leads_to_the_page_without_it() -> None:
    assert question("route=nothing").link("", route=None) == "?"
    assert question("route=nothing&since=2h").link("", route=None) == "?since=2h"
    assert question("route=nothing").link("/requests", route=None) == "/requests"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-01-31T15:04:05.250000Z", ("2026-01-31T15:04:05Z", "2026-01-31T15:04:06Z")),
        ("2026-01-31T15:04:05Z", ("2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z")),
        ("1.5h", ("1.5h", "1.5h")),
    ],
)
def test_the_form_shows_whole_seconds_around_the_time(
    written: str, shown: tuple[str, str]
) -> None:
    since = question(f"since={written}").values["since"]
    until = question(f"since=2020-01-01T00:00:00Z&until={written}").values["until"]

    assert (since, until) == shown


def test_every_filter_that_is_set_has_a_field() -> None:
    values = {
        **dict.fromkeys(Filters.model_fields, "a"),
        **dict.fromkeys(("duration", "first_token", "after"), "1s.."),
        **dict.fromkeys(("input_tokens", "output_tokens"), "1.."),
        **dict.fromkeys(REPEATED, "a=1"),
        "status": "ok",
        "detail": "full",
    }
    fields = {name for name, _, _ in question(urlencode(values)).others}

    assert fields == Filters.model_fields.keys() - {"service", "route"}


def test_the_time_before_is_as_long_and_ends_where_the_page_begins() -> None:
    found = question("since=15m&route=POST /chat")
    before = found.before()

    since_ns, until_ns = found.times_ns()
    assert before is not None
    assert (before.until_ns, before.since_ns) == (since_ns, 2 * since_ns - until_ns)
    assert before.route == "POST /chat"


def test_before_all_times_there_is_none() -> None:
    assert question("since=1970-01-01T00:00:00Z").before() is None


@given(st.integers(min_value=NOW_NS, max_value=2 * NOW_NS), st.sampled_from(["15m", "1h", "6h"]))
def test_pictures_of_the_usual_times_begin_and_end_at_whole_seconds(
    now_ns: int, since: str
) -> None:
    scope = {"type": "http", "query_string": f"since={since}".encode(), "headers": []}
    found = asked(Request(scope), now_ns)

    assert [at_ns % 10**9 for at_ns in found.times_ns()] == [0, 0]
    assert 0 <= found.now_ns - now_ns < 10**9


def test_the_last_of_two_values_counts_and_each_condition_does() -> None:
    found = question("since=1h&where=a%3D1&since=2h&where=b%3D2")

    assert (found.values["since"], found.period()) == ("2h", "the last 2h")
    assert found.values["where"] == "a=1&b=2"
    assert found.link("/") == "/?where=a%3D1&since=2h&where=b%3D2"


def test_a_filter_compares_the_blanks_around_a_name_and_a_blank_one_is_none() -> None:
    found = question("service=emp%20&route=%20&since=%202h%20")

    assert found.cohort.service == "emp "
    assert found.cohort.route is None
    assert found.values["since"] == "2h"
    assert found.link("/requests") == "/requests?service=emp+&since=2h"


def test_a_misspelt_filter_is_not_ignored() -> None:
    with pytest.raises(QuestionError, match="'sevice' is no parameter here: use service, route"):
        question("sevice=rag")


def test_a_misspelt_parameter_of_a_page_is_answered_with_those_of_that_page() -> None:
    with pytest.raises(QuestionError, match="'stge' is no parameter here: use stage, amount, ser"):
        question("stge=decode", "stage", "amount")


def test_the_mark_of_a_link_from_elsewhere_is_no_filter() -> None:
    assert question("service=rag&came=1").given == (("service", "rag"),)


def test_names_that_are_written_alike_are_offered_where_nothing_matches() -> None:
    store = Listed([made_request(service="rag", route="POST /chat")])

    offers = dict(nearest(store, question("service=rga&route=POST /chatt")))

    assert offers["did you mean service rag?"] == "?route=POST+%2Fchatt&service=rag"
    assert "did you mean service rga?" not in offers
