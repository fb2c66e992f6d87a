"""The hook of LiteLLM in the program, against servers of two wire formats."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from latencytrace.agent.hooks.asgi import AsgiHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.litellm import LitellmHook
from latencytrace.agent.hooks.openai import OpenaiHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.model_calls import expect_stream, the_call
from tests.support.model_apis import openai as openai_apis
from tests.support.model_apis.others import anthropic as other_dialect
from tests.support.model_apis.server import WORDS, ModelApi, serving_models

litellm = pytest.importorskip("litellm")
DIALECT = openai_apis.openai
pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # LiteLLM's own, of many kinds
MESSAGES = [{"role": "user", "content": "a secret"}]


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    """One to close, for LiteLLM makes one where the thread has none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def spans() -> Iterator[Spans]:
    litellm.suppress_debug_info = True
    with hooked(HttpxHook, OpenaiHook, LitellmHook) as spans:
        yield spans


def asked(server: ModelApi, **more: Any) -> dict[str, Any]:
    to = {"model": "openai/tiny", "api_base": server.url, "api_key": "none"}
    return {**to, "messages": MESSAGES, **more}


def expect_chat(spans: Spans, server: ModelApi) -> None:
    call = the_call(spans)
    assert call.name == "chat openai/tiny"
    assert call.attributes[semconv.GEN_AI_PROVIDER_NAME] == "openai"
    assert call.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 7
    assert call.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert call.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert call.attributes[semconv.SERVER_PORT] == server.server_port
    # LiteLLM asks other servers for prices in the background.
    at_server = [http for http in spans.of(Stage.NETWORK) if _port_of(http) == server.server_port]
    assert {http.parent_id for http in at_server} <= {call.span_id}


def _port_of(http: RecordedSpan) -> object:
    return http.attributes.get(semconv.SERVER_PORT)


def test_a_completion_is_one_span_around_whatever_it_calls(spans: Spans, server: ModelApi) -> None:
    answer = litellm.completion(**asked(server))

    assert answer.choices[0].message.content == " ".join(WORDS)
    expect_chat(spans, server)


def test_a_stream_lasts_to_its_last_chunk_and_knows_its_first_token(
    spans: Spans, server: ModelApi
) -> None:
    told = asked(server, stream=True, stream_options={"include_usage": True})
    stream = litellm.completion(**told)
    words = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]

    assert [word for word in words if word] == list(WORDS)
    expect_stream(the_call(spans))


def test_completions_and_streams_that_are_awaited_are_the_same(
    spans: Spans, server: ModelApi
) -> None:
    async def main() -> list[str]:
        await litellm.acompletion(**asked(server))
        expect_chat(spans, server)
        spans.all.clear()
        stream = await litellm.acompletion(**asked(server, stream=True))
        return [chunk.choices[0].delta.content async for chunk in stream]

    assert [word for word in asyncio.run(main()) if word] == list(WORDS)
    expect_stream(the_call(spans))


def test_a_provider_that_is_asked_without_its_library_is_the_same(spans: Spans) -> None:
    with serving_models(other_dialect) as server:
        told = {"model": "anthropic/tiny", "api_base": server.address, "api_key": "none"}
        answer = litellm.completion(**told, messages=MESSAGES)

    assert answer.choices[0].message.content == " ".join(WORDS)
    call = the_call(spans)
    assert call.attributes[semconv.GEN_AI_PROVIDER_NAME] == "anthropic"
    assert call.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3


def test_embeddings_are_of_their_own_stage_with_their_number(
    spans: Spans, server: ModelApi
) -> None:
    litellm.embedding(model="openai/tiny-e", input=["a", "b"], api_base=server.url, api_key="none")

    call = the_call(spans, Stage.EMBED)
    assert (call.name, call.attributes[semconv.BATCH_SIZE]) == ("embeddings openai/tiny-e", 2)


def test_what_it_raises_passes_through_and_fails_the_span(spans: Spans, server: ModelApi) -> None:
    server.failures = 9

    with pytest.raises(litellm.ServiceUnavailableError) as caught:
        litellm.completion(**asked(server, max_retries=0))

    assert the_call(spans).attributes[semconv.ERROR_TYPE] == type(caught.value).__name__


@pytest.mark.parametrize("stream", [False, True])
def test_the_steps_of_the_proxy_lie_around_its_call(
    spans: Spans, server: ModelApi, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    proxy = pytest.importorskip("litellm.proxy.proxy_server", exc_type=ImportError)
    monkeypatch.setattr(proxy, "master_key", "sk-none")
    api = {"model": "openai/tiny", "api_base": server.url, "api_key": "none"}
    question = {"model": "tiny", "messages": MESSAGES, "stream": stream}

    async def main() -> httpx.Response:
        router = litellm.Router([{"model_name": "tiny", "litellm_params": api}])
        monkeypatch.setattr(proxy, "llm_router", router)
        through, key = httpx.ASGITransport(app=proxy.app), {"Authorization": "Bearer sk-none"}
        async with httpx.AsyncClient(transport=through, base_url="http://proxy") as client:
            return await client.post("/v1/chat/completions", headers=key, json=question)

    with hooked(AsgiHook, spans=spans):
        answer = asyncio.run(main())

    assert WORDS[-1] in answer.text
    call, (request,) = the_call(spans), spans.of(None)
    before = [span for span in spans.of(Stage.PREPROCESS) if span.ended_ns <= call.started_ns]
    assert {"read_body", "auth", "pre_call", "route"} <= {span.name for span in before}
    after = [span.name for span in spans.of(Stage.POSTPROCESS) if span.started_ns >= call.ended_ns]
    assert after == ([] if stream else ["post_call"])
    assert {span.parent_id for span in (*before, call)} == {request.span_id}
