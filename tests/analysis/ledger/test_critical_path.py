"""Each instant of a request is charged to the span that held it up."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.model import Interval, Segment, Span, Stage, Trace, semconv
from latencytrace.model.request import ledger_of
from tests.support.builders.spans.strategies import heaps, traces
from tests.support.builders.spans.trees import request, span, stretches
from tests.support.work import growth

STAGES = list(Stage)
DOCS = Path(__file__).parents[3] / "docs" / "pages" / "ledger.md"


def holder_at(trace: Trace, span: Span, time_ns: int) -> tuple[str, Stage]:
    """The three sentences of the rule, word for word, at one instant."""
    packed = [
        interval
        for interval in trace.intervals.get(span.span_id, ())
        if interval.start_ns <= time_ns < interval.end_ns
    ]
    if packed:
        return span.span_id, min(packed, key=interval_rank).stage
    children = [
        child for child in trace.children.get(span.span_id, ()) if child.start_ns < child.end_ns
    ]
    outliving = [child for child in children if goes_on(trace, child, span)]
    awaited = [child for child in children if child not in outliving]
    at_ns = span.end_ns
    while True:
        ended = [child for child in awaited if child.end_ns <= at_ns]
        taken = min(ended, key=rank, default=None)
        if taken is None or taken.end_ns <= time_ns:
            break  # the instant lies in the gap before `at`
        if taken.start_ns <= time_ns:
            return holder_at(trace, taken, time_ns)
        at_ns = taken.start_ns
    for beside in (awaited, outliving):
        running = [child for child in beside if child.start_ns <= time_ns < child.end_ns]
        if running:
            return holder_at(trace, min(running, key=rank), time_ns)
    return span.span_id, trace.stages[span.span_id]


def rank(child: Span) -> tuple[int, int, str]:
    return (-child.end_ns, -child.start_ns, child.span_id)


def interval_rank(interval: Interval) -> tuple[int, int, int]:
    return (-interval.end_ns, -interval.start_ns, STAGES.index(interval.stage))


def goes_on(trace: Trace, child: Span, parent: Span) -> bool:
    """Whether it ended after its parent, both as sent, by one host's clock or one instance's."""
    child, parent = trace.unclipped[child.span_id], trace.unclipped[parent.span_id]
    if child.host or parent.host:
        one_clock = child.host == parent.host
    else:
        one_clock = (child.service, child.instance) == (parent.service, parent.instance)
    return one_clock and child.end_ns > parent.end_ns


def instants(segments: tuple[Segment, ...]) -> Iterator[tuple[str, Stage]]:
    for segment in segments:
        for _ in range(segment.start_ns, segment.end_ns):
            yield segment.span_id, segment.stage


@given(traces())
def test_each_instant_is_charged_as_the_rule_says_point_by_point(trace: Trace) -> None:
    path = critical_path(trace)

    times_ns = range(trace.root.start_ns, trace.root.end_ns)
    assert list(instants(path)) == [holder_at(trace, trace.root, time_ns) for time_ns in times_ns]


@given(heaps())
def test_each_instant_of_a_mended_heap_is_charged_as_the_rule_says(heap: list[Span]) -> None:
    built = build_traces(heap)

    charged = [list(instants(critical_path(trace))) for trace in built]

    assert charged == [
        [
            holder_at(trace, trace.root, time_ns)
            for time_ns in range(trace.root.start_ns, trace.root.end_ns)
        ]
        for trace in built
    ]


@given(heaps(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_never_matters(heap: list[Span], random: Random) -> None:
    paths = [critical_path(trace) for trace in build_traces(heap)]
    random.shuffle(heap)

    assert [critical_path(trace) for trace in build_traces(heap)] == paths


@given(traces())
def test_every_nanosecond_is_charged_exactly_once(trace: Trace) -> None:
    path = critical_path(trace)

    duration_ns = trace.root.end_ns - trace.root.start_ns
    assert path[0].start_ns == 0
    assert path[-1].end_ns == duration_ns
    assert all(before.end_ns == after.start_ns for before, after in pairwise(path))
    assert all(segment.start_ns < segment.end_ns for segment in path)
    assert sum(ledger_of(path).values()) == duration_ns


@given(traces())
def test_neighbouring_segments_differ_in_span_or_stage(trace: Trace) -> None:
    path = critical_path(trace)

    assert all(
        (before.span_id, before.stage) != (after.span_id, after.stage)
        for before, after in pairwise(path)
    )


class Plain(NamedTuple):
    """A span, as the rule in the docs names its parts."""

    span_id: str
    start: int
    end: int


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=8),
)
def test_the_rule_printed_in_the_docs_is_the_one_that_is_used(
    times: list[tuple[int, int, bool]],
) -> None:
    printed: dict[str, Callable[..., Iterator[tuple[int, int, Plain]]]] = {}
    exec(DOCS.read_text().split("```python\n")[1].split("```")[0], printed)  # noqa: S102 - our own
    children = {
        Plain(str(number), min(one, other), 30 if late else max(one, other)): late
        for number, (one, other, late) in enumerate(times)
        if one != other
    }
    spans = [
        span(child.span_id, child.start, child.end + (5 if late else 0))
        for child, late in children.items()
    ]

    held = printed["walk"](
        Plain("root", 0, 30),
        [child for child, late in children.items() if not late],
        [child for child, late in children.items() if late],
    )

    assert [
        (time_ns, name)
        for name, start_ns, end_ns in stretches(critical_path(request(*spans, end_ns=30)))
        for time_ns in range(start_ns, end_ns)
    ] == sorted(
        (time_ns, child.span_id) for start, end, child in held for time_ns in range(start, end)
    )


def test_a_request_alone_is_all_its_own_time() -> None:
    path = critical_path(request())

    assert stretches(path) == [("root", 0, 100)]
    assert path[0].stage is Stage.UNATTRIBUTED


def test_a_request_that_took_no_time_has_no_segments() -> None:
    path = critical_path(request(span("decode", 0, 0), end_ns=0))

    assert path == ()


def test_a_child_inside_its_sibling_is_not_charged() -> None:
    path = critical_path(request(span("generate", 0, 100), span("log", 40, 60)))

    assert stretches(path) == [("generate", 0, 100)]


def test_a_grandchild_is_charged_only_while_its_parent_is() -> None:
    path = critical_path(
        request(
            span("early", 0, 60),
            span("below", 10, 50, parent="early"),
            span("late", 30, 100),
        )
    )

    assert stretches(path) == [("early", 0, 10), ("below", 10, 30), ("late", 30, 100)]


def test_of_children_that_end_together_the_later_start_is_charged() -> None:
    path = critical_path(request(span("a", 0, 100), span("b", 40, 100)))

    assert stretches(path) == [("a", 0, 40), ("b", 40, 100)]


def test_of_children_with_equal_times_the_smaller_id_is_charged() -> None:
    path = critical_path(request(span("b", 0, 100), span("a", 0, 100)))

    assert stretches(path) == [("a", 0, 100)]


def test_time_blocked_in_sending_wins_over_the_decoding_below_the_stream() -> None:
    covering = span("stream", 0, 100, attributes={semconv.INTERVALS: "respond:20+10,30+10"})
    decode = span("decode", 5, 95, parent="stream", stage=Stage.DECODE)

    ledger = ledger_of(critical_path(request(covering, decode)))

    assert ledger == {Stage.OTHER: 5 + 5, Stage.DECODE: 70, Stage.RESPOND: 20}


def test_the_intervals_of_a_span_win_only_where_that_span_is_charged() -> None:
    early = span("early", 0, 60, attributes={semconv.INTERVALS: "respond:20+40"})

    path = critical_path(request(early, span("late", 30, 100)))

    assert [(segment.stage, segment.start_ns) for segment in path] == [
        (Stage.OTHER, 0),
        (Stage.RESPOND, 20),
        (Stage.OTHER, 30),
    ]


def test_the_intervals_of_a_span_win_over_those_below_it() -> None:
    above = span("above", 0, 100, attributes={semconv.INTERVALS: "respond:40+20"})
    below = span(
        "below", 0, 100, parent="above", attributes={semconv.INTERVALS: "detokenize:30+60"}
    )

    path = critical_path(request(above, below))

    assert [(segment.name, segment.stage, segment.end_ns) for segment in path] == [
        ("below", Stage.OTHER, 30),
        ("below", Stage.DETOKENIZE, 40),
        ("above", Stage.RESPOND, 60),
        ("below", Stage.DETOKENIZE, 90),
        ("below", Stage.OTHER, 100),
    ]


def chain(levels: int, end_ns: int) -> list[Span]:
    """Each span within the one before it, a nanosecond shorter at both ends."""
    return [
        span(str(depth), depth, end_ns - depth, parent=str(depth - 1) if depth else "root")
        for depth in range(levels)
    ]


def test_a_chain_deeper_than_the_interpreter_can_recurse_is_walked() -> None:
    path = critical_path(request(*chain(10_000, 40_000), end_ns=40_000))

    assert len(path) == 2 * 10_000 - 1


def deep_chain_with_gaps(gaps: int) -> Trace:
    """As many levels as gaps between the steps that are done beside them."""
    steps = [span(f"step {at}", 4 * at, 4 * at + 2) for at in range(gaps, 2 * gaps)]
    last = span("last", 12 * gaps, 12 * gaps + 2)
    return request(*chain(gaps, 12 * gaps + 1), *steps, last, end_ns=12 * gaps + 2)


def children_beside_each_other(count: int) -> Trace:
    children = [span(str(one), one, one + one * one * 7_919 % 900 + 1) for one in range(count)]
    return request(*children, end_ns=count + 1_000)


def test_each_gap_that_a_deep_chain_fills_is_a_segment() -> None:
    assert len(critical_path(deep_chain_with_gaps(5_000))) > 2 * 5_000


@pytest.mark.parametrize("made", [deep_chain_with_gaps, children_beside_each_other])
def test_twice_as_many_spans_are_twice_the_work(made: Callable[[int], Trace]) -> None:
    def divided(count: int) -> Callable[[], object]:
        trace = made(count)
        return lambda: critical_path(trace)

    assert growth(divided, 1_000) < 2.5
