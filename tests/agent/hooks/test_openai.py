"""The hook of `openai`, with its own clients against a server that speaks like OpenAI's."""

import asyncio
import gc
import importlib
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.trace import SpanKind, format_span_id

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.openai import OpenaiHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing import costs
from latencytrace.agent.timing.costs import FIRST, Samples, apart
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked
from tests.support.model_apis import openai as openai_apis
from tests.support.model_apis.server import WORDS, ModelApi

HOOKS = (HttpxHook, OpenaiHook)
DIALECT = openai_apis.openai
ASKED: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "a secret"}]


@pytest.fixture
def client(server: ModelApi) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=2) as client:
        yield client


@pytest.fixture
def left_as_it_was() -> Iterator[None]:
    """Take back what other instrumentations leave behind."""
    modules = [importlib.import_module(patch.module) for patch in OpenaiHook.patches]
    kinds = {each for module in modules for each in vars(module).values() if type(each) is type}
    kinds |= {openai.OpenAI, openai.AsyncOpenAI}
    before = {kind: dict(vars(kind)) for kind in kinds if kind.__module__.startswith("openai.")}
    yield
    for kind, was in before.items():
        for name in vars(kind).keys() - was.keys():
            delattr(kind, name)
        for name, value in was.items():
            if vars(kind)[name] is not value:
                setattr(kind, name, value)


def in_async_client(server: ModelApi, call: Any) -> Any:
    async def main() -> Any:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none") as client:
            return await call(client)

    return asyncio.run(main())


def model_call(spans: Spans) -> RecordedSpan:
    (call,) = spans.of(Stage.REMOTE_MODEL)
    return call


def expect_chat(call: RecordedSpan, server: ModelApi) -> None:
    assert (call.name, call.kind) == ("chat tiny", SpanKind.CLIENT)
    noted = dict(call.attributes)
    assert noted == {
        semconv.STAGE: Stage.REMOTE_MODEL,
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_PROVIDER_NAME: "openai",
        semconv.GEN_AI_REQUEST_MODEL: "tiny",
        semconv.GEN_AI_RESPONSE_MODEL: "tiny-1",
        semconv.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",),
        semconv.GEN_AI_USAGE_INPUT_TOKENS: 7,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 3,
        semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS: 4,
        semconv.SERVER_ADDRESS: "127.0.0.1",
        semconv.SERVER_PORT: server.server_port,
    }


def test_a_chat_is_a_span_of_a_remote_model_around_its_http_call(
    spans: Spans, client: openai.OpenAI, server: ModelApi
) -> None:
    answer = client.chat.completions.create(model="tiny", messages=ASKED)

    assert answer.choices[0].message.content == " ".join(WORDS)
    expect_chat(model_call(spans), server)
    (http,) = spans.of(Stage.NETWORK)
    assert http.parent_id == model_call(spans).span_id
    assert str(server.parents[0]).split("-")[2] == format_span_id(http.span_id)
    assert "secret" not in attribute_text(spans)


def test_the_cost_of_a_chat_has_what_is_done_before_and_after_it(
    server: ModelApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "cpu_ns", count(10**9, 40).__next__)  # between two readings 40 ns
    monkeypatch.setattr(costs, "_clock_ns", 0)
    with (
        apart() as made,
        hooked(OpenaiHook),
        openai.OpenAI(base_url=server.url, api_key="none") as client,
    ):
        for _ in range(FIRST):
            client.chat.completions.create(model="tiny", messages=ASKED)

    assert [cost.samples for cost in made if cost.ns] == [Samples(calls=1, spans=1, taken_ns=80)]


def test_a_chat_of_the_async_client_is_the_same(spans: Spans, server: ModelApi) -> None:
    async def chat(client: openai.AsyncOpenAI) -> object:
        return await client.chat.completions.create(model="tiny", messages=ASKED)

    in_async_client(server, chat)

    expect_chat(model_call(spans), server)


def test_an_async_call_that_is_never_awaited_leaves_no_span(
    spans: Spans, server: ModelApi
) -> None:
    async def forget(client: openai.AsyncOpenAI) -> None:
        await asyncio.sleep(0)
        client.chat.completions.create(model="tiny", messages=ASKED).close()

    in_async_client(server, forget)

    assert spans.all == []


