"""Which chunks of a streamed answer carry output, in the forms of the APIs in use."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.toolkit.answer_events import OPAQUE, AnswerEvents, events_of
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.model import semconv

EVENT_STREAM = ((b"content-type", b"text/event-stream; charset=utf-8"),)
QUOTED = 'a "secret" with "content":"in it"'


def chat(index: int = 0, reason: str | None = None, /, **delta: object) -> dict[str, object]:
    """A chunk of OpenAI's chat completions."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


def tool_call(**function: str) -> dict[str, object]:
    return chat(tool_calls=[{"index": 1, "id": "c", "type": "function", "function": function}])


def event(value: object, name: str = "", *, spaced: bool = False) -> bytes:
    """A server-sent event."""
    text = json.dumps(value, separators=None if spaced else (",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def usage(total: int, **details: int) -> dict[str, object]:
    told = {"completion_tokens": total, "completion_tokens_details": details}
    return {"id": "chatcmpl-1", "choices": [], "usage": told}


@pytest.mark.parametrize("spaced", [False, True], ids=["compact", "spaced"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(chat(role="assistant"), 0, id="a role"),
        pytest.param(chat(role="assistant", content=""), 0, id="a role and nothing"),
        pytest.param(chat(content=None), 0, id="null"),
        pytest.param(chat(content="Hello"), 1, id="a word"),
        pytest.param(chat(content='"'), 1, id="a quotation mark"),
        pytest.param(chat(content="", reasoning_content="Well"), 1, id="shown reasoning"),
        pytest.param(tool_call(name="search", arguments=""), 1, id="a tool's name"),
        pytest.param(tool_call(arguments='{"q":'), 1, id="a tool's arguments"),
        pytest.param(chat(0, "stop"), 0, id="a finish reason"),
        pytest.param(chat(0, "tool_calls", tool_calls=[]), 0, id="no tool any more"),
        pytest.param(usage(7), 0, id="usage"),
        pytest.param({"choices": [{"text": "Hello", "index": 0}]}, 1, id="a completion's text"),
        pytest.param({"error": {"message": "broken"}}, 0, id="an error"),
        pytest.param(
            {"type": "response.output_text.delta", "delta": "Hello"}, 1, id="a response's delta"
        ),
        pytest.param(
            {"type": "response.output_text.done", "text": "Hello you"}, 0, id="it, repeated"
        ),
        pytest.param(
            {"type": "message_start", "message": {"content": [], "usage": {"output_tokens": 1}}},
            0,
            id="a message's start",
        ),
        pytest.param(
            {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
            0,
            id="a block's start",
        ),
        pytest.param(
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}},
            1,
            id="a block's text",
        ),
        pytest.param(
            {"type": "content_block_delta", "delta": {"partial_json": '{"q"'}},
            1,
            id="a block's arguments",
        ),
        pytest.param({"type": "ping"}, 0, id="a ping"),
        pytest.param({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}, 1, id="Gemini"),
        pytest.param({"token": {"id": 3, "text": " the"}}, 1, id="TGI"),
        pytest.param({"word": "Hello"}, OPAQUE, id="a form of one's own"),
    ],
)
def test_an_event_has_output_if_a_key_of_the_form_holds_some(
    value: object, expected: int, *, spaced: bool
) -> None:
    events = events_of(EVENT_STREAM)

    assert events is not None
    assert events.read(event(value, spaced=spaced)) == expected


@pytest.mark.parametrize(
    "chunk",
    [
        b": ping\n\n",
        b":\r\n\r\n",
        b"\n",
        b"",
        b"data: [DONE]\n\n",
        b"event: ping\n\n",
        b"data:\n\n",
    ],
)
def test_a_comment_and_an_empty_event_have_none(chunk: bytes) -> None:
    events = events_of(EVENT_STREAM)

    assert events is not None
    assert events.read(chunk) == 0


def test_lines_of_json_are_events_as_well() -> None:
    events = AnswerEvents(b"application/x-ndjson")
    lines = [{"response": "He", "done": False}, {"response": "llo", "done": False}]

    assert events.read(b"".join(json.dumps(line).encode() + b"\n" for line in lines)) == 2
    assert events.read(b'{"response":"","done":true,"eval_count":2}\n') == 0
    assert events.tokens == 2


def test_a_compressed_answer_is_read_by_nobody() -> None:
    events = events_of((*EVENT_STREAM, (b"content-encoding", b"gzip")))

    assert events is not None
    assert events.read(event(chat(role="assistant"))) == OPAQUE


def sent(*chunks: bytes) -> dict[str, object]:
    """What is told of a stream whose chunks left 10 ns after each other."""
    answer = AnswerStream()
    answer.begun(EVENT_STREAM)
    for number, chunk in enumerate(chunks):
        answer.chunk_sent(chunk, 0, 10 * number)
    return dict(answer.described(0))


WORDS = tuple(event(chat(content=f"word {number} ")) for number in range(30))


def test_the_first_token_is_the_first_output_and_the_last_is_the_last() -> None:
    before = (b": ping\n\n", event(chat(role="assistant", content="")))
    after = (event(chat(0, "stop")), event(usage(30)), b"data: [DONE]\n\n")

    told = sent(*before, *WORDS, b": ping\n\n", *after)

    assert told[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] == 20e-9
    assert told[semconv.TOKEN_TIMES] == "20;" + ",".join(["10"] * 29)
    assert told[semconv.STREAMED_TOKENS] == 29


def test_a_chunk_may_be_a_view() -> None:
    answer = AnswerStream()
    answer.begun(EVENT_STREAM)

    for number, word in enumerate(WORDS):
        answer.chunk_sent(memoryview(word), 0, number)  # type: ignore[arg-type] # as Starlette may

    assert answer.described(0)[semconv.STREAMED_EVENTS] == 29


def test_a_comment_between_tokens_is_no_packet() -> None:
    told = sent(*WORDS, b": ping\n\n", *WORDS)

    assert told[semconv.STREAMED_EVENTS] == 59
    assert str(told[semconv.TOKEN_TIMES]).endswith("10,20" + 29 * ",10")


def test_events_that_leave_together_are_each_counted_in_one_packet() -> None:
    told = sent(*WORDS, WORDS[0] + WORDS[1] + WORDS[2])

    assert told[semconv.STREAMED_EVENTS] == 32
    assert str(told[semconv.TOKEN_TIMES]).count(",") == 29


def test_what_the_answer_says_of_its_tokens_counts_where_an_event_carries_several() -> None:
    told = sent(*WORDS, event(usage(120)))

    assert told[semconv.STREAMED_TOKENS] == 116


def test_hidden_reasoning_is_not_among_the_tokens_that_left() -> None:
    told = sent(*WORDS, event(usage(930, reasoning_tokens=900)))

    assert told[semconv.STREAMED_TOKENS] == 29


def test_reasoning_that_left_is_counted() -> None:
    thoughts = [event(chat(reasoning_content="hm ")) for _ in range(70)]

    told = sent(*thoughts, *WORDS, event(usage(100, reasoning_tokens=70)))

    assert told[semconv.STREAMED_TOKENS] == 99


def test_a_count_of_fewer_tokens_than_there_are_events_is_not_of_all() -> None:
    counted = event({**chat(content="a"), "usage": {"completion_tokens": 1}})

    assert semconv.STREAMED_TOKENS not in sent(counted, *WORDS)


def test_of_answers_beside_each_other_each_has_a_first_packet() -> None:
    both = [event(chat(index, content=f"{word} ")) for word in range(20) for index in range(2)]

    told = sent(*both)

    assert told[semconv.STREAMED_CHOICES] == 2
    assert told[semconv.STREAMED_EVENTS] == 38


def test_a_stream_may_change_from_text_to_a_tools_arguments_and_back() -> None:
    tool = [event(tool_call(arguments="{")) for _ in range(20)]

    assert sent(*WORDS, *tool, *WORDS)[semconv.STREAMED_EVENTS] == 79


contents = st.text(min_size=1).map(lambda text: chat(content=text))
empty = st.sampled_from([chat(role="assistant"), chat(content=""), usage(0), chat(0, "stop")])


def has_output(chunk: dict[str, Any]) -> bool:
    return any(choice["delta"].get("content") for choice in chunk["choices"])


@given(st.lists(st.lists(contents | empty, min_size=1, max_size=3), max_size=40))
def test_output_is_counted_wherever_events_are_cut_and_whatever_they_say(
    packets: list[list[dict[str, object]]],
) -> None:
    answer = AnswerStream()
    answer.begun(EVENT_STREAM)

    for number, packet in enumerate(packets):
        answer.chunk_sent(b"".join(map(event, packet)), 0, number)

    counts = [sum(map(has_output, packet)) for packet in packets]
    first = next(filter(None, counts), 0)
    assert answer.described(0).get(semconv.STREAMED_EVENTS, 0) == sum(counts) - first


def test_no_content_is_kept() -> None:
    assert "secret" not in repr(sent(*WORDS, event(chat(content=QUOTED))))
