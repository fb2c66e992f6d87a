"""What a message started is followed where it was awaited, and queued until then; truth in ms."""

from dataclasses import replace

import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.model import Link, Span, SpanKind, Stage, semconv
from tests.support.builders.spans.trees import TRACE_ID, root, span

PRODUCER, CONSUMER = SpanKind.PRODUCER, SpanKind.CONSUMER
SEND = span("send", 10, 12, kind=PRODUCER)
TASK = span("task", 112, 362, kind=CONSUMER, parent="send", service="worker")
DECODE = span("decode", 112, 362, parent="task", service="worker", stage=Stage.DECODE)
AWAITED = {Stage.UNATTRIBUTED: 48, Stage.QUEUE: 102, Stage.DECODE: 250}


def linked(consumer: Span, *to: str, trace_id: str = TRACE_ID) -> Span:
    """The same without a parent, with links instead."""
    links = tuple(Link(trace_id=trace_id, span_id=span_id) for span_id in to)
    return replace(consumer, parent_id=None, links=links)


def test_a_consumer_is_followed_where_its_message_was_awaited() -> None:
    outer, inner = requests_of([root(400), SEND, TASK, DECODE], {})

    assert outer.ledger == AWAITED
    assert inner.ledger == {Stage.QUEUE: 100, Stage.DECODE: 250}
    assert (inner.span_id, inner.outermost, inner.duration_ns) == ("task", False, 350)
    assert outer.repairs == inner.repairs == ()


@pytest.mark.parametrize(("waited_ns", "queued"), [(WEEK_NS, True), (WEEK_NS + 1, False)])
def test_a_message_waits_no_longer_than_a_request_may_last(
    waited_ns: int, *, queued: bool
) -> None:
    taken_ns = (SEND.end_ns or 0) + waited_ns
    task = replace(TASK, start_ns=taken_ns, end_ns=taken_ns + 250 * 10**6)

    _, work = requests_of([root(20), SEND, task], {})

    assert (Stage.QUEUE in work.ledger) is queued
    assert work.duration_ns == 250 * 10**6 + queued * waited_ns


def test_a_consumer_of_its_producers_own_service_is_followed_too() -> None:
    here = (replace(TASK, service="rag"), replace(DECODE, service="rag"))

    (found,) = requests_of([root(400), SEND, *here], {})

    assert found.ledger == AWAITED


def test_the_nearest_span_that_still_ran_is_what_awaited_it() -> None:
    ask = span("ask", 5, 380, stage=Stage.TOOL)
    publish = span("publish", 8, 14, parent="ask")

    outer, _ = requests_of(
        [root(400), ask, publish, replace(SEND, parent_id="publish"), TASK, DECODE], {}
    )

    assert outer.ledger[Stage.DECODE] == 250
    assert outer.ledger[Stage.TOOL] == 380 - 5 - 350 - 2  # less sending, and the task
    assert outer.ledger[Stage.UNATTRIBUTED] == 25


def test_what_the_consumer_does_once_its_answer_has_left_was_not_awaited() -> None:
    outer, _ = requests_of([root(370), SEND, replace(TASK, end_ns=375), DECODE], {})

    assert outer.ledger == {Stage.UNATTRIBUTED: 18, Stage.QUEUE: 102, Stage.DECODE: 250}


@pytest.mark.parametrize("service", ["worker", "rag"])
def test_a_consumer_that_nobody_awaited_is_a_request_of_its_own(service: str) -> None:
    task = (replace(TASK, service=service), replace(DECODE, service=service))

    outer, inner = requests_of([root(120), SEND, *task], {})

    assert outer.ledger == {Stage.UNATTRIBUTED: 118, Stage.QUEUE: 2}
    assert inner.ledger == {Stage.QUEUE: 100, Stage.DECODE: 250}
    assert (outer.outermost, inner.outermost) == (True, False)
    assert outer.repairs == inner.repairs == ()


def test_a_consumer_that_a_server_span_started_itself_costs_nothing_where_it_is_not_awaited() -> (
    None
):
    task = replace(TASK, parent_id="root", start_ns=20, host="elsewhere")
    rerank = span("rerank", 10, 90, stage=Stage.RERANK)

    outer, _ = requests_of([root(100), rerank, task], {})

    assert outer.ledger == {Stage.RERANK: 80, Stage.UNATTRIBUTED: 20}


def test_a_consumer_joined_by_a_link_alone_is_part_of_the_story() -> None:
    outer, inner = requests_of([root(400), SEND, linked(TASK, "send"), DECODE], {})

    assert outer.ledger == AWAITED
    assert (outer.outermost, inner.outermost) == (True, False)


def test_a_linked_consumer_goes_below_a_producer_that_waits_for_the_answer() -> None:
    asking = span("ask", 10, 390, kind=PRODUCER)

    outer, inner = requests_of([root(400), asking, linked(TASK, "ask"), DECODE], {})

    truth = {Stage.UNATTRIBUTED: 20, Stage.QUEUE: 130, Stage.DECODE: 250}
    assert outer.ledger == truth
    assert not inner.outermost


def test_a_consumer_of_another_trace_is_a_request_of_its_own() -> None:
    elsewhere = linked(TASK, "send", trace_id="f" * 32)

    (found,) = requests_of([elsewhere, DECODE], {})

    assert found.outermost
    assert found.ledger == {Stage.DECODE: 250}


