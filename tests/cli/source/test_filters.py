"""Every reading command takes the same filters, and every question is asked with them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import typer

from latencytrace.cli.app import app
from latencytrace.cli.commands import breakdown, export, requests, trace
from latencytrace.cli.source.filters import filters
from latencytrace.cli.source.folder import FolderSource
from latencytrace.service.cohort import REPEATED, CohortQuery, attributes_of
from tests.support.builders.filtered_folder import folder
from tests.support.servers.recording_api import RecordingApi, recording_api

__all__ = ["folder", "recording_api"]

FILTERS = {
    "service": "rag",
    "route": "POST /chat",
    "model": "tiny",
    "version": "1.0",
    "instance": "rag-1",
    "status": "ok",
    "detail": "full",
    "duration": "1us..1ms",
    "first_token": "1ns..1us",
    "after": "1ms..1s",
    "input_tokens": "10..20",
    "output_tokens": "..5",
    "where": "tenant=acme",
    "without": "service=another",
    "since": "2025-11-21T00:00:00Z",
    "until": "2025-11-22T00:00:00Z",
}
FLAGS: Mapping[str, Any] = {
    **FILTERS,
    "where": ["tenant=acme"],
    "without": ["service=another"],
}  # what a command takes of them
READING = ("breakdown", "requests", "trace", "tail", "export")
COMMANDS = {
    command.name or cast(Callable[[], None], command.callback).__name__: command.callback
    for command in app.registered_commands
}


def test_every_filter_of_a_question_is_tried_here() -> None:
    assert FILTERS.keys() == CohortQuery.model_fields.keys()


@pytest.mark.parametrize("name", [name for name in READING if name in COMMANDS])
def test_every_reading_command_takes_every_filter(name: str) -> None:
    taken = inspect.signature(cast(Callable[[], None], COMMANDS[name])).parameters

    assert {*FILTERS, "url", "data"} <= taken.keys()


ASKED: Mapping[str, Callable[..., None]] = {
    "/api/v1/breakdown": lambda **flags: breakdown.breakdown(as_json=True, **flags),
    "/api/v1/requests": lambda **flags: requests.requests(as_json=True, **flags),
    "/api/v1/requests?": lambda **flags: trace.trace("slowest", as_json=True, **flags),
    "/api/v1/traces": lambda **flags: trace.trace("1f3c", as_json=True, **flags),
    "/api/v1/ledgers": export.export,
}


@pytest.mark.parametrize("path", ASKED)
def test_every_filter_reaches_the_service(path: str, recording_api: RecordingApi) -> None:
    ASKED[path](**FLAGS, url=recording_api.url)

    [asked] = [query for found, query in recording_api.asked if found == path.rstrip("?")]
    assert FILTERS.items() <= asked.items()


def test_the_routes_are_asked_for_with_every_other_filter(recording_api: RecordingApi) -> None:
    others = {name: value for name, value in FILTERS.items() if name != "route"}
    flags = {name: value for name, value in FLAGS.items() if name != "route"}
    breakdown.breakdown(**flags, url=recording_api.url)

    [asked] = [query for path, query in recording_api.asked if path.endswith("/routes")]
    assert others.items() <= asked.items()


@pytest.mark.parametrize("name", [name for name in FILTERS if name != "since"])
def test_every_filter_leaves_out_what_it_should(name: str, folder: FolderSource) -> None:
    wanted = {"since": FILTERS["since"], name: FILTERS[name]}
    counted = cast(Mapping[str, int], folder.document("/breakdown", wanted))
    listed = cast(Mapping[str, list[object]], folder.document("/requests", wanted))
    table = folder.body("/ledgers", {**wanted, "format": "csv"})

    assert counted["requests"] == len(listed["requests"]) == table.count(b"\n") - 1 == 1


def test_since_leaves_out_what_came_before(folder: FolderSource) -> None:
    later = cast(Mapping[str, int], folder.document("/breakdown", {"since": FILTERS["until"]}))
    both = cast(Mapping[str, int], folder.document("/breakdown", {"since": FILTERS["since"]}))

    assert (later["requests"], both["requests"]) == (1, 2)


def test_conditions_with_an_ampersand_in_them_stay_apart() -> None:
    asked = filters(where=["tenant=a&b", "rate=5%"])["where"]

    assert attributes_of(asked) == (("tenant", "a&b"), ("rate", "5%"))


@pytest.mark.parametrize("name", FILTERS)
def test_an_empty_filter_is_refused_rather_than_forgotten(name: str) -> None:
    empty: Mapping[str, Any] = {name: [""] if name in REPEATED else ""}

    with pytest.raises(typer.BadParameter, match="it is empty"):
        filters(**empty)


def test_filters_together_find_what_each_of_them_finds(folder: FolderSource) -> None:
    found = cast(Mapping[str, int], folder.document("/breakdown", FILTERS))

    assert found["requests"] == 1
