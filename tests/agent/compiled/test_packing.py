"""Intervals and token times that the core writes, against the forms in Python."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.compiled.core import core
from latencytrace.agent.timing import intervals
from latencytrace.agent.toolkit.answer_events import AnswerEvents
from latencytrace.agent.toolkit.streaming import AnswerStream
from latencytrace.agent.toolkit.token_times import TokenRecorder
from latencytrace.model.stage import Stage

START = 1_000
FORM = b"text/event-stream"

times = st.lists(st.integers(0, 5_000), max_size=300)
stages = st.dictionaries(st.sampled_from((Stage.RESPOND, Stage.NETWORK, Stage.RUNTIME)), times)


def in_python(function: Any) -> Any:
    """The form in Python of a function that the core has a quicker one of."""
    return function.__wrapped__


@given(stages)
def test_intervals_are_written_as_in_python(noted: dict[Stage, list[int]]) -> None:
    assert intervals.packed(noted, START) == in_python(intervals.packed)(noted, START)


@given(stages)
def test_intervals_in_order_are_written_as_in_python(noted: dict[Stage, list[int]]) -> None:
    in_order = {stage: sorted(found) for stage, found in noted.items()}

    assert intervals.packed(in_order, 0) == in_python(intervals.packed)(in_order, 0)


@pytest.mark.parametrize("odd", [[-1, 5], [0, 1 << 70], [0.5, 2.0]], ids=str)
def test_numbers_that_are_no_times_are_left_to_python(odd: list[Any]) -> None:
    noted = {Stage.RESPOND: odd}

    assert intervals.packed(noted, 0) == in_python(intervals.packed)(noted, 0)


gaps = st.lists(st.integers(0, 3) | st.integers(0, 1 << 40), min_size=129, max_size=700)


@given(gaps, st.lists(st.integers(0, 2), max_size=40))
def test_the_longest_gaps_are_those_of_python(lengths: list[int], merged: list[int]) -> None:
    together = [*merged, *[0] * (len(lengths) - len(merged))] if merged else []
    passed = [0]
    for length in lengths:
        passed.append(passed[-1] + length)
    ours, theirs = TokenRecorder(), TokenRecorder()

    found = ours._longest(lengths, together, passed)
    wanted = in_python(TokenRecorder._longest)(theirs, lengths, together, passed)

    assert found == wanted
    assert ours._buckets == theirs._buckets


@given(st.lists(st.integers(0, 1 << 30), max_size=400), st.lists(st.integers(1, 1 << 30)))
def test_token_times_with_kept_chunks_are_those_without(
    before: list[int], after: list[int]
) -> None:
    recorder = TokenRecorder()
    at_ns = START
    for gap in before:
        at_ns += gap
        recorder.note(at_ns)
    answer, chunks = AnswerStream(), core.new_chunks()
    for gap in after:
        at_ns += gap
        chunks.add(at_ns - 1, at_ns)

    text = core.token_text(recorder, START, chunks)
    noted = {Stage.RESPOND: answer.sends}
    sends = core.interval_text(noted, START, answer.sends, chunks)
    chunks.drain(answer.sends, recorder.times)

    if after:
        assert sends == intervals.packed(noted, START)
        assert text == recorder.packed(START)


EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
PIECES = (
    b'"content":"', b'"content":""', b'"index":0,', b'"index":1}', b'"index": 12', b'"choices":[{',
    b'"choices" : [ {', b'"text" : "word"', b'"type":"ping"', b'"usage":{"completion_tokens":3}',
    b'"reasoning":"why"', b"word", b"[", b"{", b"}", b" ", b"\n", b"\n\n", b"\r\n", b'"',
    b"data: ", b'"tool_calls":[{', b"[DONE]",
)  # fmt: skip
events = st.lists(
    st.just(EVENT)
    | st.sampled_from((EVENT.replace(b"word", b""), EVENT * 2, EVENT[:30], b": ping\n\n"))
    | st.lists(st.sampled_from(PIECES), max_size=8).map(
        lambda pieces: b"data: {" + b"".join(pieces) + b"}\n\n"
    )
    | st.binary(max_size=30),
    max_size=12,
)


@given(events, st.sampled_from((FORM, b"application/x-ndjson", b"text/plain")))
def test_first_events_teach_what_they_teach_in_python(bodies: list[bytes], form: bytes) -> None:
    ours, theirs = AnswerEvents(form), AnswerEvents(form)

    for body in bodies:
        if core.event_learned(ours, body):
            assert theirs.read(body) == 1
        else:
            assert ours.read(body) == theirs.read(body)
        assert learned(ours) == learned(theirs)


def learned(events: AnswerEvents) -> tuple[object, ...]:
    names = (
        "_hidden",
        "_known",
        "_reasoning_left",
        "_total",
        "begins",
        "choices",
        "key",
        "key_at",
    )
    return tuple(getattr(events, name) for name in names)


def test_the_usual_event_is_read_by_the_core() -> None:
    events = AnswerEvents(FORM)

    assert [core.event_learned(events, EVENT) for _ in range(6)] == [True] * 4 + [False] * 2
    assert events.key == b'"content":"'