def test_a_stream_lasts_to_its_last_chunk_and_knows_its_first_token(
    spans: Spans, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(
        model="tiny", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    first = next(stream)
    open_after_the_first = spans.of(Stage.REMOTE_MODEL) == []
    words = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]

    assert isinstance(stream, openai.Stream)
    assert (first.choices[0].delta.role, open_after_the_first) == ("assistant", True)
    assert [word for word in words if word] == list(WORDS)
    call = model_call(spans)
    assert call.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert call.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)
    waited_s = call.attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK]
    assert isinstance(waited_s, float)
    assert 0 < waited_s < (call.ended_ns - call.started_ns) / 1e9
    assert semconv.TOKEN_TIMES in call.attributes


def test_a_stream_of_the_async_client_is_the_same(spans: Spans, server: ModelApi) -> None:
    async def chat(client: openai.AsyncOpenAI) -> list[str]:
        stream = await client.chat.completions.create(model="tiny", messages=ASKED, stream=True)
        return [chunk.choices[0].delta.content or "" async for chunk in stream]

    words = in_async_client(server, chat)

    assert [word for word in words if word] == list(WORDS)
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in model_call(spans).attributes
    assert semconv.CANCELLED not in model_call(spans).attributes


@pytest.mark.parametrize("how", ["closed", "dropped", "left"])
def test_a_stream_that_is_not_read_to_its_end_ends_its_span(
    spans: Spans, client: openai.OpenAI, server: ModelApi, how: str
) -> None:
    server.go_on.clear()
    stream = client.chat.completions.create(model="tiny", messages=ASKED, stream=True)
    if how == "left":
        with stream:
            next(stream)
    else:
        next(stream)
        if how == "closed":
            stream.close()
        else:
            del stream
            gc.collect()

    assert model_call(spans).attributes[semconv.CANCELLED] is True


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing finds garbage meanwhile."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_a_stream_whose_loop_is_left_ended_with_the_last_chunk_that_was_read(
    spans: Spans, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(model="tiny", messages=ASKED, stream=True)
    read_ns = 0
    for number, _ in enumerate(stream):
        if number == 1:
            read_ns = monotonic_ns()
            break

    call = model_call(spans)
    assert call.attributes[semconv.CANCELLED] is True
    assert call.started_ns < call.ended_ns <= read_ns
    assert list(stream)  # the program has it still, and may read on


@pytest.mark.usefixtures("uncollected")
def test_a_loop_of_the_async_client_that_is_left_is_the_same_and_disturbs_nobody(
    spans: Spans, server: ModelApi
) -> None:
    complaints: list[object] = []

    async def leave(client: openai.AsyncOpenAI) -> int:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        stream = await client.chat.completions.create(model="tiny", messages=ASKED, stream=True)
        number = read_ns = 0
        async for _ in stream:
            number += 1
            if number == 2:
                read_ns = monotonic_ns()
                break
        await asyncio.sleep(0)  # the loop closes what the library reads with
        await asyncio.sleep(0)
        assert model_call(spans).ended_ns <= read_ns
        del stream
        gc.collect()
        await asyncio.sleep(0.01)
        return number

    assert in_async_client(server, leave) == 2
    assert model_call(spans).attributes[semconv.CANCELLED] is True
    assert complaints == []


@pytest.mark.usefixtures("uncollected")
def test_a_stream_of_which_one_chunk_was_read_first_goes_on(
    spans: Spans, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(model="tiny", messages=ASKED, stream=True)
    for _ in stream:
        break
    assert not spans.of(Stage.REMOTE_MODEL)

    list(stream)

    call = model_call(spans)
    assert semconv.CANCELLED not in call.attributes
    assert call.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)


def test_a_dropped_stream_ended_with_its_last_chunk_however_late_that_is_found(
    spans: Spans, client: openai.OpenAI, server: ModelApi
) -> None:
    server.go_on.clear()
    stream = client.chat.completions.create(model="tiny", messages=ASKED, stream=True)
    next(stream)
    read_ns = monotonic_ns()
    del stream
    gc.collect()

    assert model_call(spans).ended_ns <= read_ns


def test_the_helper_of_streams_is_one_call(spans: Spans, client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="tiny", messages=ASKED) as stream:
        said = [event.type for event in stream]

    assert "content.delta" in said
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in model_call(spans).attributes


def test_responses_are_read_in_their_own_form(spans: Spans, client: openai.OpenAI) -> None:
    client.responses.create(model="tiny", input="a secret")
    events = list(client.responses.create(model="tiny", input="a secret", stream=True))

    whole, streamed = spans.of(Stage.REMOTE_MODEL)
    assert len(events) == 2 + len(WORDS)
    for call in (whole, streamed):
        assert call.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 7
        assert call.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
        assert call.attributes[semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS] == 4
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in streamed.attributes
    assert "secret" not in attribute_text(spans)


