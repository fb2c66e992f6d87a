"""Requests are replayed with a stage made faster; truth in ms, and from a system run again."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.whatif import Change, replayed_segments, replayed_spans
from latencytrace.model import Interval, Span, SpanKind, Stage, Trace, semconv
from latencytrace.model.packed import pack_intervals
from tests.support.builders.spans.trees import request, root, span
from tests.support.simulation.made_traces import made_trace
from tests.support.simulation.simulator import simulate

HALF = Change(stage=Stage.RETRIEVE, faster_ratio=0.5)
SEARCH = span("search", 0, 40, stage=Stage.RETRIEVE)
DECODE = span("decode", 40, 100, stage=Stage.DECODE)


def replayed(change: Change, *below: Span) -> float:
    """How long a request that took 100 would have taken."""
    return replayed_spans(request(*below), change)


def test_a_stage_on_the_path_gives_what_it_loses() -> None:
    assert replayed(HALF, SEARCH, DECODE) == 80


def test_a_stage_beside_the_path_gives_nothing() -> None:
    lookup = span("lookup", 0, 30, stage=Stage.RETRIEVE)
    guard = span("guard", 0, 40, stage=Stage.GUARDRAIL)

    assert replayed(HALF, lookup, guard, DECODE) == 100


def test_a_sibling_takes_over_where_it_becomes_the_longer_one() -> None:
    guard = span("guard", 0, 30, stage=Stage.GUARDRAIL)

    assert replayed(HALF, SEARCH, guard, DECODE) == 90


def test_time_of_other_stages_below_the_stage_stays() -> None:
    network = span("network", 10, 30, parent="search", stage=Stage.NETWORK)

    assert replayed(HALF, SEARCH, network, DECODE) == 90


def test_a_call_that_answers_in_time_takes_no_longer_than_that_with_all_below_it() -> None:
    network = span("network", 10, 30, parent="search", stage=Stage.NETWORK)
    change = Change(stage=Stage.RETRIEVE, at_most_ns=15)

    assert replayed(change, SEARCH, network, DECODE) == 75


def test_a_call_that_is_fast_enough_stays_as_it_is() -> None:
    assert replayed(Change(stage=Stage.RETRIEVE, at_most_ns=50), SEARCH, DECODE) == 100


def test_two_calls_one_after_the_other_are_both_faster() -> None:
    again = span("again", 40, 60, stage=Stage.RETRIEVE)
    decode = span("decode", 60, 100, stage=Stage.DECODE)

    assert replayed(HALF, SEARCH, again, decode) == 70


def test_what_nobody_waited_for_holds_nothing_up() -> None:
    log = span("log", 10, 130, stage=Stage.DATABASE)

    assert replayed(HALF, SEARCH, DECODE, log) == 80


def test_a_pause_of_the_program_between_its_calls_stays() -> None:
    decode = span("decode", 50, 90, stage=Stage.DECODE)

    assert replayed(HALF, SEARCH, decode) == 80


def interrupted(*intervals: Interval, below: Sequence[Span]) -> Trace:
    """A request that took 100, with intervals packed on its own span."""
    packed = {semconv.INTERVALS: pack_intervals(intervals, 0)}
    return build_traces([root(attributes=packed), *below])[0]


def test_a_pause_within_the_stage_stays_while_the_stage_around_it_is_faster() -> None:
    pause = Interval(stage=Stage.RUNTIME, start_ns=10, end_ns=30)

    assert replayed_spans(interrupted(pause, below=[SEARCH, DECODE]), HALF) == 90


def test_blocked_sends_stay_while_the_stream_between_them_is_faster() -> None:
    sends = [Interval(stage=Stage.RESPOND, start_ns=t, end_ns=t + 5) for t in (10, 50, 93)]
    stream = span("decode", 5, 95, stage=Stage.DECODE)
    faster = Change(stage=Stage.DECODE, faster_ratio=0.5)

    # 5 before it, 78 of its own, 12 of sends within it, 3 of a send and 2 more after it
    assert replayed_spans(interrupted(*sends, below=[stream]), faster) == 5 + 39 + 12 + 3 + 2


def test_a_pause_interrupts_what_lies_deepest() -> None:
    pause = Interval(stage=Stage.RUNTIME, start_ns=10, end_ns=30)
    chain = span("chain", 0, 40)
    search = span("search", 5, 35, parent="chain", stage=Stage.RETRIEVE)

    assert replayed_spans(interrupted(pause, below=[chain, search]), HALF) == 95


def test_a_pause_here_does_not_interrupt_another_process() -> None:
    pause = Interval(stage=Stage.RUNTIME, start_ns=10, end_ns=20)
    call = span("call", 0, 40, kind=SpanKind.CLIENT, stage=Stage.NETWORK)
    there = span("there", 0, 40, parent="call", service="index", stage=Stage.RETRIEVE)

    assert replayed_spans(interrupted(pause, below=[call, there]), HALF) == 80


@pytest.mark.parametrize("seed", range(8))
def test_nothing_changes_where_nothing_is_faster(seed: int) -> None:
    random = Random(seed)
    for number in range(20):
        for trace in build_traces(made_trace(random, number)):
            length_ns = trace.root.end_ns - trace.root.start_ns
            for stage in (Stage.PREFILL, Stage.UNATTRIBUTED):
                assert replayed_spans(trace, Change(stage=stage)) == length_ns


@pytest.mark.parametrize("seed", range(8))
def test_no_stage_gives_more_than_its_spans_have(seed: int) -> None:
    random = Random(seed)
    for number in range(20):
        for trace in build_traces(made_trace(random, number)):
            length_ns = trace.root.end_ns - trace.root.start_ns
            change = Change(stage=Stage.PREFILL, faster_ratio=1.0)
            assert 0 <= replayed_spans(trace, change) <= length_ns


def test_segments_give_what_the_stage_has_on_the_path() -> None:
    (found,) = requests_of([replace(one) for one in request(SEARCH, DECODE).spans.values()], {})

    assert replayed_segments(found.segments, HALF) == 80
    assert replayed_segments(found.segments, Change(stage=Stage.RETRIEVE, at_most_ns=10)) == 70
    assert replayed_segments(found.segments, Change(stage=Stage.TOOL, faster_ratio=1)) == 100


@pytest.mark.long
@pytest.mark.parametrize("search_ratio", [0.5, 0.1])
def test_a_faster_search_is_forecast_as_the_system_shows_when_it_runs_again(
    search_ratio: float,
) -> None:
    was = simulate(1, 400, {})
    is_now = simulate(1, 400, {}, search_ratio=search_ratio)
    change = Change(stage=Stage.RETRIEVE, faster_ratio=1 - search_ratio)

    forecast, by_segments, before, truth = [], [], [], []
    for old, new in zip(was, is_now, strict=True):
        tree = next(one for one in build_traces(old.spans) if one.outermost)
        forecast.append(replayed_spans(tree, change))
        found = requests_of(old.spans, {})[0]
        by_segments.append(replayed_segments(found.segments, change))
        before.append(found.duration_ns)
        truth.append(requests_of(new.spans, {})[0].duration_ns)

    for level in (0.5, 0.95, 0.99):
        expected = np.quantile(truth, level)
        assert np.quantile(forecast, level) == pytest.approx(expected, rel=0.02)
    gained = np.sum(before) - np.sum(truth)
    errors = [abs(np.sum(before) - np.sum(one) - gained) for one in (forecast, by_segments)]
    assert errors[0] < errors[1]  # what takes over is known of spans alone
