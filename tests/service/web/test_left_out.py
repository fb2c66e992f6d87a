"""Connections that stay open: no rows among the slowest, and to be left out elsewhere."""

from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import Request as HttpRequest

from latencytrace.model import Request, Stage
from latencytrace.service.web.pages.cohort_bar import Asked, asked, long_lived
from tests.support.builders.listed_requests import Listed
from tests.support.builders.made_requests import START_NS, made_request

SECOND_NS = 10**9
NOW_NS = START_NS + 60 * SECOND_NS
ANSWERED = made_request(3 * SECOND_NS)
HEARTBEAT = made_request(stages={Stage.UNATTRIBUTED: 600 * SECOND_NS}, route="GET /heartbeat")
STUCK = made_request(stages={Stage.UNATTRIBUTED: 600 * SECOND_NS}, route=ANSWERED.route)


def question(query: bytes) -> Asked:
    return asked(HttpRequest({"type": "http", "query_string": query}), NOW_NS)


def found(query: bytes, *made: Request) -> list[tuple[str, dict[str, list[str]]]]:
    """The routes that can be left out, and what the page without each is asked."""
    return [
        (route, parse_qs(urlsplit(address).query))
        for route, address in long_lived(Listed(made), question(query), "/breakdown")
    ]


def test_a_route_of_open_connections_can_be_left_out() -> None:
    query = b"service=rag&without=tenant%3Dacme"

    assert found(query, ANSWERED, HEARTBEAT) == [
        (
            "GET /heartbeat",
            {"service": ["rag"], "without": ["tenant=acme&route=GET%20%2Fheartbeat"]},
        )
    ]


@pytest.mark.parametrize(
    ("query", "made"),
    [
        (b"", [ANSWERED]),
        (b"", [ANSWERED, ANSWERED, STUCK]),
        (b"route=GET+/heartbeat", [ANSWERED, HEARTBEAT]),
        (b"without=route%3DGET+/heartbeat", [ANSWERED, HEARTBEAT]),
    ],
    ids=["none", "one that got stuck", "asked for", "left out"],
)
def test_nothing_is_offered_where_there_is_nothing_to_leave_out(
    query: bytes, made: list[Request]
) -> None:
    assert found(query, *made) == []
