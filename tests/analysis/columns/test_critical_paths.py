"""The array path gives what the plain path gives."""

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.model import Span, Stage, Trace
from tests.support.builders.spans.span_columns import SpanColumns, critical_paths
from tests.support.builders.spans.strategies import heaps, traces
from tests.support.builders.spans.trees import request, span


@given(st.lists(traces(), max_size=4))
def test_the_array_path_equals_the_plain_one(many: list[Trace]) -> None:
    found = critical_paths(SpanColumns.of(many))

    assert found == [critical_path(trace) for trace in many]


@given(heaps())
def test_any_heap_of_spans_gives_the_same_by_both_paths(heap: list[Span]) -> None:
    built = build_traces(heap)

    found = critical_paths(SpanColumns.of(built))

    assert found == [critical_path(trace) for trace in built]


def test_no_traces_have_no_paths() -> None:
    assert critical_paths(SpanColumns.of([])) == []


def test_a_request_that_took_no_time_has_no_segments() -> None:
    empty = request(span("search", 0, 0, stage=Stage.RETRIEVE), end_ns=0)

    assert critical_paths(SpanColumns.of([empty])) == [()]


def test_a_deep_chain_that_fills_many_gaps_gives_the_same() -> None:
    deep = [
        span(str(depth), depth, 20_000 - depth, parent=str(depth - 1) if depth else "root")
        for depth in range(3_000)
    ]
    steps = [span(f"step {at}", at, at + 2) for at in range(5_000, 15_000, 4)]
    trace = request(*deep, *steps, span("last", 19_999, 20_001), end_ns=20_001)

    found = critical_paths(SpanColumns.of([trace]))

    assert found == [critical_path(trace)]


def test_many_children_of_one_span_give_the_same() -> None:
    children = [span(str(one), one, one + one * one * 7_919 % 90 + 1) for one in range(3_000)]
    trace = request(*children, end_ns=4_000)

    found = critical_paths(SpanColumns.of([trace]))

    assert found == [critical_path(trace)]
