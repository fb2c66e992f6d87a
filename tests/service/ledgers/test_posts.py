"""Posts in memory, and who stores which span of them."""

from dataclasses import replace

from latencytrace.model import Span
from latencytrace.service.ledgers.posts import Posts
from latencytrace.service.ledgers.span_parts import by_block, once, part_of, spans_in
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.otlp.traces import CheckedRequest, check
from tests.support.builders.spans.otlp_messages import one_span, otlp

FIRST, SECOND = "1" * 32, "2" * 32


def post() -> CheckedRequest:
    spans = (one_span(FIRST), one_span(SECOND), one_span(FIRST, "c" * 16))
    return check(otlp(*spans), None, None)


def known(*, in_journal: bool = True) -> tuple[Posts, SpanBlock]:
    posts, checked = Posts(), post()
    posts.add(checked.columns, checked.rows)
    if in_journal:
        posts.in_journal(checked.columns)
    return posts, checked.columns


def begun(posts: Posts, block: SpanBlock) -> SpanBlock | None:
    """What of a post is to be committed."""
    rows = posts.begin(block, lambda _: ())
    return None if rows is None else part_of(block, rows)


def test_a_commit_takes_all_of_a_post_of_which_nothing_was_stored() -> None:
    posts, block = known()

    assert begun(posts, block) is block
    assert posts.end(block) == {FIRST: 2, SECOND: 1}
    assert posts.end(block) == {}


def test_a_commit_takes_what_attributions_left() -> None:
    posts, block = known()
    assert posts.claim(FIRST, 2)
    claimed = [part_of(*one).spans() for one in posts.claimed([FIRST, SECOND])]
    early = begun(posts, block)
    posts.written([FIRST])
    rest = begun(posts, block)

    assert claimed == [block.spans([0, 2])]
    assert early is None
    assert rest is not None
    assert [span.trace_id for span in rest.spans()] == [SECOND]
    assert posts.end(block) == {SECOND: 1}
    assert posts.take_written() == []


def test_a_post_is_done_once_attributions_stored_all_of_it() -> None:
    posts, block = known()
    posts.claim(FIRST, 2)
    posts.written([FIRST])
    early = posts.take_written()
    posts.claim(SECOND, 1)
    posts.written([SECOND])
    rest = begun(posts, block)

    assert early == []
    assert posts.take_written() == [block]
    assert posts.take_written() == []
    assert rest is not None
    assert rest.count == 0


def test_nothing_is_claimed_that_is_being_committed_or_that_no_journal_holds() -> None:
    committing, block = known()
    committing.begin(block, lambda _: ())
    unsafe, _ = known(in_journal=False)

    assert not committing.claim(FIRST, 2)
    assert not unsafe.claim(FIRST, 2)
    committing.again(block)
    assert committing.claim(FIRST, 2)


def test_posts_are_urgent_that_a_commit_has_to_store() -> None:
    posts, block = known()
    posts.claim(FIRST, 2)
    for trace_id in (FIRST, SECOND):
        posts.urge(trace_id)

    assert posts.take_urgent() == [block]
    assert posts.take_urgent() == []


def test_what_is_given_back_is_committed_and_changes_no_account_twice() -> None:
    posts, block = known()
    for trace_id, accounted in ((FIRST, True), (SECOND, False)):
        posts.claim(trace_id, 2 if trace_id == FIRST else 1)
        posts.give_back([trace_id], accounted=accounted)

    assert begun(posts, block) is block
    assert posts.end(block) == {SECOND: 1}


def of(*spans: Span) -> CheckedRequest:
    return check(otlp(*spans), None, None)


def bytes_of(post: CheckedRequest) -> int:
    """The memory that a post takes; more than that of its columns."""
    alone = Posts()
    hold(alone, post)
    assert alone.bytes > post.columns.nbytes
    return alone.bytes


def hold(held: Posts, *posts: CheckedRequest) -> None:
    for one in posts:
        held.add(one.columns, one.rows)


def test_a_trace_of_several_posts_is_held_whole() -> None:
    held = Posts()
    root, child = one_span(FIRST), one_span(FIRST, "c" * 16, parent_id="a" * 16)
    hold(held, of(child, one_span(SECOND)), of(root))

    assert held.count(FIRST) == 2
    assert tuple(spans_in(held.parts(FIRST))) == (child, root)
    assert [len(rows) for _, rows in by_block([held.parts(FIRST), held.parts(SECOND)])] == [2, 1]


def test_what_came_twice_is_one_span_and_the_longer_one_stands() -> None:
    held = Posts()
    short = one_span(FIRST)
    long = replace(short, end_ns=short.end_ns + 5, name="longer")
    hold(held, of(short), of(long), of(short))

    assert held.count(FIRST) == 3
    assert once(spans_in(held.parts(FIRST))) == ((long,), (short,))


def test_a_post_takes_memory_until_all_of_its_traces_are_released() -> None:
    held = Posts()
    both = of(one_span(FIRST), one_span(SECOND))
    hold(held, both)
    held.release([FIRST])
    between = held.bytes
    held.release([SECOND, "3" * 32])

    assert (between, held.bytes) == (bytes_of(both), 0)
    assert held.count(FIRST) == 0


def test_beyond_the_bound_the_oldest_posts_are_let_go() -> None:
    posts = [of(one_span(FIRST, f"{number:016x}")) for number in range(1, 5)]
    held = Posts(max_bytes=2 * bytes_of(posts[0]))
    hold(held, *posts)

    assert held.count(FIRST) == 2
    assert held.let_go == 2
    assert [span.span_id for span in spans_in(held.parts(FIRST))] == [
        "0" * 15 + "3",
        "0" * 15 + "4",
    ]


def test_a_post_that_is_not_kept_is_let_go() -> None:
    held = Posts()
    kept, failed = of(one_span(FIRST)), of(one_span(FIRST, "c" * 16), one_span(SECOND))
    hold(held, kept, failed)
    held.remove(failed.columns)
    held.remove(failed.columns)

    assert (held.count(FIRST), held.count(SECOND)) == (1, 0)
    assert held.bytes == bytes_of(kept)