def test_embeddings_are_of_their_own_stage_with_their_number(
    spans: Spans, client: openai.OpenAI
) -> None:
    client.embeddings.create(model="tiny-e", input=["a", "b"])

    (call,) = spans.of(Stage.EMBED)
    assert call.name == "embeddings tiny-e"
    assert call.attributes[semconv.BATCH_SIZE] == 2
    assert call.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == 5


def test_attempts_are_http_calls_and_the_wait_between_them_is_a_retry(
    spans: Spans, client: openai.OpenAI, server: ModelApi
) -> None:
    server.failures = 1

    client.chat.completions.create(model="tiny", messages=ASKED)

    assert spans.stages == [Stage.NETWORK, Stage.RETRY, Stage.NETWORK, Stage.REMOTE_MODEL]
    assert {span.parent_id for span in spans.all[:-1]} == {model_call(spans).span_id}


def test_what_the_client_raises_passes_through_and_fails_the_span(
    spans: Spans, client: openai.OpenAI, server: ModelApi
) -> None:
    server.failures = 9

    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="tiny", messages=ASKED)

    assert model_call(spans).attributes[semconv.ERROR_TYPE] == "InternalServerError"


def test_a_raw_answer_is_what_it_was_and_its_tokens_are_known(
    spans: Spans, client: openai.OpenAI, server: ModelApi
) -> None:
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=ASKED)

    expect_chat(model_call(spans), server)
    assert raw.parse().choices[0].message.content == " ".join(WORDS)
    assert len(spans.of(Stage.REMOTE_MODEL)) == 1


def test_a_raw_answer_without_a_content_type_is_what_it_was(spans: Spans) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"{}"))
    with openai.OpenAI(
        api_key="none",
        base_url="http://model/v1",
        http_client=httpx.Client(transport=transport),  # type: ignore[arg-type]  # or httpx2
    ) as client:
        raw = client.chat.completions.with_raw_response.create(model="tiny", messages=ASKED)

    assert raw.http_response.content == b"{}"
    assert len(spans.of(Stage.REMOTE_MODEL)) == 1


def test_a_raw_stream_lasts_to_the_last_chunk_of_what_it_is_parsed_into(
    spans: Spans, client: openai.OpenAI
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="tiny", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    before = spans.of(Stage.REMOTE_MODEL)
    words = [chunk.choices[0].delta.content for chunk in raw.parse() if chunk.choices]

    assert before == []
    assert [word for word in words if word] == list(WORDS)
    call = model_call(spans)
    assert call.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 3
    assert semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK in call.attributes
    assert semconv.CANCELLED not in call.attributes


def test_a_streaming_response_of_one_piece_knows_its_tokens_once_it_is_parsed(
    spans: Spans, client: openai.OpenAI, server: ModelApi
) -> None:
    create = client.chat.completions.with_streaming_response.create
    with create(model="tiny", messages=ASKED) as raw:
        raw.parse()

    expect_chat(model_call(spans), server)


def test_azures_client_is_azures(spans: Spans, server: ModelApi) -> None:
    with openai.AzureOpenAI(
        azure_endpoint=server.url, api_key="none", api_version="2024-10-21"
    ) as client:
        client.chat.completions.create(model="tiny", messages=ASKED)

    assert model_call(spans).attributes[semconv.GEN_AI_PROVIDER_NAME] == "azure.ai.openai"


@pytest.mark.usefixtures("left_as_it_was")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of how theirs are made
@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
@pytest.mark.parametrize("instrumentor", [OpenAIInstrumentor, OpenInference])
def test_a_call_that_another_instrumentation_traces_is_not_doubled(
    server: ModelApi,
    client: openai.OpenAI,
    instrumentor: Any,
    *,
    ours_first: bool,
) -> None:
    spans = Spans()
    other = instrumentor()
    if not ours_first:
        other.instrument(tracer_provider=spans.provider)
    try:
        with hooked(OpenaiHook, spans=spans):
            if ours_first:
                other.instrument(tracer_provider=spans.provider)
            client.chat.completions.create(model="tiny", messages=ASKED)
            list(client.chat.completions.create(model="tiny", messages=ASKED, stream=True))
    finally:
        other.uninstrument()

    assert len(spans.all) == 2
    assert len(server.parents) == 2
