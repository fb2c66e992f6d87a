"""The hook of `ollama`, with its own clients against a server of the same wire format."""

import asyncio
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.ollama import OllamaHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, intervals_of
from tests.support.agent.model_calls import expect_stream, the_call
from tests.support.model_apis import others
from tests.support.model_apis.server import WORDS, ModelApi

HOOKS = (HttpxHook, OllamaHook)
DIALECT = others.ollama
ASKED: Any = {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}]}


@pytest.fixture
def client(server: ModelApi) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.address) as client:
        yield client


def expect_chat(spans: Spans, server: ModelApi, operation: str = "chat") -> RecordedSpan:
    call = the_call(spans)
    noted = dict(call.attributes)
    assert call.name == f"{operation} tiny"
    assert noted[semconv.GEN_AI_PROVIDER_NAME] == "ollama"
    assert noted[semconv.GEN_AI_RESPONSE_MODEL] == "tiny-1"
    assert noted[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 7
    assert noted[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert noted[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    assert noted[semconv.SERVER_PORT] == server.server_port
    (http,) = spans.of(Stage.NETWORK)
    assert http.parent_id == call.span_id
    return call


@pytest.mark.parametrize("operation", ["chat", "text_completion"])
def test_a_call_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi, client: ollama.Client, operation: str
) -> None:
    if operation == "chat":
        assert client.chat(**ASKED).message.content == " ".join(WORDS)
    else:
        assert client.generate("tiny", "a secret").response == " ".join(WORDS)

    expect_chat(spans, server, operation)


def test_what_the_server_says_that_it_did_lies_one_after_the_other_up_to_the_end(
    spans: Spans, server: ModelApi, client: ollama.Client
) -> None:
    client.chat(**ASKED)

    call = expect_chat(spans, server)
    said = intervals_of(call)
    assert [each.stage for each in said] == [Stage.LOAD, Stage.PREFILL, Stage.DECODE]
    assert [each.end_ns - each.start_ns for each in said] == [1000, 2000, 3000]
    assert [each.end_ns for each in said[:2]] == [each.start_ns for each in said[1:]]
    assert said[-1].end_ns == call.ended_ns - call.started_ns


def test_a_stream_lasts_to_its_last_line_and_knows_its_first_token(
    spans: Spans, server: ModelApi, client: ollama.Client
) -> None:
    words = [part.message.content for part in client.chat(**ASKED, stream=True)]

    assert words == [*WORDS, ""]
    call = expect_chat(spans, server)
    expect_stream(call)
    assert len(intervals_of(call)) == 3


def test_calls_and_streams_of_the_async_client_are_the_same(
    spans: Spans, server: ModelApi
) -> None:
    async def main() -> list[str | None]:
        async with ollama.AsyncClient(host=server.address) as client:
            await client.chat(**ASKED)
            expect_chat(spans, server)
            spans.all.clear()
            stream = await client.chat(**ASKED, stream=True)
            return [part.message.content async for part in stream]

    assert asyncio.run(main()) == [*WORDS, ""]
    expect_stream(expect_chat(spans, server))


def test_the_modules_own_functions_are_timed_too(
    spans: Spans, server: ModelApi, client: ollama.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ollama.chat.__self__, "_client", client._client)

    ollama.chat(**ASKED)

    expect_chat(spans, server)


@pytest.mark.parametrize("is_read", [True, False], ids=["left", "never read"])
def test_a_stream_that_is_not_read_to_its_end_ends_its_span(
    spans: Spans, server: ModelApi, client: ollama.Client, *, is_read: bool
) -> None:
    server.go_on.clear()
    stream = client.chat(**ASKED, stream=True)
    if is_read:
        next(stream)
    del stream

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_embeddings_are_of_their_own_stage_with_their_number(
    spans: Spans, client: ollama.Client
) -> None:
    client.embed("tiny-e", ["a", "b"])

    call = the_call(spans, Stage.EMBED)
    assert (call.name, call.attributes[semconv.BATCH_SIZE]) == ("embeddings tiny-e", 2)
    assert call.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 5


def test_what_the_client_raises_passes_through_and_fails_the_span(
    spans: Spans, server: ModelApi, client: ollama.Client
) -> None:
    server.failures = 1

    with pytest.raises(ollama.ResponseError):
        client.chat(**ASKED)

    assert the_call(spans).attributes[semconv.ERROR_TYPE] == "ResponseError"
