"""A span that ended before it started lasts as far as its children."""

from dataclasses import replace

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import RepairKind, Request, Span
from tests.support.builders.spans.numbered import TRACE_ID, root, span
from tests.support.simulation.by_columns import ByColumns

NOW_NS = 1_763_690_000 * 10**9


def at(made: Span, start_ns: int, end_ns: int) -> Span:
    return replace(made, start_ns=NOW_NS + start_ns, end_ns=NOW_NS + end_ns)


def mended(*spans: Span) -> Request:
    """The request, which columns leave to objects."""
    assert ByColumns()({TRACE_ID: spans})[1] == [TRACE_ID]
    (request,) = requests_of(spans, {})
    assert sum(request.ledger.values()) == request.duration_ns
    assert RepairKind.NEGATIVE in {repair.kind for repair in request.repairs}
    return request


@pytest.mark.parametrize(
    ("children", "meant"),
    [
        (((10, 30), (40, 70)), (0, 70)),
        (((-90, -70), (-65, -60)), (-90, -50)),
        (((10, 30), (-90, -60)), (0, 30)),
    ],
    ids=["before the clock was set back", "after it", "before and after it"],
)
def test_a_request_whose_clock_was_set_back_lasts_as_far_as_its_children(
    children: tuple[tuple[int, int], ...], meant: tuple[int, int]
) -> None:
    below = [at(span(number, 0, 1), *times) for number, times in enumerate(children, start=2)]

    request = mended(at(root(), 0, -50), *below)

    start_ns = request.start_ns - NOW_NS
    assert (start_ns, start_ns + request.duration_ns) == meant
    assert not request.health


def test_a_step_whose_clock_was_set_back_keeps_what_ran_inside() -> None:
    request = mended(at(root(), 0, 90), at(span(2, 0, 1), 10, 5), at(span(3, 0, 1, 2), 20, 60))

    inside = [(one.start_ns, one.end_ns) for one in request.segments if one.name == "span 3"]
    assert inside == [(20, 60)]


def test_a_request_that_ended_before_it_started_is_left_out_without_children() -> None:
    request = mended(at(root(), 0, -50))

    assert request.duration_ns == 0
    assert request.health


def test_a_child_on_another_clock_does_not_stretch_it() -> None:
    far_ns = 3_600 * 10**9

    request = mended(
        at(root(instance="a"), 0, -50),
        at(span(2, 0, 1, instance="a"), 10, 30),
        at(span(3, 0, 1, instance="b"), far_ns, far_ns + 20),
    )

    assert request.duration_ns == 30
