"""Models that are asked with a plain HTTP client, at paths that their servers have in common."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.requests import RequestsHook
from latencytrace.agent.hooks.urllib3 import Urllib3Hook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.model_apis.openai import openai
from tests.support.model_apis.others import ollama
from tests.support.model_apis.server import WORDS, Answer, ModelApi, Stream, serving_models
from tests.support.waiting import until

Ask = Callable[[str, dict[str, Any], Callable[[], object]], bytes]
HOOKS = (HttpxHook, RequestsHook, Urllib3Hook, AiohttpHook)
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}]}


def servers(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as OpenAI's API and Ollama do, and others in a few words."""
    if path.startswith("/api/"):
        return ollama(path, asked)
    if path == "/generate_stream":
        tokens = ({"token": {"text": f" {word}"}, "generated_text": None} for word in WORDS)
        return Stream(
            "text/event-stream", (f"data:{json.dumps(one)}\n\n".encode() for one in tokens)
        )
    if path.startswith(
        ("/v1/rerank", "/v2/", "/predictions/", "/invocations", "/generate", "/mine")
    ):
        return Answer({"answer": "a secret"})
    return openai(path, asked)


@pytest.fixture
def server() -> Iterator[ModelApi]:
    with serving_models(servers) as server:
        yield server


@pytest.fixture
def spans() -> Iterator[Spans]:
    with hooked(*HOOKS) as spans:
        yield spans


def by_httpx(url: str, asked: dict[str, Any], on_part: Callable[[], object]) -> bytes:
    with httpx.stream("POST", url, json=asked) as answer:
        return _joined(answer.iter_bytes(), on_part)


def by_async_httpx(url: str, asked: dict[str, Any], on_part: Callable[[], object]) -> bytes:
    async def ask() -> bytes:
        async with httpx.AsyncClient() as client, client.stream("POST", url, json=asked) as answer:
            body = b""
            async for part in answer.aiter_bytes():
                body += part
                on_part()
            return body

    return asyncio.run(ask())


def by_requests(url: str, asked: dict[str, Any], on_part: Callable[[], object]) -> bytes:
    with requests.post(url, json=asked, stream=True, timeout=60) as answer:
        return _joined(answer.iter_content(1), on_part)


def by_urllib3(url: str, asked: dict[str, Any], on_part: Callable[[], object]) -> bytes:
    with urllib3.PoolManager() as pool:
        answer = pool.request("POST", url, json=asked, preload_content=False)
        body = _joined(iter(answer.read1, b""), on_part)
        answer.release_conn()
        return body


def by_aiohttp(url: str, asked: dict[str, Any], on_part: Callable[[], object]) -> bytes:
    async def ask() -> bytes:
        async with aiohttp.ClientSession() as session, session.post(url, json=asked) as answer:
            body = b""
            async for part in answer.content.iter_any():
                body += part
                on_part()
            return body

    return asyncio.run(ask())


def _joined(parts: Iterator[bytes], on_part: Callable[[], object]) -> bytes:
    body = b""
    for part in parts:
        body += part
        on_part()
    return body


every_client = pytest.mark.parametrize(
    "ask", [by_httpx, by_async_httpx, by_requests, by_urllib3, by_aiohttp]
)


@every_client
def test_an_answer_in_one_piece_has_model_and_tokens_and_the_exchange_within(
    spans: Spans, server: ModelApi, ask: Ask
) -> None:
    body = ask(f"{server.url}/chat/completions", CHAT, lambda: None)

    until(lambda: len(spans.all) == 2)
    exchange, model = spans.all
    assert json.loads(body)["usage"]["prompt_tokens"] == 7
    assert (model.name, spans.stages) == ("chat tiny", [Stage.NETWORK, Stage.REMOTE_MODEL])
    assert exchange.parent_id == model.span_id
    assert model.started_ns <= exchange.started_ns
    assert exchange.ended_ns <= model.ended_ns
    assert model.attributes[semconv.GEN_AI_OPERATION_NAME] == "chat"
    assert model.attributes[semconv.GEN_AI_REQUEST_MODEL] == "tiny"
    assert model.attributes[semconv.GEN_AI_RESPONSE_MODEL] == "tiny-1"
    assert model.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 7
    assert model.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert model.attributes[semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS] == 4
    assert model.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK not in model.attributes
    assert "secret" not in attribute_text(spans)
    assert WORDS[0] not in attribute_text(spans)


