"""The hook of Elasticsearch: its own clients, against a server that answers as it does."""

from collections.abc import Callable, Iterator

import pytest

from latencytrace.agent.hooks.search_engines import ElasticsearchHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.databases.search_engines import (
    ASKED,
    check_async_search,
    check_error,
    check_other_request,
    check_search,
    client_of,
    serving_searches,
)
from tests.support.servers.recording import RecordingServer

elasticsearch = pytest.importorskip("elasticsearch")


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with serving_searches() as server:
        yield server


@pytest.fixture
def spans() -> Iterator[Spans]:
    client_of("elasticsearch", "http://127.0.0.1:9").close()  # what it imports late is there
    with hooked(ElasticsearchHook) as spans:
        yield spans


@pytest.mark.parametrize(
    "check", [check_search, check_other_request, check_error, check_async_search]
)
def test_as_of_every_search_engine_there_is(
    check: Callable[[Spans, str, RecordingServer], None], spans: Spans, server: RecordingServer
) -> None:
    check(spans, "elasticsearch", server)


def test_a_request_that_elasticsearch_traces_itself_is_not_timed_again(
    server: RecordingServer,
) -> None:
    with hooked(ElasticsearchHook) as spans, elasticsearch.Elasticsearch(server.url) as client:
        client._otel.tracer = spans.provider.get_tracer("elasticsearch-api")
        in_request(spans, lambda: client.search(index="passages", **ASKED["elasticsearch"]))

    assert spans.names == ["search", "request"]
    assert semconv.STAGE not in spans.all[0].attributes
