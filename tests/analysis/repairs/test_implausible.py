"""A span that lasted longer than a week lasts as long as its children."""

from dataclasses import replace

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.repairs.implausible import LONGEST_NS
from latencytrace.model import RepairKind, Request, Span
from tests.support.builders.spans.numbered import TRACE_ID, root, span
from tests.support.simulation.by_columns import ByColumns

NOW_NS = 1_763_690_000 * 10**9


def at(made: Span, start_ns: int, end_ns: int) -> Span:
    return replace(made, start_ns=start_ns, end_ns=end_ns)


def told(*spans: Span) -> Request:
    """The request, which columns leave to objects."""
    assert ByColumns()({TRACE_ID: spans})[1] == [TRACE_ID]
    (request,) = requests_of(spans, {})
    assert (
        sum(request.ledger.values())
        == request.duration_ns
        == sum(one.end_ns - one.start_ns for one in request.segments)
    )
    assert RepairKind.IMPLAUSIBLE in {repair.kind for repair in request.repairs}
    return request


def test_a_start_that_was_never_set_is_that_of_the_first_child() -> None:
    request = told(
        at(root(), 0, NOW_NS),
        at(span(2, 0, 1), NOW_NS - 90, NOW_NS - 50),
        at(span(3, 0, 1), NOW_NS - 40, NOW_NS - 10),
    )

    assert (request.start_ns, request.duration_ns) == (NOW_NS - 90, 90)
    assert not request.health


def test_an_end_that_cannot_be_is_that_of_the_last_child() -> None:
    request = told(
        at(root(), NOW_NS, (1 << 62) + NOW_NS), at(span(2, 0, 1), NOW_NS + 10, NOW_NS + 70)
    )

    assert (request.start_ns, request.duration_ns) == (NOW_NS, 70)


def test_spans_inside_a_child_that_is_absurd_itself_tell_too() -> None:
    request = told(
        at(root(), 0, NOW_NS),
        at(span(2, 0, 1), 0, NOW_NS),
        at(span(3, 0, 1, 2), NOW_NS - 40, NOW_NS - 10),
    )

    assert (request.start_ns, request.duration_ns) == (NOW_NS - 40, 40)


@pytest.mark.parametrize("child", [[], [at(span(2, 0, 1), 5, 9)]], ids=["none", "far away"])
def test_a_request_whose_time_nobody_knows_is_in_no_mean(child: list[Span]) -> None:
    request = told(at(root(), 0, NOW_NS), *child)

    assert (request.start_ns, request.duration_ns) == (NOW_NS, 0)
    assert request.health


def test_a_week_is_believed() -> None:
    spans = [at(root(), NOW_NS, NOW_NS + LONGEST_NS)]

    (request,) = requests_of(spans, {})

    assert (request.duration_ns, request.repairs) == (LONGEST_NS, ())
