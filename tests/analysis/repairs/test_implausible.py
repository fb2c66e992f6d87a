"""A span that lasted too long, or was never timed, lasts as long as its children."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.requests import request_of, requests_of
from latencytrace.analysis.repairs import implausible
from latencytrace.analysis.repairs.implausible import DATED_NS, WEEK_NS, Plausible, as_believed
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


def test_the_work_for_spans_that_are_absurd_one_below_the_other_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep, wide, looks = 300, 300, 0
    inside = implausible._timed_inside

    def counted(*given: Any) -> Iterator[Span]:
        nonlocal looks
        for one in inside(*given):
            looks += 1
            yield one

    monkeypatch.setattr(implausible, "_timed_inside", counted)
    chain = [at(span(n, 0, 1, n - 1), 0, NOW_NS) for n in range(2, deep)]
    leaves = [at(span(deep + n, 0, 1, deep - 1), NOW_NS - 90, NOW_NS - 50) for n in range(wide)]

    told(at(root(), 0, NOW_NS), *chain, *leaves)

    assert looks <= (deep + wide) * implausible._MOST_BETWEEN


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ((NOW_NS, 0), (NOW_NS, NOW_NS + 70)),
        ((0, 0), (NOW_NS + 10, NOW_NS + 70)),
        ((NOW_NS - 2 * WEEK_NS, NOW_NS + 90), (NOW_NS + 10, NOW_NS + 90)),
        ((0, NOW_NS + 90), (NOW_NS + 10, NOW_NS + 90)),
        ((NOW_NS, NOW_NS + 2 * WEEK_NS), (NOW_NS, NOW_NS + 70)),
    ],
    ids=["no end", "neither", "a start long ago", "no start", "an end far away"],
)
def test_what_was_never_set_is_taken_from_the_children(
    sent: tuple[int, int], meant: tuple[int, int]
) -> None:
    request = told(
        at(root(), *sent),
        at(span(2, 0, 1), NOW_NS + 10, NOW_NS + 30),
        at(span(3, 0, 1), NOW_NS + 40, NOW_NS + 70),
    )

    assert (request.start_ns, request.start_ns + request.duration_ns) == meant
    assert not request.health


def test_a_child_that_was_never_timed_is_empty_where_its_parent_is() -> None:
    request = told(at(root(), NOW_NS, NOW_NS + 90), at(span(2, 0, 1), 0, 0))

    assert (request.start_ns, request.duration_ns) == (NOW_NS, 90)
    assert [repair.kind for repair in request.repairs] == [RepairKind.IMPLAUSIBLE]


@pytest.mark.parametrize(
    "start_ns", [DATED_NS - 10**9, NOW_NS + 10**9], ids=["before 2000", "to come"]
)
def test_a_request_of_a_time_that_cannot_be_is_in_no_mean(start_ns: int) -> None:
    plausible = Plausible(earliest_ns=DATED_NS, latest_ns=NOW_NS)
    spans = [at(root(), start_ns, start_ns + 90), at(span(2, 0, 1), start_ns, start_ns + 50)]

    (trace,) = build_traces(spans, plausible=plausible)

    assert not trace.is_timed
    assert trace.root.end_ns - trace.root.start_ns == 90
    assert [repair.kind for repair in trace.repairs] == [RepairKind.IMPLAUSIBLE]
    assert build_traces(spans)[0].is_timed


@given(
    st.lists(
        st.tuples(*[st.sampled_from([0, 1, NOW_NS - 90, NOW_NS, NOW_NS + 50, 1 << 62])] * 2),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([40, 90, WEEK_NS]),
)
def test_what_is_believed_shows_in_the_request_alone(
    times: list[tuple[int, int]], longest_ns: int
) -> None:
    """A tree that is built again for a request is of its length, whatever bound it was made by."""
    spans = [at(root() if not n else span(n + 1, 0, 1, n), *one) for n, one in enumerate(times)]
    (trace,) = build_traces(spans, plausible=Plausible(longest_ns=longest_ns))
    request = request_of(trace, critical_path(trace), {})

    (again,) = build_traces(spans, plausible=as_believed(request))

    assert request.duration_ns <= longest_ns
    assert (again.root.start_ns, again.root.end_ns) == (trace.root.start_ns, trace.root.end_ns)


@pytest.mark.parametrize("child", [[], [at(span(2, 0, 1), 5, 9)]], ids=["none", "far away"])
def test_a_request_whose_time_nobody_knows_is_in_no_mean(child: list[Span]) -> None:
    request = told(at(root(), 0, NOW_NS), *child)

    assert (request.start_ns, request.duration_ns) == (NOW_NS, 0)
    assert request.health


def test_a_week_is_believed() -> None:
    spans = [at(root(), NOW_NS, NOW_NS + WEEK_NS)]

    (request,) = requests_of(spans, {})

    assert (request.duration_ns, request.repairs) == (WEEK_NS, ())
