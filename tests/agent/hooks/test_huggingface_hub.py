"""The hook of `huggingface_hub`, with its own clients against a server of the same wire format."""

import asyncio
from typing import Any

import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient

from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.huggingface_hub import HuggingfaceHubHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import openai as openai_apis
from tests.support.model_apis.server import WORDS, ModelApi

HOOKS = (HttpxHook, HuggingfaceHubHook)
DIALECT = openai_apis.openai
ASKED: Any = {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}]}
STREAMED: Any = {**ASKED, "stream": True, "stream_options": {"include_usage": True}}


def expect_chat(spans: Spans, server: ModelApi) -> None:
    expect_call(spans, server, "chat tiny", "huggingface", reason="stop", cached=False)


def test_a_chat_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi
) -> None:
    answer = InferenceClient(base_url=server.url).chat_completion(**ASKED)

    assert answer.choices[0].message.content == " ".join(WORDS)
    expect_chat(spans, server)


def test_a_stream_lasts_to_its_last_chunk_and_knows_its_first_token(
    spans: Spans, server: ModelApi
) -> None:
    client = InferenceClient(base_url=server.url)
    stream: Any = client.chat.completions.create(**STREAMED)
    words = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]

    assert [word for word in words if word] == list(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_chats_and_streams_of_the_async_client_are_the_same(
    spans: Spans, server: ModelApi
) -> None:
    async def main() -> list[str]:
        async with AsyncInferenceClient(base_url=server.url) as client:
            await client.chat_completion(**ASKED)
            expect_chat(spans, server)
            spans.all.clear()
            stream: Any = await client.chat_completion(**STREAMED)
            return [each.choices[0].delta.content async for each in stream if each.choices]

    assert [word for word in asyncio.run(main()) if word] == list(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_a_stream_that_is_left_ends_its_span(spans: Spans, server: ModelApi) -> None:
    server.go_on.clear()
    client = InferenceClient(base_url=server.url)
    stream: Any = client.chat_completion(**STREAMED)
    next(stream)
    stream.close()

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_an_address_is_the_servers_and_no_models_name(spans: Spans, server: ModelApi) -> None:
    with pytest.raises(Exception, match="404"):
        InferenceClient(model=server.address).feature_extraction("a secret")

    call = the_call(spans, Stage.EMBED)
    assert (call.name, call.attributes[semconv.SERVER_PORT]) == ("embeddings", server.server_port)
    assert semconv.GEN_AI_REQUEST_MODEL not in call.attributes
    assert call.attributes[semconv.ERROR_TYPE]
