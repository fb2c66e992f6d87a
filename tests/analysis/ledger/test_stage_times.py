"""Busy and exclusive time obey their definitions."""

from collections import Counter
from dataclasses import replace

from hypothesis import given

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path, stage_times
from latencytrace.analysis.ledger.runtime_gaps import with_runtime
from latencytrace.model import Stage, StageTimes, Trace, semconv
from latencytrace.model.request import ledger_of
from tests.support.builders.spans.strategies import traces
from tests.support.builders.spans.trees import request, root, span


def test_parallel_spans_are_busy_once_and_exclusive_each() -> None:
    trace = request(
        span("shard 1", 10, 40, stage=Stage.RETRIEVE),
        span("shard 2", 20, 60, stage=Stage.RETRIEVE),
    )

    times = stage_times(trace)

    assert times == {Stage.RETRIEVE: StageTimes(busy_ns=50, exclusive_ns=70)}


def test_what_a_child_covers_is_not_its_parents_own() -> None:
    trace = request(
        span("encode", 10, 50, stage=Stage.EMBED),
        span("tokenize", 10, 20, parent="encode", stage=Stage.TOKENIZE),
        span("again", 15, 25, parent="encode", stage=Stage.TOKENIZE),
    )

    times = stage_times(trace)

    assert times[Stage.EMBED] == StageTimes(busy_ns=40, exclusive_ns=25)
    assert times[Stage.TOKENIZE] == StageTimes(busy_ns=15, exclusive_ns=20)


def test_intervals_count_as_children() -> None:
    trace = request(
        span(
            "decode",
            0,
            100,
            stage=Stage.DECODE,
            attributes={semconv.INTERVALS: "respond:10+5,5+5"},
        )
    )

    times = stage_times(trace)

    assert times[Stage.DECODE] == StageTimes(busy_ns=100, exclusive_ns=90)
    assert times[Stage.RESPOND] == StageTimes(busy_ns=10, exclusive_ns=10)


@given(traces())
def test_no_stage_holds_a_request_up_longer_than_it_is_busy(trace: Trace) -> None:
    ledger = ledger_of(critical_path(trace))

    times = stage_times(trace)

    assert all(
        ledger[stage] <= times[stage].busy_ns
        for stage in ledger
        if stage is not Stage.UNATTRIBUTED
    )


def test_what_the_process_told_counts_beside_the_collections_of_a_span() -> None:
    decode = span("decode", 40, 60, stage=Stage.DECODE)
    collected = {**decode.attributes, semconv.INTERVALS: "runtime:5+10"}
    told = {semconv.RUNTIME_GAPS: "event_loop_lag:10+20;thread_pool_wait:70+5"}
    (trace,) = build_traces([root(100, told), replace(decode, attributes=collected)])

    segments = with_runtime(trace, critical_path(trace))
    times = stage_times(trace, segments)

    assert times[Stage.RUNTIME] == StageTimes(busy_ns=35, exclusive_ns=35)
    assert ledger_of(segments)[Stage.RUNTIME] == 35
    assert times[Stage.DECODE] == StageTimes(busy_ns=20, exclusive_ns=10)


def instant_by_instant(trace: Trace) -> dict[Stage, StageTimes]:
    """The definitions, counted out."""
    busy: dict[Stage, set[int]] = {}
    exclusive: Counter[Stage] = Counter()
    for span_id, one in trace.spans.items():
        own = set(range(one.start_ns, one.end_ns))
        busy.setdefault(trace.stages[span_id], set()).update(own)
        for child in trace.children[span_id]:
            own -= set(range(child.start_ns, child.end_ns))
        for interval in trace.intervals[span_id]:
            covered = set(range(interval.start_ns, interval.end_ns))
            busy.setdefault(interval.stage, set()).update(covered)
            exclusive[interval.stage] += len(covered)
            own -= covered
        exclusive[trace.stages[span_id]] += len(own)
    return {
        stage: StageTimes(busy_ns=len(instants), exclusive_ns=exclusive[stage])
        for stage, instants in busy.items()
        if stage is not Stage.UNATTRIBUTED
    }


@given(traces())
def test_both_are_as_defined_instant_by_instant(trace: Trace) -> None:
    assert stage_times(trace) == instant_by_instant(trace)
