"""What instrumentations of applications send is read as they mean it."""

from dataclasses import replace

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.trace.known_engines import title_of
from latencytrace.model import Attributes, Stage
from tests.support.builders.spans.recorded import recorded, recorded_requests
from tests.support.builders.spans.trees import root
from tests.support.builders.spans.trees import span as child

MS = 1_000_000


@pytest.mark.parametrize(
    ("fixture", "stages"),
    [
        ("openinference", {Stage.EMBED, Stage.RETRIEVE, Stage.TOOL, Stage.REMOTE_MODEL}),
        ("openllmetry", {Stage.EMBED, Stage.RETRIEVE, Stage.TOOL, Stage.REMOTE_MODEL}),
        ("logfire", {Stage.EMBED, Stage.REMOTE_MODEL}),
        (
            "langfuse",
            {Stage.EMBED, Stage.RETRIEVE, Stage.TOOL, Stage.REMOTE_MODEL, Stage.GUARDRAIL},
        ),
    ],
)
def test_an_instrumented_application_shows_what_it_did(fixture: str, stages: set[Stage]) -> None:
    (request,) = recorded_requests(fixture)

    assert {stage for stage in request.ledger if stage.explains} == stages


@pytest.mark.parametrize("fixture", ["openinference", "openllmetry"])
def test_a_streams_first_event_is_its_first_token(fixture: str) -> None:
    (request,) = recorded_requests(fixture)
    (call,) = (
        span for span in recorded(fixture) if span.name in {"ChatCompletion", "openai.chat"}
    )

    assert request.time_to_first_token_ns == call.events[0].time_ns - request.start_ns
    assert (request.input_tokens, request.output_tokens) == (11, 6)


def test_langfuses_first_token_and_tokens_are_read_from_its_json() -> None:
    (request,) = recorded_requests("langfuse")
    call = next(span for span in recorded("langfuse") if span.name == "OpenAI-generation")

    assert request.time_to_first_token_ns is not None
    first_ns = request.start_ns + request.time_to_first_token_ns
    assert call.start_ns + 35 * MS < first_ns < call.end_ns
    assert (request.input_tokens, request.output_tokens) == (22, 12)
    assert request.model == "tiny"


def test_logfires_log_of_a_stream_stands_for_the_stream() -> None:
    (request,) = recorded_requests("logfire")
    (log,) = (span for span in recorded("logfire") if span.name.startswith("streaming response"))

    took_s = log.attributes["duration"]
    assert isinstance(took_s, float)
    streamed = [segment for segment in request.segments if segment.name == log.name]
    assert streamed[0].end_ns - streamed[0].start_ns == pytest.approx(took_s * 1e9, rel=0.05)


def test_vercels_ai_sdk_shows_its_calls_and_its_first_token() -> None:
    chat, title = recorded_requests("ai_sdk")
    first, *_ = (span for span in recorded("ai_sdk") if span.name == "ai.streamText.doStream")

    explained = {stage for stage in chat.ledger if stage.explains}
    assert explained == {Stage.EMBED, Stage.TOOL, Stage.REMOTE_MODEL}
    after_ms = first.attributes["ai.response.msToFirstChunk"]
    assert isinstance(after_ms, float)
    first_ns = first.start_ns - chat.start_ns + after_ms * MS
    assert chat.time_to_first_token_ns == pytest.approx(first_ns, abs=2)
    assert (chat.model, chat.finish_reason) == ("small-1", "stop")
    assert (chat.input_tokens, chat.cached_input_tokens, chat.output_tokens) == (22, 8, 12)
    assert (title.model, title.output_tokens) == ("small-1", 6)


def test_strands_tells_its_first_token_in_milliseconds() -> None:
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.server.time_to_first_token": 40,
    }
    call = replace(
        child("call", 10 * MS, 100 * MS, attributes=attributes), scope="strands.telemetry.tracer"
    )

    (request,) = requests_of([root(end_ns=120 * MS), call], {})

    assert request.time_to_first_token_ns == 50 * MS


@pytest.mark.parametrize(
    ("fixture", "stages", "model", "tokens", "reason"),
    [
        ("agent_framework", {Stage.REMOTE_MODEL, Stage.TOOL}, "tiny", (22, 12), "stop"),
        ("autogen", {Stage.TOOL}, None, (None, None), None),  # it has no spans of calls
        ("crewai", {Stage.REMOTE_MODEL}, "tiny", (22, 12), "stop"),
        ("google_adk", {Stage.REMOTE_MODEL, Stage.TOOL}, "openai/tiny", (22, 12), "stop"),
        (
            "google_adk_older",
            {Stage.REMOTE_MODEL, Stage.TOOL},
            "openai/tiny",
            (None, None),
            None,
        ),
        (
            "haystack",
            {Stage.RETRIEVE, Stage.PREPROCESS, Stage.REMOTE_MODEL},
            None,
            (None, None),
            None,
        ),
        ("langgraph", {Stage.REMOTE_MODEL, Stage.TOOL}, "tiny", (22, 12), None),
        ("llama_index", {Stage.REMOTE_MODEL, Stage.TOOL}, "tiny", (None, None), None),
        ("mastra", {Stage.REMOTE_MODEL}, "tiny", (22, 12), "stop"),
        (
            "mlflow",
            {Stage.EMBED, Stage.TOOL, Stage.REMOTE_MODEL},
            "tiny",
            (11, 6),
            None,
        ),
        ("strands", {Stage.REMOTE_MODEL, Stage.TOOL}, "tiny", (22, 12), "end_turn"),
    ],
)
def test_a_library_that_writes_spans_by_itself_shows_what_it_did(
    fixture: str,
    stages: set[Stage],
    model: str | None,
    tokens: tuple[int | None, int | None],
    reason: str | None,
) -> None:
    request, *_ = recorded_requests(fixture)

    assert {stage for stage in request.ledger if stage.explains} == stages
    assert request.model == model
    assert (request.input_tokens, request.output_tokens) == tokens
    assert request.finish_reason == reason


@pytest.mark.parametrize(
    ("fixture", "name"),
    [("mastra", "chat tiny"), ("mlflow", "Completions"), ("strands", "chat")],
)
def test_a_library_that_tells_its_first_token_is_believed(fixture: str, name: str) -> None:
    (request,) = recorded_requests(fixture)
    call = min(
        (span for span in recorded(fixture) if span.name == name), key=lambda span: span.start_ns
    )

    assert request.time_to_first_token_ns is not None
    first_ns = request.start_ns + request.time_to_first_token_ns
    assert call.start_ns + 40 * MS <= first_ns <= call.end_ns


def test_a_query_engine_of_llama_index_shows_its_steps() -> None:
    *_, request = recorded_requests("llama_index")

    assert {stage for stage in request.ledger if stage.explains} == {
        Stage.RETRIEVE, Stage.EMBED, Stage.PREPROCESS, Stage.REMOTE_MODEL,
    }  # fmt: skip


def test_the_titles_of_autogens_messages_have_no_ids() -> None:
    titles = {title_of(span) for span in recorded("autogen") if span.scope != "made-up-server"}

    assert "autogen process" in titles
    assert not {title for title in titles if "forecaster_" in title}


def test_a_completion_start_of_langfuse_may_be_bare() -> None:
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.completion_start_time": "1970-01-01T00:00:00.050Z",
    }
    call = child("call", 10 * MS, 100 * MS, attributes=attributes)

    (request,) = requests_of([root(end_ns=120 * MS), call], {})

    assert request.time_to_first_token_ns == 50 * MS
