"""The spans of open traces in memory."""

from dataclasses import replace

import numpy as np
import pytest

from latencytrace.model import Span
from latencytrace.service.ledgers import held_spans
from latencytrace.service.ledgers.held_spans import (
    HeldSpans,
    by_block,
    in_few_blocks,
    spans_in,
)
from latencytrace.service.otlp.traces import CheckedRequest, check
from tests.support.builders.spans.otlp_messages import one_span, otlp

FIRST, SECOND = "1" * 32, "2" * 32


def post(*spans: Span) -> CheckedRequest:
    return check(otlp(*spans), None, None)


def bytes_of(post: CheckedRequest) -> int:
    """The memory that a post takes; more than that of its columns."""
    alone = HeldSpans()
    hold(alone, post)
    assert alone.bytes > post.columns.nbytes
    return alone.bytes


def hold(held: HeldSpans, *posts: CheckedRequest) -> None:
    for one in posts:
        held.add(one.columns, one.rows)


def test_a_trace_of_several_posts_is_held_whole() -> None:
    held = HeldSpans()
    root, child = one_span(FIRST), one_span(FIRST, "c" * 16, parent_id="a" * 16)
    hold(held, post(child, one_span(SECOND)), post(root))

    assert held.count(FIRST) == 2
    assert spans_in(held.parts(FIRST)) == (child, root)
    assert [len(rows) for _, rows in by_block([held.parts(FIRST), held.parts(SECOND)])] == [2, 1]


def test_what_came_twice_is_one_span_and_the_longer_one_stands() -> None:
    held = HeldSpans()
    short = one_span(FIRST)
    long = replace(short, end_ns=short.end_ns + 5, name="longer")
    hold(held, post(short), post(long), post(short))

    assert held.count(FIRST) == 3
    assert spans_in(held.parts(FIRST)) == (long,)


def test_a_post_takes_memory_until_all_of_its_traces_are_released() -> None:
    held = HeldSpans()
    both = post(one_span(FIRST), one_span(SECOND))
    hold(held, both)
    held.release([FIRST])
    between = held.bytes
    held.release([SECOND, "3" * 32])

    assert (between, held.bytes) == (bytes_of(both), 0)
    assert held.count(FIRST) == 0


def test_beyond_the_bound_the_oldest_posts_are_let_go() -> None:
    posts = [post(one_span(FIRST, f"{number:016x}")) for number in range(1, 5)]
    held = HeldSpans(max_bytes=2 * bytes_of(posts[0]))
    hold(held, *posts)

    assert held.count(FIRST) == 2
    assert held.let_go == 2
    assert [span.span_id for span in spans_in(held.parts(FIRST))] == [
        "0" * 15 + "3",
        "0" * 15 + "4",
    ]


def test_a_post_that_is_not_kept_is_let_go() -> None:
    held = HeldSpans()
    kept, failed = post(one_span(FIRST)), post(one_span(FIRST, "c" * 16), one_span(SECOND))
    hold(held, kept, failed)
    held.remove(failed.columns)
    held.remove(failed.columns)

    assert (held.count(FIRST), held.count(SECOND)) == (1, 0)
    assert held.bytes == bytes_of(kept)


def test_what_is_kept_is_joined_unless_most_of_its_block_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_spans, "_JOINED_SPANS", 6)
    blocks = [check(otlp(*spans_of(number)), None, None).columns for number in range(5)]
    rows = [np.arange(4), np.array([1]), np.array([3, 0]), np.arange(4), np.arange(4)]

    found = list(in_few_blocks(list(zip(blocks, rows, strict=True))))

    assert [block.count for block, _ in found] == [4, 8, 8]
    kept = [span for block, chosen in found for span in block.spans(chosen)]
    expected = [
        span for block, chosen in zip(blocks, rows, strict=True) for span in block.spans(chosen)
    ]
    assert sorted(kept, key=str) == sorted(expected, key=str)


def spans_of(number: int) -> list[Span]:
    return [one_span(f"{number + 1:032x}", f"{at + 1:016x}", name=f"{at}") for at in range(4)]
