"""Links of a request's page to what other tools know of it."""

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.errors import SettingsError
from latencytrace.service.web.pages.trace import logs_address
from latencytrace.settings import service_settings
from tests.support.builders.made_requests import START_NS, made_request

TEMPLATE = "https://logs.example/search?q={trace_id}&of={service}&from={start_ms}&to={end_ms}"


def test_the_placeholders_of_an_address_of_logs_are_filled() -> None:
    request = made_request(1_500_000_000)

    query = parse_qs(urlsplit(logs_address(TEMPLATE, request)).query)

    assert query == {
        "q": [request.trace_id],
        "of": ["rag"],
        "from": [str(START_NS // 10**6)],
        "to": [str(START_NS // 10**6 + 1501)],  # the millisecond in which it ended is over
    }


@given(st.text(min_size=1))
def test_no_name_of_a_service_gets_out_of_its_place(service: str) -> None:
    request = made_request(service=service)

    parts = urlsplit(logs_address(TEMPLATE, request))

    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "logs.example", "")
    assert parse_qs(parts.query, keep_blank_values=True)["of"] == [service]


def test_other_braces_stay_as_they_are() -> None:
    template = 'https://g.example/explore?left={"expr":"{app=\\"{service}\\"}"}&t={start}..{end}'

    address = logs_address(template, made_request())

    assert address.startswith('https://g.example/explore?left={"expr":"{app=\\"rag\\"}"}&t=2')


def test_a_placeholder_that_there_is_not_is_refused_at_the_start() -> None:
    environ = {"LATENCYTRACE_LOGS_URL": "https://logs.example/{traceid}"}

    with pytest.raises(SettingsError, match=r"\{traceid\}, which is not known: use \{trace_id\}"):
        service_settings(environ=environ)
