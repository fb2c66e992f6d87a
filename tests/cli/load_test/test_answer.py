"""Which events are tokens, in every shape of answer."""

import json

import pytest

from latencytrace.cli.load_test.answer import Answer, Shape, reader


def streamed(*events: object) -> Answer:
    """Event number n is received at n."""
    body = reader("text/event-stream", length_known=False)
    for at_ns, event in enumerate(events):
        text = event if isinstance(event, str) else json.dumps(event)
        body.feed(f"data: {text}\n\n".encode(), at_ns, chunk_ended=True)
    return body.answer(len(events))


def choice(**delta: object) -> dict[str, object]:
    return {"choices": [{"delta": delta, "finish_reason": None}]}


def test_the_first_token_is_the_first_event_with_content() -> None:
    answer = streamed(
        choice(role="assistant", content=""), choice(content="a"), choice(content="b"), choice()
    )

    assert answer.shape is Shape.OPENAI
    assert list(answer.token_times_ns) == [1, 2]
    assert answer.tokens == 2


@pytest.mark.parametrize(
    "event",
    [
        choice(content="a"),
        choice(reasoning_content="hm"),
        choice(reasoning="hm"),
        choice(tool_calls=[{"index": 0}]),
        {"choices": [{"text": "a"}]},
        {"choices": [{"delta": {}}, {"delta": {"content": "second choice"}}]},
    ],
)
def test_content_has_several_names(event: object) -> None:
    assert list(streamed(event).token_times_ns) == [0]


def test_done_and_usage_are_no_tokens() -> None:
    answer = streamed(
        choice(content="ab"), {"choices": [], "usage": {"completion_tokens": 2}}, "[DONE]"
    )

    assert list(answer.token_times_ns) == [0]
    assert answer.reported_tokens == answer.tokens == 2


def test_every_event_of_another_stream_is_a_token() -> None:
    answer = streamed("hello", {"token": "world"}, [1], "{broken", "[DONE]")

    assert answer.shape is Shape.EVENTS
    assert list(answer.token_times_ns) == [0, 1, 2, 3]


def test_an_error_inside_the_stream_is_an_error() -> None:
    assert streamed(choice(content="a"), {"error": {"message": "no"}}).error == (
        "error in the stream"
    )
    assert streamed({"error": None, "token": "a"}).error is None


def test_the_pieces_of_one_chunk_are_one_token() -> None:
    body = reader("text/plain", length_known=False)

    for at_ns, (piece, ended) in enumerate(
        [(b"ab", False), (b"c", True), (b"", True), (b"d", True)]
    ):
        body.feed(piece, at_ns, chunk_ended=ended)

    assert list(body.answer(9).token_times_ns) == [0, 3]


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b'{"usage": {"completion_tokens": 5}}', 5),
        (b'{"usage": {"completion_tokens": true}}', None),
        (b'{"usage": null}', None),
        (b"[1]", None),
        (b"no json", None),
        (b"{" * 100_000, None),
    ],
)
def test_an_answer_in_one_piece_may_report_its_tokens(body: bytes, tokens: int | None) -> None:
    whole = reader("application/json; charset=utf-8", length_known=False)

    whole.feed(body, 1, chunk_ended=True)

    assert whole.answer(2) == Answer(
        shape=Shape.WHOLE, token_times_ns=(), reported_tokens=tokens, error=None
    )
