"""The hook of `requests`, against a server of our own."""

import gc
import threading
from collections.abc import Iterator

import pytest
import requests
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.trace import SpanKind, format_span_id

from latencytrace.agent.hooks.requests import RequestsHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.waiting import PATIENCE_S

HOOKS = (RequestsHook,)
PARTS = 3


class _Server(RecordingServer):
    """Sends a body in parts, each but the first when it is told to."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.next_part = threading.Semaphore(0)

    def _say(self, received: Received) -> Response:
        match received.path:
            case "/redirect":
                return Response(302, headers={"Location": "/traceparent"})
            case "/missing":
                return Response(404, b"no")
            case "/parts":
                return Response(body=self._parts(), headers={"Content-Length": str(PARTS)})
            case "/torn":
                headers = {"Content-Length": "1000", "Connection": "close"}
                return Response(body=b"too short", headers=headers)
            case _:
                return Response(body=received.headers.get("traceparent", "").encode())

    def _parts(self) -> Iterator[bytes]:
        yield b"."
        for _ in range(PARTS - 1):
            self.next_part.acquire(timeout=PATIENCE_S)
            yield b"."


@pytest.fixture(scope="module")
def server() -> Iterator[_Server]:
    with _Server() as server:
        yield server


def test_an_exchange_is_one_client_span_of_the_network(spans: Spans, server: _Server) -> None:
    requests.get(f"{server.url}/some/path", timeout=PATIENCE_S)

    assert (spans.only.name, spans.only.kind) == ("GET", SpanKind.CLIENT)
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.NETWORK,
        semconv.HTTP_REQUEST_METHOD: "GET",
        semconv.HTTP_RESPONSE_STATUS_CODE: 200,
        semconv.SERVER_ADDRESS: "127.0.0.1",
        semconv.SERVER_PORT: server.server_port,
        semconv.URL_SCHEME: "http",
        semconv.URL_PATH: "/some/path",
    }


def test_the_server_gets_one_parent_and_it_is_the_span(spans: Spans, server: _Server) -> None:
    answer = requests.get(f"{server.url}/traceparent", timeout=PATIENCE_S)

    (_, _, parent, _) = answer.text.split("-")
    assert parent == format_span_id(spans.only.span_id)


def test_a_query_string_is_nowhere(spans: Spans, server: _Server) -> None:
    requests.get(f"{server.url}/ask", params={"prompt": "a secret"}, timeout=PATIENCE_S)

    assert "secret" not in attribute_text(spans)


def test_a_redirect_is_part_of_its_exchange(spans: Spans, server: _Server) -> None:
    answer = requests.get(f"{server.url}/redirect", timeout=PATIENCE_S)

    assert format_span_id(spans.only.span_id) in answer.text


def test_what_the_programs_own_hook_requests_is_an_exchange_too(
    spans: Spans, server: _Server
) -> None:
    told: list[str] = []

    def ask_more(*_: object, **__: object) -> None:
        told.append(requests.get(f"{server.url}/traceparent", timeout=PATIENCE_S).text)

    requests.get(f"{server.url}/some/path", hooks={"response": ask_more}, timeout=PATIENCE_S)

    inner, outer = spans.all
    assert inner.parent_id == outer.span_id
    assert [header.split("-")[2] for header in told] == [format_span_id(inner.span_id)]


def test_an_answer_that_is_an_error_is_noted(spans: Spans, server: _Server) -> None:
    requests.get(f"{server.url}/missing", timeout=PATIENCE_S)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "404"


def test_what_requests_raises_passes_through(spans: Spans) -> None:
    with pytest.raises(requests.ConnectionError):
        requests.get(NOWHERE, timeout=PATIENCE_S)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "ConnectionError"


def test_a_streamed_body_is_part_of_the_span_to_its_last_byte(
    spans: Spans, server: _Server
) -> None:
    body = requests.get(f"{server.url}/parts", stream=True, timeout=PATIENCE_S).iter_content(1)

    next(body)
    open_after_the_first = not spans.all
    server.next_part.release(PARTS - 1)
    list(body)

    assert open_after_the_first
    assert len(spans.all) == 1


def test_a_body_read_from_the_connection_itself_ends_the_span_too(
    spans: Spans, server: _Server
) -> None:
    answer = requests.get(f"{server.url}/parts", stream=True, timeout=PATIENCE_S)
    server.next_part.release(PARTS - 1)

    answer.raw.read()

    assert len(spans.all) == 1


def test_a_streamed_body_that_is_closed_half_way_ends_the_span(
    spans: Spans, server: _Server
) -> None:
    with requests.get(f"{server.url}/parts", stream=True, timeout=PATIENCE_S) as answer:
        next(answer.iter_content(1))

    server.next_part.release(PARTS - 1)
    assert len(spans.all) == 1


def test_a_streamed_body_that_is_dropped_ends_the_span(spans: Spans, server: _Server) -> None:
    answer = requests.get(f"{server.url}/parts", stream=True, timeout=PATIENCE_S)

    del answer
    gc.collect()

    server.next_part.release(PARTS - 1)
    assert len(spans.all) == 1


def test_a_body_that_breaks_off_fails_the_span(spans: Spans, server: _Server) -> None:
    answer = requests.get(f"{server.url}/torn", stream=True, timeout=PATIENCE_S)

    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        _ = answer.content

    assert semconv.ERROR_TYPE in spans.only.attributes


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "contrib first"])
def test_contribs_instrumentation_doubles_nothing(server: _Server, *, ours_first: bool) -> None:
    spans = Spans()
    instrumentor = RequestsInstrumentor()
    if not ours_first:
        instrumentor.instrument(tracer_provider=spans.provider)
    with hooked(RequestsHook, spans=spans):
        if ours_first:
            instrumentor.instrument(tracer_provider=spans.provider)
        try:
            answer = requests.get(f"{server.url}/traceparent", timeout=PATIENCE_S)
        finally:
            instrumentor.uninstrument()

    assert len(spans.all) == 1
    assert format_span_id(spans.only.span_id) in answer.text
