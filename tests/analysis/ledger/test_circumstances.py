"""What a request met where it was served: told by its spans, or unknown."""

from dataclasses import replace

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Event, Request, Span, Stage, semconv
from tests.support.builders.spans.trees import root, span

OURS = "latencytrace"


def divided(*spans: Span) -> Request:
    return requests_of(spans, {})[0]


def ours(**attributes: int) -> Span:
    """A request that our agent timed."""
    return replace(root(attributes=attributes), scope=OURS)


def test_what_nobody_tells_is_unknown() -> None:
    found = divided(root(), span("decode", 0, 50, stage=Stage.DECODE))

    told = (found.queue_depth, found.concurrency, found.preemptions, found.cold_start)
    assert told == (None, None, None, None)


def test_the_agent_tells_how_many_requests_were_under_way() -> None:
    inner = span("inner", 0, 50, attributes={semconv.CONCURRENCY: 9}, service="other")

    assert divided(root(attributes={semconv.CONCURRENCY: 3}), inner).concurrency == 3


def test_of_several_queues_the_longest_counts() -> None:
    found = divided(
        root(attributes={semconv.QUEUE_DEPTH: 1}),
        span("queue", 0, 5, stage=Stage.QUEUE, attributes={semconv.QUEUE_DEPTH: 4}),
        span("again", 5, 9, stage=Stage.QUEUE, attributes={semconv.QUEUE_DEPTH: 0}),
    )

    assert found.queue_depth == 4


@pytest.mark.parametrize("depth", [-1, True, "4", 1 << 63, None])
def test_a_depth_that_is_no_count_is_unknown(depth: object) -> None:
    made = span("queue", 0, 5, attributes={semconv.QUEUE_DEPTH: depth})  # type: ignore[dict-item]

    assert divided(root(), made).queue_depth is None


def test_preemptions_are_added_up_and_none_is_told_too() -> None:
    never = span("a", 0, 5, attributes={semconv.PREEMPTIONS: 0})
    twice = span("b", 5, 9, attributes={semconv.PREEMPTIONS: 2})
    event = replace(span("c", 9, 20), events=(Event(name="request.PREEMPTED", time_ns=10),))

    assert divided(root(), never).preemptions == 0
    assert divided(root(), never, twice, event).preemptions == 3


def test_a_request_that_something_was_loaded_for_was_a_cold_start() -> None:
    loading = span("from_pretrained", 0, 50, stage=Stage.LOAD)

    assert divided(root(), loading).cold_start is True
    assert divided(ours(), loading).cold_start is True


def test_none_was_loaded_only_where_our_agent_would_have_seen_it() -> None:
    assert divided(ours()).cold_start is False
    assert divided(root()).cold_start is None
