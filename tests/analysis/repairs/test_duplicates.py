"""Two spans with one id are two spans, if they are of different services or kinds."""

from dataclasses import replace
from itertools import permutations

import pytest

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.repairs.duplicates import without_duplicates
from latencytrace.model import Request, Span, SpanKind, Stage
from tests.support.builders.spans.trees import root, span

CALL = "00000000000000c0"
DEEP = "00000000000000d0"


def half(
    start_ns: int,
    end_ns: int,
    service: str,
    kind: SpanKind,
    span_id: str = CALL,
    parent: str = "root",
) -> Span:
    made = span(span_id, start_ns, end_ns, parent=parent)
    return replace(made, service=service, kind=kind, name=f"{kind} of {service}")


SHARED = (
    root(),
    half(10, 90, "rag", SpanKind.CLIENT),
    half(20, 80, "search", SpanKind.SERVER),
    half(30, 60, "search", SpanKind.CLIENT, DEEP, CALL),
    half(35, 55, "vectors", SpanKind.SERVER, DEEP, CALL),
)


def by_service(spans: tuple[Span, ...]) -> dict[str, Request]:
    return {one.service: one for one in requests_of(spans, {})}


def test_both_halves_of_a_call_with_one_id_are_spans_of_their_own() -> None:
    [outer, *_] = build_traces(SHARED)

    above = {one.name: outer.spans.get(one.parent_id or "") for one in outer.spans.values()}
    assert {name: one and one.name for name, one in above.items()} == {
        outer.root.name: None,
        "Client of rag": outer.root.name,
        "Server of search": "Client of rag",
        "Client of search": "Server of search",
        "Server of vectors": "Client of search",
    }
    assert outer.repairs == ()


def test_the_service_of_the_shorter_half_has_its_request() -> None:
    found = by_service(SHARED)

    assert {name: one.duration_ns for name, one in found.items()} == {
        "rag": 100, "search": 60, "vectors": 20,
    }  # fmt: skip
    assert found["rag"].ledger[Stage.NETWORK] == 20 + 10
    assert len({one.span_id for one in found.values()}) == 3


def test_the_order_of_arrival_gives_the_same_ids() -> None:
    [first, *others] = [sorted(without_duplicates(spans)[0]) for spans in permutations(SHARED)]

    assert all(ids == first for ids in others)
    assert len(first) == len(SHARED)


@pytest.mark.parametrize("parent", ["root", CALL], ids=["beside it", "below it"])
def test_a_server_that_names_its_client_as_its_parent_hangs_below_it(parent: str) -> None:
    spans = (
        root(),
        half(10, 90, "rag", SpanKind.CLIENT),
        half(20, 80, "search", SpanKind.SERVER, parent=parent),
    )

    assert by_service(spans)["rag"].ledger[Stage.NETWORK] == 20


def test_spans_of_two_services_that_chose_one_id_are_both_kept() -> None:
    spans = (
        root(),
        half(10, 40, "rag", SpanKind.INTERNAL),
        half(50, 90, "search", SpanKind.INTERNAL),
        half(55, 80, "search", SpanKind.INTERNAL, DEEP, CALL),
    )

    [trace] = build_traces(spans)

    assert len(trace.spans) == len(spans)
    [below] = [one for one in trace.spans.values() if one.span_id == DEEP]
    assert trace.spans[below.parent_id or ""].service == "search"


def test_a_half_that_came_twice_is_one() -> None:
    again = replace(SHARED[2], end_ns=70)

    spans, repairs = without_duplicates((*SHARED, again))

    assert len(spans) == len(SHARED)
    assert [repair.span_id for repair in repairs] == [CALL]
