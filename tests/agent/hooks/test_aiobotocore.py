"""The hook of Bedrock, with `aiobotocore` against a server of the same wire format."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.aiohttp import AiohttpHook
from latencytrace.agent.hooks.bedrock import BedrockHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import others
from tests.support.model_apis.server import WORDS, ModelApi

session = pytest.importorskip("aiobotocore.session")
DIALECT = others.bedrock
Client = Any  # of a library that need not be there
ASKED = {"modelId": "tiny", "messages": [{"role": "user", "content": [{"text": "a secret"}]}]}


@pytest.fixture
def spans() -> Iterator[Spans]:
    import aiobotocore.eventstream  # noqa: F401 - the hook patches what is imported

    with hooked(AiohttpHook, BedrockHook) as spans:
        yield spans


def asked(server: ModelApi, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a client was answered."""

    async def work() -> Any:
        async with session.get_session().create_client(
            "bedrock-runtime",
            region_name="eu-west-1",
            endpoint_url=server.address,
            aws_access_key_id="none",
            aws_secret_access_key="none",
        ) as client:
            return await ask(client)

    return asyncio.run(work())


def test_a_conversation_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi
) -> None:
    answer = asked(server, lambda client: client.converse(**ASKED))

    assert answer["output"]["message"]["content"][0]["text"] == " ".join(WORDS)
    expect_call(spans, server, "chat tiny", "aws.bedrock", reason="end_turn", model=None)
    assert len(spans.of(Stage.NETWORK)) == 1


def test_a_stream_lasts_to_its_last_event_and_knows_its_first_token(
    spans: Spans, server: ModelApi
) -> None:
    async def ask(client: Client) -> list[Any]:
        answer = await client.converse_stream(**ASKED)
        return [event async for event in answer["stream"]]

    events = asked(server, ask)

    deltas = [each["contentBlockDelta"] for each in events if "contentBlockDelta" in each]
    assert [each["delta"]["text"] for each in deltas] == list(WORDS)
    expect_call(spans, server, "chat tiny", "aws.bedrock", reason="end_turn", model=None)
    expect_stream(the_call(spans))


def test_the_wait_between_two_attempts_is_a_retry(spans: Spans, server: ModelApi) -> None:
    server.failures = 1

    asked(server, lambda client: client.converse(**ASKED))

    assert spans.stages == [Stage.NETWORK, Stage.RETRY, Stage.NETWORK, Stage.REMOTE_MODEL]