def test_the_wait_of_a_consumer_of_another_trace_is_queue_where_it_is_told() -> None:
    elsewhere = linked(TASK, "send", trace_id="f" * 32)
    told = replace(elsewhere, attributes={semconv.QUEUED_NS: 100})

    (found,) = requests_of([told, DECODE], {})

    assert found.ledger == {Stage.QUEUE: 100, Stage.DECODE: 250}


def test_a_batch_that_links_to_its_members_is_not_joined_to_them() -> None:
    batch = replace(linked(TASK, "send"), attributes={semconv.SHARED: True})

    (found,) = requests_of([root(400), SEND, batch], {})

    assert found.ledger == {Stage.UNATTRIBUTED: 398, Stage.QUEUE: 2}


def test_a_consumer_that_links_to_what_it_started_itself_is_no_child_of_that() -> None:
    inner = span("inner", 120, 130, kind=PRODUCER, parent="task", service="worker")

    (found,) = requests_of([linked(TASK, "inner"), inner], {})

    assert (found.span_id, found.duration_ns) == ("task", 250)


def test_a_message_delivered_again_queued_since_its_first_delivery() -> None:
    again = replace(TASK, span_id="again", start_ns=370, end_ns=380)

    requests = requests_of([root(400), SEND, TASK, DECODE, again], {})

    assert requests[2].ledger == {Stage.QUEUE: 8, Stage.UNATTRIBUTED: 10}


def test_each_service_that_reads_a_message_waits_for_it_by_itself() -> None:
    other = replace(TASK, span_id="other", service="audit", start_ns=370, end_ns=380)

    requests = requests_of([root(400), SEND, TASK, DECODE, other], {})

    assert requests[1].ledger == {Stage.QUEUE: 358, Stage.UNATTRIBUTED: 10}


def test_messages_in_a_row_are_each_followed() -> None:
    forward = span("pass on", 362, 364, kind=PRODUCER, parent="task", service="worker")
    second = span("second", 380, 390, kind=CONSUMER, parent="pass on", service="ranker")
    rank = span("rank", 380, 390, parent="second", service="ranker", stage=Stage.RERANK)
    task = replace(TASK, end_ns=365)

    outer, *_ = requests_of([root(400), SEND, task, DECODE, forward, second, rank], {})

    assert outer.ledger[Stage.DECODE] == 250
    assert outer.ledger[Stage.RERANK] == 10
    assert outer.ledger[Stage.QUEUE] == 102 + 2 + 16


def test_other_work_that_began_while_a_message_queued_is_charged_as_itself() -> None:
    rerank = span("rerank", 20, 60, stage=Stage.RERANK)

    outer, _ = requests_of([root(400), SEND, rerank, TASK, DECODE], {})

    assert outer.ledger[Stage.RERANK] == 40
    assert outer.ledger[Stage.QUEUE] == 102 - 40
    assert outer.ledger[Stage.DECODE] == 250


def test_work_beside_which_a_message_is_sent_that_nobody_needs_keeps_its_time() -> None:
    audit = (
        span("audit", 395, 398, kind=CONSUMER, parent="send", service="worker"),
        span("write", 395, 398, parent="audit", service="worker", stage=Stage.DATABASE),
    )
    decode = span("decode", 20, 390, stage=Stage.DECODE)

    outer, inner = requests_of([root(400), SEND, decode, *audit], {})

    assert outer.ledger[Stage.DECODE] == 370
    assert outer.ledger[Stage.DATABASE] == 3  # it ends last: no rule can know
    assert inner.ledger == {Stage.QUEUE: 383, Stage.DATABASE: 3}


def test_asking_again_and_again_for_the_result_leaves_the_queue_its_time() -> None:
    polls = [span(f"poll {at}", at, at + 1, stage=Stage.CACHE) for at in range(20, 390, 10)]

    outer, _ = requests_of([root(400), SEND, *polls, TASK, DECODE], {})

    assert outer.ledger[Stage.CACHE] <= len(polls)
    assert outer.ledger[Stage.QUEUE] >= 90
    assert outer.ledger[Stage.DECODE] >= 220


def test_a_message_that_was_taken_before_its_request_began_takes_none_of_its_time() -> None:
    began = replace(root(38), start_ns=22, kind=SpanKind.UNSPECIFIED)
    sent = span("send", 8, 14, kind=PRODUCER, service="gateway")
    taken = span("taken", 0, 37, parent="send")
    called = span("called", 21, 18, parent="taken", service="gateway")

    (trace, *_) = build_traces([began, sent, taken, called])

    assert min(one.start_ns for one in trace.spans.values()) == trace.root.start_ns
    assert trace.queued == {}


def test_what_began_below_a_task_before_it_took_its_message_is_counted_once() -> None:
    other = span("other", 50, 90, stage=Stage.RETRIEVE)
    early = span("early", 60, 85, parent="task", service="worker", stage=Stage.PREPROCESS)
    deeper = span("deeper", 61, 84, parent="early", service="worker", stage=Stage.TOKENIZE)

    outer, _ = requests_of([root(400), SEND, other, TASK, DECODE, early, deeper], {})

    assert sum(outer.ledger.values()) == outer.duration_ns == 400
    edges_ns = [0, *(segment.end_ns for segment in outer.segments)]
    assert [segment.start_ns for segment in outer.segments] == edges_ns[:-1]
    assert outer.ledger[Stage.RETRIEVE] == 40
