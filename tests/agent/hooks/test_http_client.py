"""The hook of `http.client`, by itself and below `urllib.request`, requests and urllib3."""

import gc
import http.client
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, IncompleteRead
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest
import requests
import urllib3
from opentelemetry.trace import SpanKind, StatusCode

from latencytrace.agent.hooks.http_client import HttpClientHook
from latencytrace.agent.hooks.requests import RequestsHook
from latencytrace.agent.hooks.urllib3 import Urllib3Hook
from latencytrace.agent.timing.costs import FIRST, apart
from latencytrace.model import Stage, semconv
from tests.propagation.between_rows import listening
from tests.propagation.tracing import carries
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.model_apis.openai import openai
from tests.support.model_apis.server import serving_models
from tests.support.servers.recording import RecordingServer, Response

# ruff: noqa: S310 - all addresses are our own
HOOKS = (HttpClientHook,)
CHAT = json.dumps({"model": "tiny", "messages": [], "stream": True}).encode()


@pytest.fixture
def connection() -> Iterator[tuple[HTTPConnection, list[str | None]]]:
    with listening() as (url, seen):
        parts = urlsplit(url)
        with closing(HTTPConnection(str(parts.hostname), parts.port)) as client:
            yield client, seen


def test_a_request_is_one_span_and_sends_its_context(
    spans: Spans, connection: tuple[HTTPConnection, list[str | None]]
) -> None:
    client, seen = connection
    client.request("GET", "/path?secret=1", headers={"x-other": "kept"})
    answer = client.getresponse()
    before = len(spans.all)
    answer.read()

    assert (before, len(spans.all)) == (0, 1)
    assert (spans.only.name, spans.only.kind) == ("GET", SpanKind.CLIENT)
    assert spans.stages == [Stage.NETWORK]
    assert carries(seen[0], spans.only)
    assert spans.only.attributes[semconv.URL_PATH] == "/path"
    assert spans.only.attributes[semconv.SERVER_ADDRESS] == client.host
    assert spans.only.attributes[semconv.SERVER_PORT] == client.port
    assert "secret" not in attribute_text(spans)


def test_urlopen_is_one_span_to_the_end_of_the_body(spans: Spans) -> None:
    with listening() as (url, seen), urllib.request.urlopen(f"{url}path") as answer:
        before = len(spans.all)
        answer.read()

    assert (before, len(spans.all)) == (0, 1)
    assert carries(seen[0], spans.only)


def test_an_error_that_urlopen_raises_is_one_of_its_span(spans: Spans) -> None:
    with RecordingServer(Response(503)) as server, pytest.raises(HTTPError) as raised:
        urllib.request.urlopen(server.url)
    raised.value.close()

    assert spans.only.attributes[semconv.ERROR_TYPE] == "503"


def test_a_server_that_cannot_be_reached_is_an_error(spans: Spans) -> None:
    with pytest.raises(ConnectionRefusedError):
        HTTPConnection("127.0.0.1", 1).request("GET", "/")

    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "ConnectionRefusedError"


def test_an_answer_without_a_body_ends_its_span(
    spans: Spans, connection: tuple[HTTPConnection, list[str | None]]
) -> None:
    client, _ = connection
    client.request("HEAD", "/")
    client.getresponse()

    assert len(spans.all) == 1


def test_an_answer_that_is_dropped_ends_its_span(
    spans: Spans, connection: tuple[HTTPConnection, list[str | None]]
) -> None:
    client, _ = connection
    client.request("GET", "/")
    answer = client.getresponse()
    client.close()
    del answer
    gc.collect()

    assert len(spans.all) == 1


def test_a_body_that_breaks_off_ends_its_span(spans: Spans) -> None:
    def answer_in_part() -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(4096)
            accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_in_part)
        server.start()
        with closing(HTTPConnection(*listener.getsockname())) as client:
            client.request("GET", "/")
            with pytest.raises(IncompleteRead):
                client.getresponse().read()
        server.join()

    assert len(spans.all) == 1


def test_what_is_built_on_it_has_one_span() -> None:
    with hooked(HttpClientHook, RequestsHook, Urllib3Hook) as spans, listening() as (url, seen):
        requests.get(url, timeout=60)
        urllib3.request("GET", url)
        with requests.Session() as session, session.get(url, stream=True, timeout=60) as answer:
            answer.raw.read()
        with urllib.request.urlopen(url) as opened:
            opened.read()

    assert len(seen) == 4
    assert [span.name for span in spans.all] == ["GET"] * 4


@pytest.mark.parametrize("reads", ["lines", "all", "one by one"])
def test_a_model_that_urlopen_asks_has_its_tokens(spans: Spans, reads: str) -> None:
    with serving_models(openai) as server:
        asked = urllib.request.Request(f"{server.url}/chat/completions", CHAT)
        with urllib.request.urlopen(asked) as answer:
            if reads == "lines":
                body = b"".join(answer)
            elif reads == "all":
                body = answer.read()
            else:
                body = b"".join(iter(lambda: answer.read(7), b""))

    exchange, model = spans.all
    assert body.endswith(b"[DONE]\n\n")
    assert spans.stages == [Stage.NETWORK, Stage.REMOTE_MODEL]
    assert exchange.parent_id == model.span_id
    assert model.name == "chat tiny"
    assert model.attributes[semconv.GEN_AI_RESPONSE_MODEL] == "tiny-1"
    assert model.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in model.attributes


def test_what_its_calls_cost_is_sampled(
    connection: tuple[HTTPConnection, list[str | None]],
) -> None:
    client, _ = connection
    with apart() as made, hooked(*HOOKS):
        for _ in range(FIRST):
            client.request("GET", "/")
            client.getresponse().read()

    used = [cost for cost in made if cost.calls]
    assert [cost.calls for cost in used] == [FIRST, FIRST]  # of a request, of its answer
    assert all(cost.ns for cost in used)


def test_nothing_is_left_of_it() -> None:
    before = (http.client.HTTPConnection.request, http.client.HTTPConnection.getresponse)
    with hooked(*HOOKS):
        assert http.client.HTTPConnection.request is not before[0]

    assert (
        http.client.HTTPConnection.request,
        http.client.HTTPConnection.getresponse,
    ) == before
