"""What somebody is told whose question no request answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from latencytrace.cli.commands.trace import full_id
from latencytrace.cli.doctor_checks.no_request import (
    FIRST,
    MOST_NAMES,
    NO_VERSION,
    nothing,
    why_none,
)
from latencytrace.cli.source import reading
from latencytrace.cli.source.folder import FolderSource
from latencytrace.errors import LatencytraceError, NotFoundError
from tests.support.builders.filtered_folder import folder

__all__ = ["folder"]

BOTH = {"since": "2025-11-21T00:00:00Z"}  # the times of both requests


@dataclass(frozen=True, slots=True)
class NoRequests:
    """A source with routes, and nothing else."""

    routes: Sequence[str]

    def document(self, path: str, _: Mapping[str, str]) -> object:
        """See `reading.Source.document`."""
        if path == "/services":
            return {"services": [{"service": "rag", "routes": self.routes}]}
        return {"requests": []}

    def body(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """Not asked for here."""
        raise AssertionError(path, parameters)


def test_without_any_request_ever_the_way_to_one_is_told() -> None:
    assert "latencytrace run -- COMMAND" in why_none(NoRequests([]), {})


def test_in_a_time_without_requests_the_newest_is_named(folder: FolderSource) -> None:
    assert why_none(folder, {}) == (
        "No request in the last hour. The newest one started at 2025-11-22 01:53:20 UTC: "
        "--since 2025-11-22T01:53:20Z shows it."
    )
    assert why_none(folder, {"since": "2h", "until": "1h", "status": "ok"}).startswith(
        "No request with --since 2h --until 1h. The newest one started at"
    )


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"service": "nobody"}, "No service is called 'nobody'. There are: another, rag."),
        ({"route": "/x"}, "No route is called '/x'. There are: GET /, POST /chat."),
        (
            {"service": "another", "route": "POST /chat"},
            "No route is called 'POST /chat'. There are: GET /.",
        ),
    ],
    ids=["service", "route", "route of a service"],
)
def test_names_that_nobody_has_are_answered_with_those_there_are(
    wanted: Mapping[str, str], told: str, folder: FolderSource
) -> None:
    assert why_none(folder, {**BOTH, **wanted}) == told


def test_a_route_that_no_list_has_is_known_by_its_requests() -> None:
    class HealthChecks(NoRequests):
        """Asked for its health once, long ago."""

        def document(self, path: str, parameters: Mapping[str, str]) -> object:
            """See `reading.Source.document`."""
            if path == "/requests" and parameters.get("since") == FIRST:
                return {"requests": [{"start": "0"}]}
            return super().document(path, parameters)

    asked = {"route": "GET /healthz"}

    assert nothing(HealthChecks(["POST /chat"]), asked).startswith("No request in the last hour.")
    with pytest.raises(NotFoundError, match="There are: POST /chat"):
        nothing(NoRequests(["POST /chat"]), asked)


@pytest.mark.parametrize(
    ("wanted", "flags"),
    [
        ({"model": "large", "status": "ok"}, "--model large"),
        ({"model": "large one", "version": "9"}, '--model "large one" or --version 9'),
        ({"input_tokens": "99.."}, "--input-tokens 99.."),
        ({"where": "tenant=acme&rate=5%25&tier=a%26b"}, "--where rate=5% or --where tier=a&b"),
    ],
    ids=["one of two", "both of two", "a range", "conditions"],
)
def test_filters_that_no_request_passes_are_named(
    wanted: Mapping[str, str], flags: str, folder: FolderSource
) -> None:
    assert why_none(folder, {**BOTH, **wanted}) == (
        f"No request with --since {BOTH['since']} has {flags}."
        + (" Versions: 1.0, another." if "version" in wanted else "")
    )


def test_a_version_that_no_request_has_is_answered_with_those_there_are(
    folder: FolderSource,
) -> None:
    class WithoutVersion(NoRequests):
        """One request, of no version."""

        def document(self, path: str, parameters: Mapping[str, str]) -> object:
            """See `reading.Source.document`."""
            if path == "/requests" and "version" not in parameters:
                return {"requests": [{"version": None}]}
            return super().document(path, parameters)

    assert why_none(folder, {**BOTH, "version": "1.2"}).endswith(
        " has --version 1.2. Versions: 1.0, another."
    )
    assert why_none(WithoutVersion([]), {"version": "1.2"}).endswith(f" 1.2. {NO_VERSION}")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"service": "another"}, "Versions: another."),
        ({"route": "POST /chat"}, "Versions: 1.0."),
        ({}, "Versions: 1.0, another."),
    ],
    ids=["of a service", "of a route", "of all"],
)
def test_versions_are_those_of_the_service_and_the_route(
    wanted: Mapping[str, str], told: str, folder: FolderSource
) -> None:
    assert why_none(folder, {**BOTH, **wanted, "version": "9"}).endswith(f"version 9. {told}")


@pytest.mark.parametrize(
    ("newest", "told"),
    [(None, "None of the newest 1,000 has a version: a"), ("1.2", "of the newest 1,000: 1.2.")],
)
def test_where_there_may_be_more_versions_it_is_said(newest: str | None, told: str) -> None:
    """Only so many requests are looked at: older ones may have others."""

    class Many(NoRequests):
        """More requests than are looked at."""

        def document(self, path: str, parameters: Mapping[str, str]) -> object:
            """See `reading.Source.document`."""
            if path == "/requests" and "version" not in parameters:
                return {"requests": [{"version": newest}] * int(parameters["limit"])}
            return super().document(path, parameters)

    assert told in why_none(Many([]), {"version": "9"})


def test_a_version_that_only_called_requests_have_is_found_with_their_service() -> None:
    class Called(NoRequests):
        """A load generator's requests, and within them those of `rag`, of version 1.2."""

        def document(self, path: str, parameters: Mapping[str, str]) -> object:
            """See `reading.Source.document`."""
            if path == "/services":
                names = ("latencytrace-load", "rag")
                return {"services": [{"service": name, "routes": []} for name in names]}
            if path == "/requests" and parameters.get("service") == "rag":
                return {"requests": [{"version": "1.2"}]}
            if path == "/requests" and "version" not in parameters:
                return {"requests": [{"version": None}]}
            return super().document(path, parameters)

    assert why_none(Called([]), {"version": "1.2"}) == (
        "No request in the last hour has --version 1.2, but those that others called do: "
        "add --service rag."
    )


