"""Waits for a processor fill what nothing explains, as far as they cannot have been elsewhere."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import AttributeValue, Request, Span, SpanKind, Stage, semconv
from tests.support.builders.spans.numbered import TRACE_ID, root, span
from tests.support.builders.spans.strategies import heaps
from tests.support.simulation.by_columns import ByColumns, differences

WAITED = semconv.PROCESSOR_WAIT_NS
SEARCH = {semconv.STAGE: Stage.RETRIEVE}


def divided(waited_ns: AttributeValue, *below: Span) -> Request:
    """A request of 100 ns, by columns as by objects."""
    traces = {TRACE_ID: [root(attributes={WAITED: waited_ns}), *below]}
    found, others = ByColumns()(traces)
    assert (others, differences(found, traces)) == ([], [])
    return found[TRACE_ID][0]


def stretches(request: Request) -> list[tuple[str, Stage, int]]:
    return [(part.name, part.stage, part.end_ns - part.start_ns) for part in request.segments]


def test_a_request_without_spans_waited_as_long_as_its_thread_did() -> None:
    assert stretches(divided(30)) == [
        ("wait for a processor", Stage.RUNTIME, 30),
        ("span 1", Stage.UNATTRIBUTED, 70),
    ]


def test_what_may_have_been_in_spans_is_not_taken_for_a_wait_elsewhere() -> None:
    search = span(2, 10, 70, attributes=SEARCH)

    assert divided(60, search).ledger == {Stage.UNATTRIBUTED: 40, Stage.RETRIEVE: 60}
    assert divided(75, search).ledger == {
        Stage.UNATTRIBUTED: 25, Stage.RETRIEVE: 60, Stage.RUNTIME: 15
    }  # fmt: skip


def test_the_longest_stretches_come_first() -> None:
    request = divided(85, span(2, 10, 70, attributes=SEARCH))

    assert stretches(request) == [
        ("span 1", Stage.UNATTRIBUTED, 10),
        ("span 2", Stage.RETRIEVE, 60),
        ("wait for a processor", Stage.RUNTIME, 25),
        ("span 1", Stage.UNATTRIBUTED, 5),
    ]


def test_time_of_another_process_is_not_filled() -> None:
    elsewhere = span(2, 0, 100, kind=SpanKind.SERVER, service="search")

    assert divided(100, elsewhere).ledger == {Stage.UNATTRIBUTED: 100}


@pytest.mark.parametrize("waited_ns", [0, -5, "30", 2.5, True, 1 << 62])
def test_whatever_a_sender_says_the_ledger_balances(waited_ns: AttributeValue) -> None:
    request = divided(waited_ns)

    assert sum(request.ledger.values()) == 100
    assert request.ledger.get(Stage.RUNTIME, 0) in {0, 100}


@given(heaps(), st.integers(0, 50))
def test_columns_fill_what_objects_fill_and_nothing_else_changes(
    heap: list[Span], waited_ns: int
) -> None:
    waiting = [
        replace(one, attributes={**one.attributes, WAITED: waited_ns})
        if one.kind is SpanKind.SERVER or one.parent_id is None
        else one
        for one in heap
    ]
    traces = {TRACE_ID: waiting} if waiting else {}

    found, _ = ByColumns()(traces)

    assert differences(found, traces) == []
    for before, after in zip(requests_of(heap, {}), requests_of(waiting, {}), strict=True):
        filled_ns = after.ledger.get(Stage.RUNTIME, 0) - before.ledger.get(Stage.RUNTIME, 0)
        assert 0 <= filled_ns <= waited_ns
        assert sum(after.ledger.values()) == after.duration_ns
        assert {**after.ledger, Stage.RUNTIME: 0, Stage.UNATTRIBUTED: 0} == {
            **before.ledger, Stage.RUNTIME: 0, Stage.UNATTRIBUTED: 0
        }  # fmt: skip
