"""Time that nothing explains but the process itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.runtime_gaps import with_runtime
from latencytrace.model import AttributeValue, Segment, Span, SpanKind, Stage, semconv
from latencytrace.model.packed import RuntimeGap, pack_named, title_of_gap
from tests.support.builders.spans.trees import root, span

GAPS, INTERVALS = semconv.RUNTIME_GAPS, semconv.INTERVALS
LOOP, COLLECTION = RuntimeGap.EVENT_LOOP_LAG, RuntimeGap.GARBAGE_COLLECTION
DECODE = span("decode", 40, 60, stage=Stage.DECODE)


def path(packed: AttributeValue, *below: Span) -> tuple[Segment, ...]:
    trace = build_traces([root(100, {GAPS: packed}), *below])[0]
    return with_runtime(trace, critical_path(trace))


def stretches(segments: tuple[Segment, ...]) -> list[tuple[str, Stage, int, int]]:
    return [(part.name, part.stage, part.start_ns, part.end_ns) for part in segments]


def test_a_gap_fills_what_is_unattributed_and_names_it() -> None:
    assert stretches(path("event_loop_lag:10+20", DECODE)) == [
        ("root", Stage.UNATTRIBUTED, 0, 10),
        ("event-loop lag", Stage.RUNTIME, 10, 30),
        ("root", Stage.UNATTRIBUTED, 30, 40),
        ("decode", Stage.DECODE, 40, 60),
        ("root", Stage.UNATTRIBUTED, 60, 100),
    ]


def test_a_gap_takes_nothing_from_what_a_span_explains() -> None:
    assert stretches(path("garbage_collection:0+100", DECODE)) == [
        ("garbage collection", Stage.RUNTIME, 0, 40),
        ("decode", Stage.DECODE, 40, 60),
        ("garbage collection", Stage.RUNTIME, 60, 100),
    ]


def test_a_gap_of_one_process_fills_nothing_of_another() -> None:
    called = span("post", 20, 80, kind=SpanKind.CLIENT)
    other = span("served", 30, 70, parent="post", kind=SpanKind.SERVER, service="other")

    found = path("event_loop_lag:0+100", called, other)

    assert ("served", Stage.UNATTRIBUTED, 30, 70) in stretches(found)


def test_a_gap_that_a_newer_agent_tells_has_a_name_too() -> None:
    assert ("page fault", Stage.RUNTIME, 0, 40) in stretches(path("page_fault:0+40", DECODE))


def test_a_wait_for_a_result_is_queue_where_nothing_else_explains_the_time() -> None:
    assert stretches(path("result_wait:0+100", DECODE)) == [
        ("wait for another thread or task", Stage.QUEUE, 0, 40),
        ("decode", Stage.DECODE, 40, 60),
        ("wait for another thread or task", Stage.QUEUE, 60, 100),
    ]


def test_a_wait_for_its_turn_is_queue_and_a_librarys_work_of_the_database() -> None:
    assert stretches(path("turn_wait:10+20;database_library:60+40", DECODE)) == [
        ("root", Stage.UNATTRIBUTED, 0, 10),
        ("wait for its turn on the event loop", Stage.QUEUE, 10, 30),
        ("root", Stage.UNATTRIBUTED, 30, 40),
        ("decode", Stage.DECODE, 40, 60),
        ("library of the database", Stage.DATABASE, 60, 100),
    ]


def test_each_gap_has_words_of_its_own() -> None:
    titles = {title_of_gap(gap) for gap in RuntimeGap}

    assert len(titles) == len(RuntimeGap)
    assert not titles & set(RuntimeGap)


def test_a_collection_in_the_midst_of_a_spans_own_code_is_named_too() -> None:
    interrupted = replace(DECODE, attributes={**DECODE.attributes, INTERVALS: "runtime:5+10"})

    assert stretches(path("", interrupted))[1:4] == [
        ("decode", Stage.DECODE, 40, 45),
        ("garbage collection", Stage.RUNTIME, 45, 55),
        ("decode", Stage.DECODE, 55, 60),
    ]


def test_a_span_that_its_sender_calls_runtime_keeps_its_name() -> None:
    assert stretches(path("", span("compaction", 40, 60, stage=Stage.RUNTIME)))[1:2] == [
        ("compaction", Stage.RUNTIME, 40, 60)
    ]


@pytest.mark.parametrize("packed", ["", "event_loop_lag", "event_loop_lag:1-2", 7, "a:1+2,b"])
def test_what_cannot_be_read_changes_nothing(packed: AttributeValue) -> None:
    assert path(packed, DECODE) == path("", DECODE)


lengths = st.lists(st.tuples(st.integers(0, 130), st.integers(0, 130)), max_size=6)


@given(lengths, lengths)
def test_whatever_the_gaps_every_instant_stays_in_one_segment(
    held: list[tuple[int, int]], collected: list[tuple[int, int]]
) -> None:
    packed = pack_named({LOOP: sorted(held), COLLECTION: sorted(collected)}, 0)

    found = path(packed, DECODE)

    edges = [edge for part in found for edge in (part.start_ns, part.end_ns)]
    assert edges == sorted(edges)
    assert edges[1:-1:2] == edges[2::2]
    assert (edges[0], edges[-1]) == (0, 100)
    assert [part for part in found if part.stage is Stage.DECODE] == [
        part for part in path("", DECODE) if part.stage is Stage.DECODE
    ]
