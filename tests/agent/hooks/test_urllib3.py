"""The hook of urllib3, against a server of our own."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import requests
import urllib3
from opentelemetry.trace import SpanKind

from latencytrace.agent.hooks.requests import RequestsHook
from latencytrace.agent.hooks.urllib3 import Urllib3Hook
from latencytrace.model import Stage, semconv
from tests.propagation.between_rows import listening
from tests.propagation.tracing import carries
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.model_apis.openai import openai
from tests.support.model_apis.server import serving_models
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.waiting import PATIENCE_S

HOOKS = (Urllib3Hook,)


@contextmanager
def paused_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_request_is_one_span_and_sends_its_context(spans: Spans) -> None:
    with listening() as (url, seen), urllib3.PoolManager() as pool:
        answer = pool.request("GET", f"{url}path?secret=1", headers={"x-other": "kept"})

    assert answer.status == 200
    assert (spans.only.name, spans.only.kind) == ("GET", SpanKind.CLIENT)
    assert carries(seen[0], spans.only)
    assert spans.only.attributes[semconv.URL_PATH] == "/path"
    assert "secret" not in attribute_text(spans)


def test_a_body_that_is_still_to_be_read_keeps_the_span_open(spans: Spans) -> None:
    with listening() as (url, _), urllib3.PoolManager() as pool:
        answer = pool.request("GET", url, preload_content=False)
        before = len(spans.all)
        answer.read()
        answer.release_conn()

    assert (before, len(spans.all)) == (0, 1)


@pytest.mark.parametrize("reads", ["all", "one by one"])
def test_a_model_whose_answer_is_read_bit_by_bit_has_its_tokens(spans: Spans, reads: str) -> None:
    asked = {"model": "tiny", "messages": [], "stream": True}
    with serving_models(openai) as server, urllib3.PoolManager() as pool:
        url = f"{server.url}/chat/completions"
        answer = pool.request("POST", url, json=asked, preload_content=False)
        body = answer.read() if reads == "all" else b"".join(answer.stream(7))
        answer.release_conn()

    exchange, model = spans.all
    assert body.endswith(b"[DONE]\n\n")
    assert (exchange.parent_id, model.name) == (model.span_id, "chat tiny")
    assert model.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in model.attributes


def test_an_answer_over_http_2_which_cannot_be_asked_ends_its_span(spans: Spans) -> None:
    http2 = pytest.importorskip("urllib3.http2.connection")

    class Pool(urllib3.HTTPConnectionPool):
        def _make_request(self, *_: object, **__: object) -> Any:
            return http2.HTTP2Response(200, urllib3.HTTPHeaderDict(), "/", b"whole")

    answer = Pool("127.0.0.1").request("GET", "/")

    assert answer.data == b"whole"
    assert len(spans.all) == 1


def test_an_answer_that_is_dropped_ends_its_span(spans: Spans) -> None:
    with listening() as (url, _), urllib3.PoolManager() as pool:
        answer = pool.request("GET", url, preload_content=False)
        answer.drain_conn()
        del answer
        gc.collect()

    assert len(spans.all) == 1


def test_an_answer_that_is_dropped_after_a_retry_is_freed_without_the_collector(
    spans: Spans,
) -> None:
    answers = iter((Response(503), Response(body=b"whole")))

    def freed(pool: urllib3.PoolManager, url: str) -> weakref.ref[object]:
        retries = urllib3.Retry(1, status_forcelist=[503], backoff_factor=0)
        return weakref.ref(pool.request("GET", url, retries=retries, preload_content=False))

    with (
        RecordingServer(lambda _: next(answers)) as server,
        urllib3.PoolManager() as pool,
        paused_collector(),
    ):
        answer = freed(pool, f"http://{server.host}/")

        assert answer() is None
    assert len(server.received) == 2


def test_a_request_that_nobody_answers_is_one_span_with_its_error(spans: Spans) -> None:
    with urllib3.PoolManager() as pool, pytest.raises(urllib3.exceptions.MaxRetryError):
        pool.request("GET", "http://127.0.0.1:1/", retries=2)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "MaxRetryError"


def test_a_request_of_requests_is_one_span_not_two() -> None:
    with (
        hooked(Urllib3Hook, RequestsHook) as spans,
        listening() as (url, seen),
        requests.Session() as session,
    ):
        session.trust_env = False
        session.get(url, timeout=PATIENCE_S)

    assert len(spans.of(Stage.NETWORK)) == 1
    assert carries(seen[0], spans.only)


def test_several_headers_of_one_name_are_all_sent_and_the_programs_own_are_left_alone(
    spans: Spans,
) -> None:
    own = urllib3.HTTPHeaderDict({"x-other": "one"})
    own.add("x-other", "two")
    seen: list[Received] = []

    def note(received: Received) -> Response:
        seen.append(received)
        return Response()

    with RecordingServer(note) as server, urllib3.PoolManager() as pool:
        pool.request("GET", server.url, headers=own)

    sent = seen[0].headers
    assert sent["x-other"] == "one, two"
    assert carries(sent["traceparent"], spans.only)
    assert list(own) == ["x-other"]


def test_a_pool_without_a_port_is_timed_with_that_of_its_scheme(spans: Spans) -> None:
    with (
        urllib3.HTTPConnectionPool("127.0.0.1") as pool,
        suppress(urllib3.exceptions.HTTPError),  # unless something answers there
    ):
        pool.request("GET", "/", retries=False)

    assert spans.only.attributes[semconv.SERVER_PORT] == 80
