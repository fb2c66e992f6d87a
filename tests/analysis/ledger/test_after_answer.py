"""Work of a request's spans after its end: a ledger beside the request's own."""

from dataclasses import replace

import pytest
from hypothesis import given

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.after_answer import LEAST_NS, after_answer
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.analysis.trace.asgi_messages import awaits_hang_up
from latencytrace.model import Request, Span, SpanKind, Stage, semconv
from tests.support.builders.spans.numbered import root, span
from tests.support.builders.spans.strategies import heaps

MS = 1_000_000
MODEL = {semconv.STAGE: Stage.REMOTE_MODEL}
SEARCH = {semconv.STAGE: Stage.RETRIEVE}
ASGI = "opentelemetry.instrumentation.asgi"


def ms(number: int, start_ms: float, end_ms: float, parent: int = 1, **more: object) -> Span:
    return span(number, round(start_ms * MS), round(end_ms * MS), parent, **more)


def divided(*below: Span) -> Request:
    """The outermost request: 100 ms, and what is below it."""
    return requests_of([root(100 * MS), *below], {})[0]


def after_ms(*below: Span) -> dict[Stage, float]:
    return {stage: length_ns / MS for stage, length_ns in divided(*below).after.items()}


def test_a_background_task_is_divided_after_the_answer_and_never_before_it() -> None:
    request = divided(ms(2, 90, 580, attributes=MODEL))

    assert request.duration_ns == 100 * MS == sum(request.ledger.values())
    assert request.ledger == {Stage.UNATTRIBUTED: 90 * MS, Stage.REMOTE_MODEL: 10 * MS}
    assert request.after == {Stage.REMOTE_MODEL: 480 * MS}
    assert request.after_ns == 480 * MS


def test_a_span_that_ends_over_a_week_after_the_answer_is_none_of_its_work() -> None:
    late = replace(
        ms(3, 110, 150, attributes=MODEL), start_ns=2 * WEEK_NS, end_ns=2 * WEEK_NS + MS
    )

    assert after_ms(ms(2, 90, 130, attributes=SEARCH), late) == {Stage.RETRIEVE: 30}


def test_time_between_tasks_is_unattributed() -> None:
    found = after_ms(ms(2, 110, 130, attributes=SEARCH), ms(3, 150, 580, attributes=MODEL))

    assert found == {Stage.RETRIEVE: 20, Stage.REMOTE_MODEL: 430, Stage.UNATTRIBUTED: 30}


def test_what_lies_in_a_task_that_lasts_as_long_is_charged_inside_of_it() -> None:
    task = ms(2, 50, 300, attributes=MODEL)
    found = after_ms(task, ms(3, 120, 160, parent=2, attributes=SEARCH))

    assert found == {Stage.REMOTE_MODEL: 160, Stage.RETRIEVE: 40}


def test_a_task_that_outlives_the_span_that_began_it_lies_in_the_next_one_that_lasts() -> None:
    task = ms(2, 50, 300, attributes=MODEL)
    started, its_work = ms(3, 105, 110, parent=2), ms(4, 106, 206, parent=3, attributes=SEARCH)

    assert after_ms(task, started, its_work)[Stage.RETRIEVE] == 100


@pytest.mark.parametrize("more_ns", [0, LEAST_NS - 1])
def test_spans_that_end_a_moment_late_are_no_work_after_the_answer(more_ns: int) -> None:
    assert not divided(span(2, 0, 100 * MS + more_ns)).after
    assert divided(span(2, 0, 100 * MS + LEAST_NS)).after_ns == LEAST_NS


def test_waiting_for_the_caller_to_leave_is_no_work() -> None:
    waits = ms(2, 10, 900, name="GET / http receive", scope=ASGI)

    assert not divided(waits).after


def test_a_span_of_another_clock_counts_where_it_lies_in_its_parent() -> None:
    elsewhere = {"service": "search", "instance": "other"}
    call = ms(2, 90, 300, kind=SpanKind.CLIENT, attributes=MODEL)
    answered = ms(3, 120, 250, parent=2, kind=SpanKind.SERVER, **elsewhere)
    its_work = ms(4, 130, 240, parent=3, attributes=SEARCH, **elsewhere)

    assert after_ms(call, answered, its_work)[Stage.RETRIEVE] == 110


def test_a_span_of_another_clock_that_sticks_out_may_be_a_clock_that_is_off() -> None:
    given_up = ms(2, 10, 100, kind=SpanKind.CLIENT)
    went_on = ms(3, 20, 900, parent=2, kind=SpanKind.SERVER, service="search", instance="other")

    outer, inner = requests_of([root(100 * MS), given_up, went_on], {})

    assert not outer.after
    assert inner.duration_ns == 880 * MS


def test_a_message_that_nobody_waited_for_is_a_request_of_its_own() -> None:
    sent = ms(2, 90, 91, kind=SpanKind.PRODUCER)
    taken = ms(3, 200, 400, parent=2, kind=SpanKind.CONSUMER, service="worker")

    outer, inner = requests_of([root(100 * MS), sent, taken], {})

    assert not outer.after
    assert inner.duration_ns == 309 * MS  # its wait in the queue, too


def test_each_request_of_a_trace_has_its_own() -> None:
    call = ms(2, 10, 60, kind=SpanKind.CLIENT)
    answered = ms(3, 10, 60, parent=2, kind=SpanKind.SERVER, service="search")
    its_task = ms(4, 50, 90, parent=3, service="search", attributes=SEARCH)

    outer, inner = requests_of([root(100 * MS), call, answered, its_task], {})

    assert not outer.after  # it had ended by then
    assert inner.after == {Stage.RETRIEVE: 30 * MS}


@given(heaps())
def test_it_balances_and_leaves_the_requests_own_ledger_alone(heap: list[Span]) -> None:
    spans = [
        replace(one, start_ns=one.start_ns * LEAST_NS, end_ns=one.end_ns * LEAST_NS)
        for one in heap
    ]
    for trace in build_traces(spans):
        after, root_end_ns = after_answer(trace), trace.unclipped[trace.root.span_id].end_ns
        late = [one for one in trace.unclipped.values() if one.end_ns > root_end_ns]
        ends_ns = {one.end_ns - root_end_ns for one in late}

        assert sum(after.values()) in {0, *ends_ns}  # until one of them has ended
        waits = any(awaits_hang_up(one, trace.children) for one in trace.spans.values())
        is_one_clock = all(one.clock == trace.root.clock for one in trace.spans.values())
        if is_one_clock and not waits and not trace.unawaited:
            assert (sum(after.values()) > 0) == any(one.start_ns < one.end_ns for one in late)
    for request in requests_of(spans, {}):
        assert sum(request.ledger.values()) == request.duration_ns
