"""The hook of `google-genai`, with its own client against a server of the same wire format."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.google_genai import GoogleGenaiHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import others
from tests.support.model_apis.server import WORDS, ModelApi

genai = pytest.importorskip("google.genai")
HOOKS = (HttpxHook, GoogleGenaiHook)
DIALECT = others.gemini
Client = Any  # of a library that need not be there
ASKED = {"model": "tiny", "contents": "a secret"}


@pytest.fixture
def client(server: ModelApi) -> Iterator[Client]:
    with genai.Client(api_key="none", http_options={"base_url": server.address}) as client:
        yield client


def expect_generation(spans: Spans, server: ModelApi) -> None:
    expect_call(spans, server, "generate_content tiny", "gcp.gemini", reason="STOP")


def test_a_generation_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    answer = client.models.generate_content(**ASKED)

    assert answer.text == " ".join(WORDS)
    expect_generation(spans, server)


def test_a_stream_lasts_to_its_last_chunk_and_knows_its_first_token(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    words = [chunk.text for chunk in client.models.generate_content_stream(**ASKED)]

    assert words == list(WORDS)
    expect_generation(spans, server)
    expect_stream(the_call(spans))


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # theirs of aiohttp's
def test_generations_and_streams_of_the_async_client_are_the_same(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    async def main() -> list[str]:
        async with client.aio as awaited:
            await awaited.models.generate_content(**ASKED)
            expect_generation(spans, server)
            spans.all.clear()
            stream = await awaited.models.generate_content_stream(**ASKED)
            return [chunk.text async for chunk in stream]

    assert asyncio.run(main()) == list(WORDS)
    expect_generation(spans, server)
    expect_stream(the_call(spans))


def test_a_stream_that_is_left_ends_its_span(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.go_on.clear()
    stream = client.models.generate_content_stream(**ASKED)
    next(stream)
    stream.close()

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_embeddings_are_of_their_own_stage_with_their_number(spans: Spans, client: Client) -> None:
    client.models.embed_content(model="tiny-e", contents=["a", "b"])

    call = the_call(spans, Stage.EMBED)
    assert (call.name, call.attributes[semconv.BATCH_SIZE]) == ("embeddings tiny-e", 2)


def test_what_the_client_raises_passes_through_and_fails_the_span(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.failures = 1

    with pytest.raises(genai.errors.ServerError):
        client.models.generate_content(**ASKED)

    assert the_call(spans).attributes[semconv.ERROR_TYPE] == "ServerError"
