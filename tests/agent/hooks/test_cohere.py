"""The hook of `cohere`, with its own clients against a server of the same wire format."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.cohere import CohereHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import others
from tests.support.model_apis.server import WORDS, ModelApi

cohere = pytest.importorskip("cohere")
DIALECT = others.cohere
Client = Any  # of a library that need not be there
ASKED = {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}]}


@pytest.fixture
def spans() -> Iterator[Spans]:
    assert cohere.ClientV2  # loads what it is made of
    with hooked(HttpxHook, CohereHook) as spans:
        yield spans


@pytest.fixture
def client(spans: Spans, server: ModelApi) -> Iterator[Client]:
    assert spans.all == []
    with cohere.ClientV2(api_key="none", base_url=server.address) as client:
        yield client


def expect_chat(spans: Spans, server: ModelApi) -> None:
    expect_call(spans, server, "chat tiny", "cohere", reason="COMPLETE", cached=False, model=None)


def test_a_chat_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    answer = client.chat(**ASKED)

    assert answer.message.content[0].text == " ".join(WORDS)
    expect_chat(spans, server)


def test_a_stream_lasts_to_its_last_event_and_knows_its_first_token(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    events = list(client.chat_stream(**ASKED))

    deltas = [event for event in events if event.type == "content-delta"]
    assert [event.delta.message.content.text for event in deltas] == list(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_chats_and_streams_of_the_async_client_are_the_same(
    spans: Spans, server: ModelApi
) -> None:
    async def main() -> list[str]:
        async with cohere.AsyncClientV2(api_key="none", base_url=server.address) as client:
            await client.chat(**ASKED)
            expect_chat(spans, server)
            spans.all.clear()
            return [event.type async for event in client.chat_stream(**ASKED)]

    assert asyncio.run(main()).count("content-delta") == len(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_chats_and_streams_of_the_first_version_are_the_same(
    spans: Spans, server: ModelApi
) -> None:
    with cohere.Client(api_key="none", base_url=server.address) as client:
        answer = client.chat(model="tiny", message="a secret")
        expect_chat(spans, server)
        spans.all.clear()
        events = list(client.chat_stream(model="tiny", message="a secret"))

    assert answer.text == " ".join(WORDS)
    assert [each.event_type for each in events].count("text-generation") == len(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_a_stream_that_is_left_ends_its_span(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.go_on.clear()
    stream = client.chat_stream(**ASKED)
    next(stream)
    stream.close()

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_embeddings_and_rankings_are_of_their_own_stages_with_their_number(
    spans: Spans, client: Client
) -> None:
    client.embed(
        model="tiny-e", texts=["a", "b"], input_type="search_query", embedding_types=["float"]
    )
    client.rerank(model="tiny-r", query="a secret", documents=["a", "b", "c"])

    embedded, ranked = the_call(spans, Stage.EMBED), the_call(spans, Stage.RERANK)
    assert (embedded.name, ranked.name) == ("embeddings tiny-e", "rerank tiny-r")
    assert embedded.attributes[semconv.BATCH_SIZE] == 2
    assert ranked.attributes[semconv.BATCH_SIZE] == 3
    assert embedded.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 5


def test_the_wait_between_two_attempts_is_a_retry(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.failures = 1

    client.chat(**ASKED)

    assert sorted(map(str, spans.stages)) == sorted(
        [Stage.NETWORK, Stage.RETRY, Stage.NETWORK, Stage.REMOTE_MODEL]
    )
    (wait,) = spans.of(Stage.RETRY)
    assert wait.parent_id == the_call(spans).span_id
