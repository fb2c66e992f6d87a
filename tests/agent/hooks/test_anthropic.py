"""The hook of `anthropic`, with its own clients against a server of the same wire format."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace

from latencytrace.agent.hooks.anthropic import AnthropicHook
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import others
from tests.support.model_apis.server import WORDS, ModelApi

anthropic = pytest.importorskip("anthropic")
HOOKS = (HttpxHook, AnthropicHook)
DIALECT = others.anthropic
Client = Any  # of a library that need not be there
ASKED = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "a secret"}]}


def options(server: ModelApi) -> dict[str, Any]:
    return {"base_url": server.address, "api_key": "none", "open_telemetry": False}


@pytest.fixture
def client(server: ModelApi) -> Iterator[Client]:
    with anthropic.Anthropic(**options(server)) as client:
        yield client


def expect_message(spans: Spans, server: ModelApi) -> None:
    expect_call(spans, server, "chat tiny", "anthropic", reason="end_turn")


def test_a_message_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    answer = client.messages.create(**ASKED)

    assert answer.content[0].text == " ".join(WORDS)
    expect_message(spans, server)
    assert len(spans.of(Stage.NETWORK)) == 1


@pytest.mark.parametrize("how", ["created", "helped", "raw"])
def test_a_stream_lasts_to_its_last_event_and_knows_its_first_token(
    spans: Spans, server: ModelApi, client: Client, how: str
) -> None:
    if how == "helped":
        with client.messages.stream(**ASKED) as stream:
            words = list(stream.text_stream)
    else:
        messages = client.messages if how == "created" else client.messages.with_raw_response
        stream = messages.create(**ASKED, stream=True)
        events = stream if how == "created" else stream.parse()
        words = [each.delta.text for each in events if each.type == "content_block_delta"]

    assert words == list(WORDS)
    expect_message(spans, server)
    expect_stream(the_call(spans))


def test_a_raw_answer_is_what_it_was_and_its_tokens_are_known(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    raw = client.messages.with_raw_response.create(**ASKED)

    assert raw.parse().content[0].text == " ".join(WORDS)
    expect_message(spans, server)


def test_messages_and_streams_of_the_async_client_are_the_same(
    spans: Spans, server: ModelApi
) -> None:
    async def main() -> list[str]:
        async with anthropic.AsyncAnthropic(**options(server)) as client:
            await client.messages.create(**ASKED)
            expect_message(spans, server)
            spans.all.clear()
            async with client.messages.stream(**ASKED) as stream:
                return [text async for text in stream.text_stream]

    assert asyncio.run(main()) == list(WORDS)
    expect_message(spans, server)
    expect_stream(the_call(spans))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("propagates", [True, False])
def test_a_client_that_propagates_no_trace_sends_no_header(
    spans: Spans, server: ModelApi, *, propagates: bool, is_async: bool
) -> None:
    told = {**options(server), "open_telemetry": {"propagation": propagates, "traces": False}}

    async def ask() -> None:
        async with anthropic.AsyncAnthropic(**told) as client:
            await client.messages.create(**ASKED)

    if is_async:
        asyncio.run(ask())
    else:
        with anthropic.Anthropic(**told) as client:
            client.messages.create(**ASKED)

    (parent,) = server.parents
    assert (parent is not None) is propagates
    expect_message(spans, server)
    assert len(spans.of(Stage.NETWORK)) == 1


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_stream_that_is_not_read_to_its_end_ends_its_span(
    spans: Spans, server: ModelApi, client: Client, how: str
) -> None:
    server.go_on.clear()
    stream = client.messages.create(**ASKED, stream=True)
    next(stream)
    if how == "closed":
        stream.close()
    else:
        del stream
        gc.collect()

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_attempts_are_http_calls_and_the_wait_between_them_is_a_retry(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.failures = 1

    client.messages.create(**ASKED)

    assert spans.stages == [Stage.NETWORK, Stage.RETRY, Stage.NETWORK, Stage.REMOTE_MODEL]


def test_what_the_client_raises_passes_through_and_fails_the_span(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.failures = 9

    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**ASKED)

    assert the_call(spans).attributes[semconv.ERROR_TYPE] == type(caught.value).__name__


def test_what_is_no_message_is_a_request_like_any_other(spans: Spans, client: Client) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="tiny", messages=ASKED["messages"])

    assert spans.of(Stage.REMOTE_MODEL) == []


def test_where_the_library_traces_the_call_itself_its_span_is_the_only_one(
    spans: Spans, server: ModelApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
    with anthropic.Anthropic(**options(server) | {"open_telemetry": None}) as client:
        client.messages.create(**ASKED)

    assert spans.of(Stage.REMOTE_MODEL) == []
    (theirs,) = [span for span in spans.all if semconv.GEN_AI_OPERATION_NAME in span.attributes]
    assert theirs.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
