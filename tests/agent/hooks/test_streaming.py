"""When the first token of an answer leaves, under a real server and with a real model."""

from collections.abc import Iterator

import httpx
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from latencytrace.agent.streaming import AnswerStream
from latencytrace.model import Stage, semconv
from tests.agent.hooks.serving import serving
from tests.agent.hooks.tiny_chat import TinyChat
from tests.agent.receiving import ReceivedSpan, TracedProgram

TOKENS = 6


def chatting(chat: TinyChat) -> FastAPI:
    """An application that sends a role first, then what the model makes, then a goodbye."""
    app = FastAPI()

    def generated() -> None:
        chat.model.generate(chat.prompt(), max_new_tokens=TOKENS, do_sample=False)

    @app.get("/stream")
    def stream() -> StreamingResponse:
        def chunks() -> Iterator[str]:
            yield "role"
            generated()
            yield "answer"
            yield "goodbye"

        return StreamingResponse(chunks())

    @app.get("/whole")
    def whole() -> str:
        generated()
        return "answer"

    return app


def first_chunk_ns(span: ReceivedSpan) -> int | None:
    seconds = span.attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
    return round(seconds * 1e9) if isinstance(seconds, float) else None


def test_a_chunk_before_the_first_token_is_not_it() -> None:
    answer = AnswerStream()

    answer.chunk_sent(handed_ns=0)
    answer.token_known()
    answer.chunk_sent(handed_ns=0)  # handed over before there was a token

    assert answer.first_sent_ns is None


def test_a_streams_first_token_leaves_after_its_prefill(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    with serving(chatting(tiny_chat)) as address:
        httpx.get(f"{address}/stream", trust_env=False)

    request = agent.one("GET /stream")
    (prefill,) = agent.of(Stage.PREFILL)
    first_ns = first_chunk_ns(request)
    assert first_ns is not None
    assert prefill.end_ns <= request.start_ns + first_ns <= request.end_ns


def test_an_answer_in_one_piece_has_no_first_chunk(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    with serving(chatting(tiny_chat)) as address:
        httpx.get(f"{address}/whole", trust_env=False)

    assert first_chunk_ns(agent.one("GET /whole")) is None