def test_filters_that_pass_only_apart_are_named_as_such(folder: FolderSource) -> None:
    told = why_none(folder, {**BOTH, "model": "tiny", "status": "error"})

    assert told.endswith("have each of --model tiny, --status error, but none has all of them.")


def test_of_many_names_the_first_are_listed() -> None:
    source = NoRequests([f"GET /{number:03}" for number in range(MOST_NAMES + 7)])

    assert why_none(source, {"route": "/x"}).endswith(", GET /019, 7 more.")


def test_what_cannot_be_shown_is_an_error_that_says_why(folder: FolderSource) -> None:
    with pytest.raises(LatencytraceError, match=r"nothing to show\. No service is called 'x'"):
        full_id(folder, "slowest", {"service": "x"})


@pytest.mark.parametrize("trace_id", ["", " ", "fastest", "00-1f3c9a-01"])
def test_what_is_no_trace_id_is_refused(trace_id: str, folder: FolderSource) -> None:
    with pytest.raises(LatencytraceError, match="is not a trace ID, nor the beginning of one"):
        full_id(folder, trace_id, {})


def test_the_beginning_of_an_id_is_looked_for_among_all_that_are_kept(
    folder: FolderSource,
) -> None:
    ids = [one["trace_id"] for one in reading.requests(folder, BOTH, "newest", 9)]

    assert {full_id(folder, trace_id[:8].upper(), {}) for trace_id in ids} == set(ids)


def test_where_a_trace_was_looked_for_is_told(folder: FolderSource) -> None:
    with pytest.raises(LatencytraceError, match="no trace begins with 'abc'; "):
        full_id(folder, "abc", {})
    with pytest.raises(LatencytraceError, match="no trace of a request that passes the filters"):
        full_id(folder, "abc", {"since": "2h"})


@pytest.mark.parametrize(
    ("number", "told"),
    [
        pytest.param(2, "'0' begins 2 traces: 00, 01; write", id="two"),
        pytest.param(7, "'0' begins 7 traces: 00, 01, 02 and more; write", id="some"),
        pytest.param(100, "'0' begins at least 100 traces: 00, 01, 02 and more", id="many"),
    ],
)
def test_of_several_traces_some_are_named(number: int, told: str) -> None:
    class Several(NoRequests):
        def document(self, path: str, parameters: Mapping[str, str]) -> object:
            assert (path, parameters["beginning"]) == ("/traces", "0")
            limit = int(parameters["limit"])
            return {"trace_ids": [f"{one:02}" for one in range(number)][:limit]}

    with pytest.raises(LatencytraceError, match=told):
        full_id(Several([]), "0", {})
