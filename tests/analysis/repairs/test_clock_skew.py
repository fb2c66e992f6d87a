"""Clocks of several hosts are brought together by what spans must contain."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.repairs.clock_skew import aligned
from latencytrace.model import Event, RepairKind, Span, SpanKind
from tests.support.builders.spans.strategies import heaps
from tests.support.builders.spans.trees import span

MS = 1_000_000
CLIENT = SpanKind.CLIENT
SERVER = SpanKind.SERVER


def on(
    host: str, name: str, start_ns: int, end_ns: int, parent: str | None, **more: object
) -> Span:
    return replace(span(name, start_ns, end_ns, parent=parent), host=host, **more)  # type: ignore[arg-type] # any field


def by_id(spans: Sequence[Span]) -> dict[str, Span]:
    return {one.span_id: one for one in spans}


def starts(spans: Sequence[Span]) -> dict[str, int]:
    found, _ = aligned(by_id(spans), ())
    return {span_id: one.start_ns for span_id, one in found.items()}


def test_a_clock_that_fits_is_left_alone() -> None:
    spans = [on("a", "call", 0, 100, None), on("b", "serve", 2, 60, "call")]

    found, repairs = aligned(by_id(spans), ())

    assert found == by_id(spans)
    assert repairs == []


def test_a_clock_that_is_off_is_moved_to_the_middle_of_what_fits() -> None:
    spans = [
        on("a", "call", 1_000, 1_100, None),
        on("b", "serve", 5_000, 5_080, "call"),
        on("b", "search", 5_010, 5_020, "serve"),
    ]

    found, repairs = aligned(by_id(spans), ())

    assert (found["serve"].start_ns, found["serve"].end_ns) == (1_010, 1_090)
    assert (found["search"].start_ns, found["search"].end_ns) == (1_020, 1_030)
    assert [(repair.kind, repair.span_id) for repair in repairs] == [
        (RepairKind.CLOCK_SKEW, "serve")
    ]
    assert "3990 ns ahead of" in repairs[0].detail


def test_a_server_that_ends_just_after_a_long_call_is_hardly_moved() -> None:
    call = on("a", "call", 0, 900 * MS, None)
    serve = on("b", "serve", 800 * MS, 902 * MS, "call")

    moved = starts([call, serve])

    assert 0 < 800 * MS - moved["serve"] < 10 * MS


def test_no_span_is_moved_before_the_epoch() -> None:
    spans = [
        on("a", "call", 10, 110, None),
        on("b", "serve", 5_010, 5_090, "call"),
        on("b", "warm up", 4_000, 4_010, "serve"),
    ]

    found = starts(spans)

    assert min(found.values()) == 0
    assert found["serve"] - found["call"] == 10
    assert found["serve"] - found["warm up"] == 1_010


def test_all_pairs_of_two_clocks_are_asked() -> None:
    loose = [on("a", "first", 0, 1_000, None), on("b", "serve first", 10_000, 10_010, "first")]
    tight = [on("a", "second", 2_000, 2_100, "first"), on("b", "reply", 11_800, 11_898, "second")]

    moved = starts([*loose, *tight])

    assert moved["reply"] == 2_001
    assert moved["serve first"] == 201


def test_a_child_that_outlives_its_parent_moves_no_clock_that_the_others_trust() -> None:
    spans = [
        on("a", "call", 0, 100, None),
        on("b", "serve", 10, 90, "call"),
        on("a", "second call", 20, 50, "call"),
        on("b", "goes on behind", 30, 55, "second call"),
        on("a", "third call", 50, 80, "call"),
        on("b", "third", 51, 75, "third call"),
    ]

    found, repairs = aligned(by_id(spans), ())

    assert found == by_id(spans)
    assert repairs == []


def test_a_server_that_goes_on_after_its_caller_gave_up_keeps_its_clock() -> None:
    spans = [on("a", "call", 0, 100, None), on("b", "serve", 5, 900, "call")]

    found, _ = aligned(by_id(spans), ())

    assert found == by_id(spans)


def test_a_message_may_be_consumed_long_after_it_was_sent() -> None:
    spans = [
        on("a", "send", 0, 10, None, kind=SpanKind.PRODUCER),
        on("b", "work", 500, 505, "send", kind=SpanKind.CONSUMER),
    ]

    found, _ = aligned(by_id(spans), ())

    assert found == by_id(spans)


def test_an_effect_never_comes_before_its_cause() -> None:
    spans = [
        on("a", "send", 1_000, 1_010, None, kind=SpanKind.PRODUCER),
        on("b", "work", 500, 505, "send", kind=SpanKind.CONSUMER),
    ]

    assert starts(spans)["work"] == 1_000


def test_clocks_are_aligned_along_a_chain_of_hosts() -> None:
    spans = [
        on("a", "call b", 0, 100, None),
        on("b", "b", 1_010, 1_090, "call b"),
        on("b", "call c", 1_020, 1_080, "b"),
        on("c", "c", 30, 70, "call c"),
    ]

    assert starts(spans) == {"call b": 0, "b": 10, "call c": 20, "c": 30}


def test_spans_of_one_host_share_a_clock_whatever_their_service() -> None:
    spans = [on("a", "call", 0, 100, None), on("a", "late", 90, 120, "call", service="other")]

    found, repairs = aligned(by_id(spans), ())

    assert found == by_id(spans)
    assert repairs == []


def test_events_move_with_their_span() -> None:
    event = Event(time_ns=5_040, name="first token")
    spans = [
        on("a", "call", 0, 100, None),
        on("b", "serve", 5_000, 5_080, "call", events=(event,)),
    ]

    found, _ = aligned(by_id(spans), ())

    assert found["serve"].events[0].time_ns == found["serve"].start_ns + 40


@pytest.mark.parametrize("skew_ns", [-7_000_000_000, -300, 300, 7_000_000_000])
def test_where_both_ways_take_as_long_the_truth_is_found(skew_ns: int) -> None:
    truth = [
        on("a", "call", 10_000, 10_500, None),
        on("b", "serve", 10_100, 10_400, "call"),
        on("b", "call back", 10_200, 10_300, "serve"),
        on("a", "called back", 10_240, 10_260, "call back"),
    ]
    sent = [
        replace(one, start_ns=one.start_ns + skew_ns, end_ns=one.end_ns + skew_ns)
        if one.host == "b"
        else one
        for one in truth
    ]

    found, _ = aligned(by_id(sent), ())

    assert found == by_id(truth)


@given(heaps(), st.sampled_from([-1_000, -7, 7, 1_000]))
def test_aligning_twice_equals_once(heap: list[Span], skew_ns: int) -> None:
    spans = by_id(
        [
            replace(one, start_ns=one.start_ns + skew_ns, end_ns=one.end_ns + skew_ns)
            if one.service == "rag"
            else one
            for one in heap
        ]
    )

    once, _ = aligned(spans, ())
    twice, repairs = aligned(once, ())

    assert twice == once
    assert repairs == []


@given(heaps())
def test_spans_of_one_clock_keep_their_distances(heap: list[Span]) -> None:
    spans = by_id(heap)

    found, _ = aligned(spans, ())

    shifts = {(one.service, found[id_].start_ns - one.start_ns) for id_, one in spans.items()}
    assert len(shifts) == len({one.service for one in spans.values()})
