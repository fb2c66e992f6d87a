"""When the first token of an answer leaves, under a real server and with a real model."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

import httpx
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import set_value
from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from latencytrace.agent.clock import wall_ns
from latencytrace.agent.context import call_in
from latencytrace.agent.toolkit.streaming import ANSWER, AnswerStream, MadeTokens
from latencytrace.agent.toolkit.token_times import HELD
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.stalls import stalls
from latencytrace.analysis.tokens.gaps import token_times
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.dividing import traces_of
from tests.support.agent.receiving import ReceivedSpan, TracedProgram
from tests.support.models.tiny_chat import TinyChat
from tests.support.servers.serving import drain, raw_get, serving
from tests.support.waiting import PATIENCE_S

TOKENS = 6
CLIENT_PAUSE_S = 0.5


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

    @app.get("/tokens")
    def tokens() -> StreamingResponse:

        def chunks() -> Iterator[str]:
            for _ in range(TOKENS):
                chat.model.generate(chat.prompt(), max_new_tokens=1, do_sample=False)
                yield "x"

        return StreamingResponse(chunks())

    @app.get("/whole")
    def whole() -> str:
        generated()
        return "answer"

    return app


def sending_much(first_has_left: threading.Event) -> FastAPI:
    """An application whose first token is more than the buffers of `serving` hold.

    Args:
        first_has_left: Set once its first token has been sent, and its second waits.
    """
    app = FastAPI()

    @app.get("/large")
    async def large() -> StreamingResponse:

        # It makes the tokens where they are sent from: no thread has to be waited for, so that the
        # usual gap between two of them is short however busy the machine is.
        async def chunks() -> AsyncIterator[str]:
            made = MadeTokens()
            made.add()
            yield 3_000_000 * "x"
            asyncio.get_running_loop().call_soon(first_has_left.set)
            for _ in range(3 * TOKENS):
                made.add()
                yield "x"

        return StreamingResponse(chunks())

    return app


ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
WORD = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'


def passing_on(role_has_come: threading.Event) -> FastAPI:
    """A gateway: what it streams is made elsewhere.

    Args:
        role_has_come: Set once the caller has the role and a comment; then come the words.
    """
    app = FastAPI()

    @app.middleware("http")
    async def as_streams(request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)

    @app.get("/chat")
    def chat() -> StreamingResponse:
        def chunks() -> Iterator[bytes]:
            yield ROLE
            yield b": ping\n\n"
            assert role_has_come.wait(PATIENCE_S)
            yield from (WORD, WORD, WORD)
            yield b"data: [DONE]\n\n"

        return StreamingResponse(chunks(), media_type="text/event-stream")

    @app.get("/whole")
    def whole() -> str:
        return "answer"

    return app


def first_chunk_ns(span: ReceivedSpan) -> int | None:
    seconds = span.attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
    return round(seconds * 1e9) if isinstance(seconds, float) else None


def test_a_chunk_before_the_first_token_is_not_it() -> None:
    answer = AnswerStream()

    answer.chunk_sent(b"role", known=0, sent_ns=1)
    answer.known += 1
    answer.chunk_sent(b"role", known=0, sent_ns=2)  # handed over before there was a token

    assert answer.described(0) == {semconv.STREAMED_FIRST_BODY: 1}


def test_an_empty_chunk_carries_no_token() -> None:
    answer = AnswerStream()

    answer.chunk_sent(b"", known=1, sent_ns=1)
    answer.chunk_sent(b"word", known=3, sent_ns=3)

    assert answer.described(0)[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] == 3e-9


def test_a_chunk_that_carries_no_new_token_is_none() -> None:
    answer = AnswerStream()

    for sent_ns, known in ((10, 1), (20, 1), (30, 2), (70, 3), (80, 3)):
        answer.chunk_sent(b"x", known, sent_ns)

    assert answer.described(0)[semconv.TOKEN_TIMES] == "10;20,40"


def test_a_chunk_may_carry_a_token_that_was_made_while_the_one_before_it_left() -> None:
    answer = AnswerStream()

    for sent_ns, known in ((10, 2), (20, 2), (30, 3)):  # the model is one token ahead
        answer.chunk_sent(b"x", known, sent_ns)

    described = answer.described(0)
    assert described[semconv.TOKEN_TIMES] == "10;10,10"
    assert described[semconv.STREAMED_TOKENS] == 2


def test_tokens_that_a_model_made_before_the_first_that_left_are_not_among_those_after_it() -> (
    None
):
    answer = AnswerStream()

    for known in range(901, 1001):  # the first 900 were reasoning
        answer.chunk_sent(b"x", known, sent_ns=10 * known)

    assert answer.described(0)[semconv.STREAMED_TOKENS] == 99


def test_what_is_sent_once_the_caller_has_left_is_not_counted() -> None:
    answer = AnswerStream()
    answer.begun(((b"content-type", b"text/event-stream"),))

    for number in range(100):
        if number == 50:
            answer.left()
        answer.chunk_sent(b'data: {"content":"x"}\n\n', number + 1, sent_ns=10 * number)

    described = answer.described(0)
    assert described[semconv.STREAMED_TOKENS] == 49
    times = unpack_token_times(str(described[semconv.TOKEN_TIMES]), 0)
    assert sum(times.lengths_ns) == 490


def test_a_comment_between_events_of_ones_own_form_carries_no_token() -> None:
    answer = AnswerStream()
    answer.begun(((b"content-type", b"text/event-stream"),))

    for number in range(1, 11):
        answer.chunk_sent(b"data: word\n\n", 2 * number, sent_ns=20 * number)
        answer.chunk_sent(b": ping\n\n", 2 * number + 1, sent_ns=20 * number + 10)

    assert answer.described(0)[semconv.TOKEN_TIMES] == "20;" + ",".join(["20"] * 9)


def test_plain_text_that_follows_the_callers_leaving_is_not_counted() -> None:
    answer = AnswerStream()

    for number in range(1, 11):
        if number == 6:
            answer.left()
        answer.chunk_sent(b"word ", number, sent_ns=10 * number)

    assert answer.described(0)[semconv.STREAMED_TOKENS] == 4


def test_four_tokens_a_packet_are_four_tokens_each() -> None:
    answer = AnswerStream()

    for packet in range(1, 7):
        answer.chunk_sent(b"four words in one", 4 * packet, sent_ns=40 * packet)

    assert answer.described(0)[semconv.STREAMED_TOKENS] == 20


def test_an_answer_of_known_length_is_not_streamed_however_it_is_cut() -> None:
    answer = AnswerStream()
    answer.begun(((b"content-type", b"text/html"), (b"Content-Length", b"100")))

    answer.chunk_sent(b"x", known=1, sent_ns=1)

    assert answer.described(0) == {}


def test_a_stream_of_any_length_is_folded_as_it_goes() -> None:
    answer = AnswerStream()

    for token in range(1, 3 * HELD):
        answer.chunk_sent(b"x", token, 1000 * token)

    times = unpack_token_times(str(answer.described(0)[semconv.TOKEN_TIMES]), 0)
    assert sum(times.lengths_ns) == 1000 * (3 * HELD - 2)


EVENT = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
CHUNKS = {
    "event": EVENT,
    "empty event": EVENT.replace(b"word", b""),
    "two events": 2 * EVENT,
    "cut event": EVENT[: EVENT.index(b"word")],
    "other place": EVENT.replace(b"choices", b"the choices"),
    "comment": b": ping\n\n",
    "end": b"data: [DONE]\n\n",
    "empty": b"",
}


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(CHUNKS)), st.integers(0, 2), st.booleans()), max_size=120
    ),
    st.sampled_from((b"text/event-stream", b"text/plain", b"application/x-ndjson")),
)
def test_chunks_that_are_held_are_read_as_those_that_are_not(
    chunks: list[tuple[str, int, bool]], content_type: bytes
) -> None:
    at_once, held = AnswerStream(), AnswerStream()
    for answer in (at_once, held):
        answer.begun(((b"content-type", content_type),))

    for number, (chunk, made, is_read) in enumerate(chunks, 1):
        at_once.known += made
        at_once.chunk_sent(CHUNKS[chunk], at_once.known, sent_ns=20 * number)
        held.known += made
        held.held += (20 * number - 10, 20 * number, held.known, CHUNKS[chunk])
        if is_read:
            held.catch_up()

    assert held.described(0) == at_once.described(0)
    assert held.carried == at_once.carried
    assert held.sends == [10 * time for time in range(1, 2 * len(chunks) + 1)]


def test_chunks_are_read_at_once_until_a_token_of_theirs_has_left() -> None:
    answer = AnswerStream()
    answer.begun(((b"content-type", b"text/event-stream"),))
    made = call_in(set_value(ANSWER, answer), MadeTokens)
    eager = [answer.eager]

    for known, chunk in ((0, b": ping\n\n"), (0, EVENT), (1, EVENT), (1, EVENT)):
        if known > answer.known:
            made.add()
            eager.append(answer.eager)
        answer.held += (1, 2, known, chunk)
        answer.catch_up()
        eager.append(answer.eager)

    assert eager == [True, True, False, True, False, False]


def test_an_answer_of_known_length_is_not_read_chunk_by_chunk() -> None:
    answer = AnswerStream()

    answer.begun(((b"content-length", b"100"),))
    answer.held += (1, 2, 0, b"x")

    assert not answer.eager
    assert answer.described(0) == {}
    assert answer.sends == [1, 2]


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


def test_the_tokens_of_a_generation_are_timed_on_its_decoding(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=TOKENS, do_sample=False)

    (decode,) = agent.of(Stage.DECODE)
    times = unpack_token_times(str(decode.attributes[semconv.TOKEN_TIMES]), decode.start_ns)
    assert times.first_ns == decode.start_ns
    assert len(times.lengths_ns) == TOKENS - 1
    assert 0 < sum(times.lengths_ns) <= decode.duration_ns


def test_a_stream_of_tokens_is_timed_as_they_leave(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    with serving(chatting(tiny_chat)) as address:
        httpx.get(f"{address}/tokens", trust_env=False)

    request = agent.one("GET /tokens")
    times = unpack_token_times(str(request.attributes[semconv.TOKEN_TIMES]), request.start_ns)
    assert times.first_ns == request.start_ns + (first_chunk_ns(request) or 0)
    assert len(times.lengths_ns) == TOKENS - 1
    assert times.first_ns + sum(times.lengths_ns) <= request.end_ns


def test_a_gap_that_a_slow_client_makes_is_a_stall_of_respond(
    agent: TracedProgram,
) -> None:
    first_has_left = threading.Event()
    with serving(sending_much(first_has_left)) as address:
        with raw_get(address, "/large") as client:
            assert first_has_left.wait(PATIENCE_S)
            time.sleep(CLIENT_PAUSE_S)  # in which the second cannot leave
            drain(client)
        agent.one("GET /large")

    (trace,) = traces_of(agent)
    found = stalls(trace, critical_path(trace), token_times(trace))
    of_respond = [stall.duration_ns for stall in found if stall.label == "respond"]
    assert max(of_respond) >= CLIENT_PAUSE_S * 1e9


def test_the_first_token_of_a_gateways_answer_leaves_after_its_role_and_its_comment(
    agent: TracedProgram,
) -> None:
    role_has_come = threading.Event()
    with serving(passing_on(role_has_come)) as address:
        with raw_get(address, "/chat") as client:
            got = b""
            while b": ping" not in got:
                got += client.recv(1 << 16)
            before_ns = wall_ns()
            role_has_come.set()
            drain(client)
        request = agent.one("GET /chat")

    assert request.start_ns + (first_chunk_ns(request) or 0) >= before_ns
    assert request.attributes[semconv.STREAMED_EVENTS] == 2


def test_an_answer_that_a_middleware_hands_on_as_a_stream_is_none(agent: TracedProgram) -> None:
    with serving(passing_on(threading.Event())) as address:
        httpx.get(f"{address}/whole", trust_env=False)
        request = agent.one("GET /whole")

    assert first_chunk_ns(request) is None
    assert semconv.STREAMED_FIRST_BODY not in request.attributes


def test_an_answer_in_one_piece_has_no_first_chunk(
    agent: TracedProgram, tiny_chat: TinyChat
) -> None:
    with serving(chatting(tiny_chat)) as address:
        httpx.get(f"{address}/whole", trust_env=False)

    assert first_chunk_ns(agent.one("GET /whole")) is None
