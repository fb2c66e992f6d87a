"""The hook of `mistralai`, with its own client against a server of the same wire format."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.mistralai import MistralaiHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import openai as openai_apis
from tests.support.model_apis.server import WORDS, ModelApi

pytest.importorskip("mistralai.client")
DIALECT = openai_apis.mistral
Client = Any  # of a library that need not be there
ASKED = {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}]}


@pytest.fixture
def spans() -> Iterator[Spans]:
    import mistralai.client.chat
    import mistralai.client.embeddings  # noqa: F401

    with hooked(HttpxHook, MistralaiHook) as spans:
        yield spans


@pytest.fixture
def client(server: ModelApi) -> Iterator[Client]:
    from mistralai.client import Mistral

    with Mistral(api_key="none", server_url=server.address) as client:
        yield client


def expect_chat(spans: Spans, server: ModelApi) -> None:
    expect_call(spans, server, "chat tiny", "mistral_ai", reason="stop")


def test_a_chat_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    answer = client.chat.complete(**ASKED)

    assert answer.choices[0].message.content == " ".join(WORDS)
    expect_chat(spans, server)


def test_a_stream_lasts_to_its_last_event_and_knows_its_first_token(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    with client.chat.stream(**ASKED) as stream:
        words = [event.data.choices[0].delta.content for event in stream]

    assert [word for word in words if word] == list(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_chats_and_streams_that_are_awaited_are_the_same(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    async def main() -> list[str]:
        async with client:
            await client.chat.complete_async(**ASKED)
            expect_chat(spans, server)
            spans.all.clear()
            stream = await client.chat.stream_async(**ASKED)
            return [event.data.choices[0].delta.content async for event in stream]

    assert [word for word in asyncio.run(main()) if word] == list(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_a_stream_that_is_closed_ends_its_span(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.go_on.clear()
    with client.chat.stream(**ASKED) as stream:
        next(stream)

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_embeddings_are_of_their_own_stage_with_their_number(spans: Spans, client: Client) -> None:
    client.embeddings.create(model="tiny-e", inputs=["a", "b"])

    call = the_call(spans, Stage.EMBED)
    assert (call.name, call.attributes[semconv.BATCH_SIZE]) == ("embeddings tiny-e", 2)
    assert call.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 5


def test_the_wait_between_two_attempts_is_a_retry(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    from mistralai.client.utils import BackoffStrategy, RetryConfig

    server.failures = 1
    soon = RetryConfig("backoff", BackoffStrategy(1, 10, 1.1, 10_000), True)  # noqa: FBT003 - theirs

    client.chat.complete(**ASKED, retries=soon)

    assert sorted(map(str, spans.stages)) == sorted(
        [Stage.NETWORK, Stage.RETRY, Stage.NETWORK, Stage.REMOTE_MODEL]
    )
    (wait,) = spans.of(Stage.RETRY)
    assert wait.parent_id == the_call(spans).span_id
