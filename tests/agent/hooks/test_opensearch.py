"""The hook of OpenSearch: its own clients, against a server that answers as it does."""

from collections.abc import Callable, Iterator

import pytest

from latencytrace.agent.hooks.search_engines import OpensearchHook
from tests.support.agent.hooked import Spans, hooked
from tests.support.databases.search_engines import (
    check_async_search,
    check_error,
    check_other_request,
    check_search,
    client_of,
    serving_searches,
)
from tests.support.servers.recording import RecordingServer

pytest.importorskip("opensearchpy")


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with serving_searches() as server:
        yield server


@pytest.fixture
def spans() -> Iterator[Spans]:
    client_of("opensearch", "http://127.0.0.1:9").close()  # what it imports late is there
    with hooked(OpensearchHook) as spans:
        yield spans


@pytest.mark.parametrize(
    "check", [check_search, check_other_request, check_error, check_async_search]
)
def test_as_of_every_search_engine_there_is(
    check: Callable[[Spans, str, RecordingServer], None], spans: Spans, server: RecordingServer
) -> None:
    check(spans, "opensearch", server)
