"""The hook of Bedrock, with `botocore`'s own client against a server of the same wire format."""

from collections.abc import Iterator
from typing import Any

import pytest

from latencytrace.agent.hooks.bedrock import BedrockHook
from latencytrace.agent.hooks.urllib3 import Urllib3Hook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked
from tests.support.agent.model_calls import expect_call, expect_stream, the_call
from tests.support.model_apis import others
from tests.support.model_apis.server import WORDS, ModelApi

session = pytest.importorskip("botocore.session")
DIALECT = others.bedrock
Client = Any  # of a library that need not be there
ASKED = {"modelId": "tiny", "messages": [{"role": "user", "content": [{"text": "a secret"}]}]}


@pytest.fixture
def spans() -> Iterator[Spans]:
    import botocore.eventstream  # noqa: F401 - the hook patches what is imported

    with hooked(Urllib3Hook, BedrockHook) as spans:
        yield spans


@pytest.fixture
def client(server: ModelApi) -> Client:
    return session.get_session().create_client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=server.address,
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )


def expect_chat(spans: Spans, server: ModelApi) -> None:
    expect_call(spans, server, "chat tiny", "aws.bedrock", reason="end_turn", model=None)


def test_a_conversation_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    answer = client.converse(**ASKED)

    assert answer["output"]["message"]["content"][0]["text"] == " ".join(WORDS)
    expect_chat(spans, server)
    assert len(spans.of(Stage.NETWORK)) == 1


def test_a_stream_lasts_to_its_last_event_and_knows_its_first_token(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    events = list(client.converse_stream(**ASKED)["stream"])

    deltas = [each["contentBlockDelta"] for each in events if "contentBlockDelta" in each]
    assert [each["delta"]["text"] for each in deltas] == list(WORDS)
    expect_chat(spans, server)
    expect_stream(the_call(spans))


def test_a_stream_that_is_closed_ends_its_span(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.go_on.clear()
    stream = client.converse_stream(**ASKED)["stream"]
    next(iter(stream))
    stream.close()

    assert the_call(spans).attributes[semconv.CANCELLED] is True


def test_a_model_that_is_invoked_has_its_tokens_of_headers_and_its_body_unread(
    spans: Spans, client: Client
) -> None:
    answer = client.invoke_model(modelId="tiny", body=b'{"prompt": "a secret"}')

    assert b"one two three" in answer["body"].read()
    call = the_call(spans)
    assert call.name == "text_completion tiny"
    assert call.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 7
    assert call.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3


def test_a_model_for_embeddings_is_of_their_stage(spans: Spans, client: Client) -> None:
    client.invoke_model(modelId="amazon.titan-embed-text", body=b"{}")["body"].read()

    assert the_call(spans, Stage.EMBED).name == "embeddings amazon.titan-embed-text"


def test_the_wait_between_two_attempts_is_a_retry(
    spans: Spans, server: ModelApi, client: Client
) -> None:
    server.failures = 1

    client.converse(**ASKED)

    assert spans.stages == [Stage.NETWORK, Stage.RETRY, Stage.NETWORK, Stage.REMOTE_MODEL]
    assert spans.of(Stage.RETRY)[0].parent_id == the_call(spans).span_id
