"""Who stores which span of a post."""

import threading

from latencytrace.service.ledgers.unstored import Unstored
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.otlp.traces import CheckedRequest, check
from tests.support.builders.spans.otlp_messages import one_span, otlp

FIRST, SECOND = "1" * 32, "2" * 32


def post() -> CheckedRequest:
    spans = (one_span(FIRST), one_span(SECOND), one_span(FIRST, "c" * 16))
    return check(otlp(*spans), None, None)


def known(*, in_journal: bool = True) -> tuple[Unstored, SpanBlock]:
    unstored, checked = Unstored(threading.RLock()), post()
    unstored.add(checked.columns, checked.rows)
    if in_journal:
        unstored.in_journal(checked.columns)
    return unstored, checked.columns


def test_a_commit_takes_all_of_a_post_of_which_nothing_was_stored() -> None:
    unstored, block = known()

    assert unstored.begin(block) is block
    assert unstored.end(block) == {FIRST: 2, SECOND: 1}
    assert unstored.end(block) == {}


def test_a_commit_takes_what_attributions_left() -> None:
    unstored, block = known()
    assert unstored.claim(FIRST, [block])
    claimed = [block.spans() for block in unstored.claimed([FIRST, SECOND])]
    early = unstored.begin(block)
    unstored.written([FIRST])
    rest = unstored.begin(block)

    assert claimed == [block.spans([0, 2])]
    assert early is None
    assert rest is not None
    assert [span.trace_id for span in rest.spans()] == [SECOND]
    assert unstored.end(block) == {SECOND: 1}
    assert unstored.take_written() == []


def test_a_post_is_done_once_attributions_stored_all_of_it() -> None:
    unstored, block = known()
    unstored.claim(FIRST, [block])
    unstored.written([FIRST])
    early = unstored.take_written()
    unstored.claim(SECOND, [block])
    unstored.written([SECOND])
    rest = unstored.begin(block)

    assert early == []
    assert unstored.take_written() == [block]
    assert unstored.take_written() == []
    assert rest is not None
    assert rest.count == 0


def test_nothing_is_claimed_that_is_being_committed_or_that_no_journal_holds() -> None:
    committing, block = known()
    committing.begin(block)
    unsafe, other = known(in_journal=False)

    assert not committing.claim(FIRST, [block])
    assert not unsafe.claim(FIRST, [other])
    committing.again(block)
    assert committing.claim(FIRST, [block])


def test_posts_are_urgent_that_a_commit_has_to_store() -> None:
    unstored, block = known()
    unstored.claim(FIRST, [block])
    for trace_id in (FIRST, SECOND):
        unstored.urge(trace_id, [block])

    assert unstored.take_urgent() == [block]
    assert unstored.take_urgent() == []


def test_what_is_given_back_is_committed_and_changes_no_account_twice() -> None:
    unstored, block = known()
    for trace_id, accounted in ((FIRST, True), (SECOND, False)):
        unstored.claim(trace_id, [block])
        unstored.give_back([trace_id], accounted=accounted)

    assert unstored.begin(block) is block
    assert unstored.end(block) == {SECOND: 1}
