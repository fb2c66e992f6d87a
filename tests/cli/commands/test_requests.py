"""The list of requests."""

from typing import cast

import pytest
from rich.console import Console

from latencytrace.cli.commands.requests import answering, picture
from latencytrace.cli.source.filters import Filters
from latencytrace.model import Stage
from latencytrace.service.answers.documents import ListedRequestDocument, RequestsDocument
from tests.support.builders.documents import request_document, segment
from tests.support.terminal import plain, printed_lines


def document(found: list[ListedRequestDocument], matching: int | None = None) -> RequestsDocument:
    return {"requests": found, "matching": len(found) if matching is None else matching}


def drawn(console: Console) -> list[str]:
    return printed_lines(
        picture(document([request_document()]), "slowest first", console), console
    )


def test_a_row_says_how_long_where_and_which() -> None:
    row = drawn(plain(140))[3].split()

    assert row[:2] == ["100", "ms"]
    assert " ".join(row).startswith(
        "100 ms decode 60.0 %, embed 20.0 % POST /chat ok 30.0 ms 10 1f3c9a0000"
    )


def test_a_narrow_terminal_shows_the_beginning_of_the_trace_id() -> None:
    lines = drawn(plain(100))

    assert lines[3].endswith(" 1f3c9a000000")
    assert lines[5] == f"One of them: latencytrace trace {request_document()['trace_id']}"


def listed(width: int, **more: object) -> list[str]:
    request = cast(ListedRequestDocument, {**request_document(), **more})
    console = plain(width)
    return printed_lines(picture(document([request]), "slowest first", console), console)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_a_list_fits_the_terminal_and_keeps_durations_and_traces_whole(width: int) -> None:
    lines = listed(width, route="POST /v1/chat/completions of a very long name indeed")

    assert max(map(len, lines)) <= width
    assert "100 ms" in lines[3]
    assert "1f3c9a000000" in lines[3]


@pytest.mark.parametrize(
    ("matching", "said"),
    [
        (12_406, "1 of 12,406 requests, newest first"),
        (1, "1 request, newest first"),
        (0, "1 request, newest first"),
    ],
    ids=["more", "all", "an older service does not say"],
)
def test_the_list_says_how_many_there_are(matching: int, said: str) -> None:
    found = document([request_document()], matching)

    assert str(picture(found, "newest first", Console(width=120))[0]) == said


def test_columns_that_no_request_has_are_not_there() -> None:
    heading = listed(120, time_to_first_token_ns=None, output_tokens=None)[2]

    assert heading.split() == ["duration", "largest", "route", "status", "trace"]


def test_what_kept_a_request_waiting_is_named_where_there_is_room() -> None:
    waited = {
        "ledger": {Stage.RUNTIME: 99_990, Stage.DECODE: 10},
        "duration_ns": 100_000,
        "segments": [
            {**segment("aa", "runtime", 0, 1), "name": "garbage collection"},
            {**segment("aa", "runtime", 1, 3), "name": "event-loop lag"},
        ],
    }

    assert "runtime (event-loop lag) 100.0 %  POST" in listed(140, **waited)[3]
    assert "runtime 100.0 %  POST" in listed(100, **waited)[3]


def test_which_of_the_users_own_stages_took_longest_is_named() -> None:
    ranked = {
        "ledger": {Stage.APPLICATION: 90_000, Stage.DECODE: 10_000},
        "duration_ns": 100_000,
        "segments": [{**segment("aa", "application", 0, 1), "name": "rank_rules"}],
    }

    assert "application (rank_rules) 90.0 %, decode 10.0 %" in listed(140, **ranked)[3]


def test_stages_are_a_bar_in_colour_and_words_without() -> None:
    coloured = "".join(drawn(Console(width=140, force_terminal=True, color_system="truecolor")))

    assert "█" in coloured
    assert "■" in coloured
    assert "█" not in "".join(drawn(plain(140)))


def test_a_terminal_too_narrow_for_bars_has_no_legend_of_them() -> None:
    narrow = drawn(Console(width=40, force_terminal=True, color_system="truecolor"))

    assert "■" not in "".join(narrow)
    assert len(narrow) == len(drawn(plain(40)))


class Answers:
    """Answers of a service with one route of connections that stay open."""

    def document(self, path: str, parameters: Filters) -> object:
        if path == "/overview":
            return {"routes": [{"route": "GET /a b", "long_lived": True}, {"route": "POST /chat"}]}
        every = [{"route": "GET /a b", "duration_ns": 60 * 10**9}]
        others = [{"route": "POST /chat", "duration_ns": 10**9}]
        is_without = parameters.get("without") == "tenant=acme&route=GET%20%2Fa%20b"
        return {"requests": others if is_without else every + others}

    def body(self, path: str, parameters: Filters) -> bytes:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("wanted", "order", "routes"),
    [
        ({"without": "tenant=acme"}, "slowest", ["POST /chat"]),
        ({}, "newest", ["GET /a b", "POST /chat"]),
        ({"route": "GET /a b"}, "slowest", ["GET /a b", "POST /chat"]),
        ({"duration": "1s.."}, "slowest", ["GET /a b", "POST /chat"]),
    ],
    ids=["slowest", "newest", "asked for", "of a duration"],
)
def test_connections_that_stay_open_are_none_of_the_slowest(
    wanted: Filters, order: str, routes: list[str]
) -> None:
    found, left_out = answering(Answers(), wanted, order, 20)

    assert [one["route"] for one in found["requests"]] == routes
    assert left_out == (["GET /a b"] if len(routes) == 1 else [])