@every_client
def test_the_first_token_of_a_stream_is_seen_as_it_comes(
    spans: Spans, server: ModelApi, ask: Ask
) -> None:
    server.go_on.clear()
    read_ns: list[int] = []

    def on_part() -> None:
        read_ns.append(monotonic_ns())
        server.go_on.set()  # so that the rest comes later than what is read first

    asked = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    ask(f"{server.url}/chat/completions", asked, on_part)

    until(lambda: len(spans.all) == 2)
    model = spans.all[-1]
    first_s = model.attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK]
    assert isinstance(first_s, float)
    assert 0 < first_s * 1e9 <= read_ns[-1] - model.started_ns
    assert model.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert model.attributes[semconv.GEN_AI_RESPONSE_MODEL] == "tiny-1"
    assert model.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert "secret" not in attribute_text(spans)
    assert WORDS[0] not in attribute_text(spans)


@every_client
def test_ollama_tells_what_it_did_for_how_long(spans: Spans, server: ModelApi, ask: Ask) -> None:
    ask(f"{server.address}/api/chat", {**CHAT, "stream": True}, lambda: None)

    until(lambda: len(spans.all) == 2)
    model = spans.all[-1]
    assert model.attributes[semconv.GEN_AI_RESPONSE_MODEL] == "tiny-1"
    assert model.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert semconv.INTERVALS in model.attributes


@pytest.mark.parametrize(
    ("path", "stage", "name"),
    [
        ("/v1/completions", Stage.REMOTE_MODEL, "text_completion tiny"),
        ("/gateway/v1/responses", Stage.REMOTE_MODEL, "chat tiny"),
        ("/v1/embeddings", Stage.EMBED, "embeddings tiny"),
        ("/v1/rerank", Stage.RERANK, "rerank tiny"),
        ("/generate", Stage.REMOTE_MODEL, "text_completion tiny"),
        ("/generate_stream", Stage.REMOTE_MODEL, "text_completion tiny"),
        ("/v2/models/iris/infer", Stage.REMOTE_MODEL, "remote_model iris"),
        ("/v2/models/iris/versions/3/infer", Stage.REMOTE_MODEL, "remote_model iris"),
        ("/predictions/resnet", Stage.REMOTE_MODEL, "remote_model resnet"),
        ("/invocations", Stage.REMOTE_MODEL, "remote_model tiny"),
    ],
)
def test_a_path_says_what_is_asked_for(
    spans: Spans, server: ModelApi, path: str, stage: Stage, name: str
) -> None:
    by_httpx(f"{server.address}{path}", {**CHAT, "input": ["x"]}, lambda: None)

    assert spans.stages == [Stage.NETWORK, stage]
    assert spans.names[1] == name


@pytest.mark.parametrize("path", ["/mine", "/mine/chat", "/generate/report", "/v1/chat", "/api"])
def test_other_paths_are_no_models(spans: Spans, server: ModelApi, path: str) -> None:
    by_httpx(f"{server.address}{path}", CHAT, lambda: None)

    assert spans.stages == [Stage.NETWORK]


def test_a_client_library_around_it_has_the_call(spans: Spans, server: ModelApi) -> None:
    call = spans.recorder.start("chat tiny", Stage.REMOTE_MODEL)
    call.activate()
    by_httpx(f"{server.url}/chat/completions", CHAT, lambda: None)
    call.deactivate()
    call.end()

    assert spans.stages == [Stage.NETWORK, Stage.REMOTE_MODEL]


def test_a_failure_is_one_of_the_model(spans: Spans, server: ModelApi) -> None:
    server.failures = 1

    by_httpx(f"{server.url}/chat/completions", CHAT, lambda: None)

    assert [span.attributes[semconv.ERROR_TYPE] for span in spans.all] == ["503", "503"]


def test_a_server_that_cannot_be_reached_is_one_too(spans: Spans) -> None:
    with pytest.raises(httpx.ConnectError):
        httpx.post("http://127.0.0.1:1/v1/chat/completions", json=CHAT)

    assert [span.attributes[semconv.ERROR_TYPE] for span in spans.all] == ["ConnectError"] * 2


@pytest.mark.parametrize("stops_after", [0, 1])
def test_a_stream_that_is_left_ends_with_the_exchange(
    spans: Spans, server: ModelApi, stops_after: int
) -> None:
    with httpx.stream(
        "POST", f"{server.url}/chat/completions", json={**CHAT, "stream": True}
    ) as answer:
        for number, _ in enumerate(answer.iter_raw()):
            if number == stops_after:
                break

    assert spans.stages == [Stage.NETWORK, Stage.REMOTE_MODEL]


def test_an_answer_that_was_read_at_once_is_read_as_well(spans: Spans, server: ModelApi) -> None:
    requests.post(f"{server.url}/chat/completions", json=CHAT, timeout=60)
    urllib3.request("POST", f"{server.url}/chat/completions", json=CHAT)

    models = spans.of(Stage.REMOTE_MODEL)
    assert [one.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] for one in models] == [3, 3]
