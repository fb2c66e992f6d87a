"""Any heap of spans becomes one well-formed tree a request."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis import build_trace
from latencytrace.analysis.build_trace import MAX_NESTED_REQUESTS, build_traces
from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.analysis.trace.purposes import CALLS, PLACED_NOWHERE
from latencytrace.model import (
    Interval,
    RepairKind,
    Span,
    SpanKind,
    Stage,
    Trace,
    semconv,
)
from tests.support.builders.spans.strategies import heaps
from tests.support.builders.spans.trees import request, root, span

SERVER = SpanKind.SERVER
CLIENT = SpanKind.CLIENT
HTTP = {semconv.HTTP_REQUEST_METHOD: "GET"}


def kinds(trace: Trace) -> list[tuple[RepairKind, str]]:
    return [(repair.kind, repair.span_id) for repair in trace.repairs]


@given(heaps())
def test_every_child_lies_within_its_parent(heap: list[Span]) -> None:
    traces = build_traces(heap)

    assert all(
        trace.spans[parent_id].start_ns <= child.start_ns
        and child.start_ns <= child.end_ns <= trace.spans[parent_id].end_ns
        and child.parent_id == parent_id
        for trace in traces
        for parent_id, children in trace.children.items()
        for child in children
    )


@given(heaps())
def test_every_span_but_the_root_is_one_childs_place(heap: list[Span]) -> None:
    traces = build_traces(heap)

    for trace in traces:
        placed = [child for children in trace.children.values() for child in children]
        assert sorted(span.span_id for span in [trace.root, *placed]) == sorted(trace.spans)
        assert trace.spans.keys() == trace.stages.keys()
        assert trace.intervals.keys() <= trace.spans.keys()


@given(heaps())
def test_every_interval_lies_within_its_span(heap: list[Span]) -> None:
    traces = build_traces(heap)

    assert all(
        trace.spans[span_id].start_ns <= interval.start_ns
        and interval.start_ns < interval.end_ns <= trace.spans[span_id].end_ns
        for trace in traces
        for span_id, intervals in trace.intervals.items()
        for interval in intervals
    )


@given(heaps())
def test_no_span_is_lost_or_counted_twice_once_a_request_has_arrived(heap: list[Span]) -> None:
    traces = build_traces([root(), *heap])

    placed = [span_id for trace in traces if trace.outermost for span_id in trace.spans]
    sent = {(span.span_id, span.service, span.kind) for span in heap}
    assert len(placed) == len(set(placed)) == 1 + len(sent)
    assert set(placed) >= {"root", *(span.span_id for span in heap)}


@given(heaps(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(heap: list[Span], random: Random) -> None:
    shuffled = random.sample(heap, len(heap))

    traces = build_traces(shuffled)

    assert repr(traces) == repr(build_traces(heap))


@given(heaps())
def test_repairing_twice_changes_nothing_more(heap: list[Span]) -> None:
    once = [trace for trace in build_traces(heap) if trace.outermost]

    twice = [build_traces(trace.spans.values())[0] for trace in once]

    assert twice == [
        replace(trace, unclipped=trace.spans, repairs=(), is_timed=True) for trace in once
    ]


def test_a_trace_through_two_services_holds_a_request_of_each() -> None:
    traces = build_traces(
        [
            root(),
            span("call", 10, 90, kind=CLIENT, attributes=HTTP),
            span("served", 20, 80, parent="call", kind=SERVER, service="embedder"),
            span("forward", 30, 70, parent="served", service="embedder", stage=Stage.FORWARD),
        ]
    )

    assert [(trace.root.span_id, trace.outermost, sorted(trace.spans)) for trace in traces] == [
        ("root", True, ["call", "forward", "root", "served"]),
        ("served", False, ["forward", "served"]),
    ]


def test_a_server_span_inside_its_own_service_is_no_request() -> None:
    traces = build_traces([root(), span("engine", 10, 90, kind=SERVER)])

    assert [trace.root.span_id for trace in traces] == ["root"]


def test_an_inner_request_is_not_clipped_when_its_caller_gave_up() -> None:
    traces = build_traces(
        [
            root(),
            span("call", 10, 20, kind=CLIENT, attributes=HTTP),
            span("served", 15, 508, parent="call", kind=SERVER, service="embedder"),
        ]
    )

    assert (traces[1].root.start_ns, traces[1].root.end_ns) == (15, 508)
    assert (traces[0].spans["served"].start_ns, traces[0].spans["served"].end_ns) == (15, 20)


def test_every_root_is_a_request_of_its_own() -> None:
    traces = build_traces([span("second", 50, 90, parent=None), span("first", 0, 40, parent=None)])

    assert [(trace.root.span_id, trace.outermost) for trace in traces] == [
        ("first", True),
        ("second", True),
    ]


def test_a_server_span_whose_caller_is_not_traced_is_a_request_without_repair() -> None:
    traces = build_traces([span("served", 0, 9, parent="untraced", kind=SERVER)])

    assert [(trace.root.span_id, trace.outermost, trace.repairs) for trace in traces] == [
        ("served", True, ())
    ]


def test_spans_wait_until_a_request_has_arrived() -> None:
    traces = build_traces([span("decode", 0, 9, parent="still open")])

    assert traces == ()


def test_an_orphan_hangs_below_the_only_root() -> None:
    trace = request(span("search", 20, 40, parent="lost"))

    assert [child.span_id for child in trace.children["root"]] == ["search"]
    assert kinds(trace) == [(RepairKind.ORPHAN, "search")]


def test_the_server_span_of_a_lost_call_is_an_inner_request() -> None:
    traces = build_traces(
        [root(), span("served", 20, 60, parent="lost", kind=SERVER, service="embedder")]
    )

    assert [(trace.root.span_id, trace.outermost) for trace in traces] == [
        ("root", True),
        ("served", False),
    ]
    assert "served" in traces[0].spans


def test_an_orphan_hangs_below_the_request_of_its_own_service() -> None:
    traces = build_traces(
        [
            root(),
            span("served", 20, 80, kind=SERVER, service="embedder"),
            span("forward", 30, 70, parent="lost", service="embedder"),
        ]
    )

    assert traces[0].spans["forward"].parent_id == "served"


@pytest.mark.parametrize(
    ("start", "is_below"),
    [
        pytest.param(15, "second", id="it ran then"),
        pytest.param(30, "first", id="it alone ran then"),
        pytest.param(20, "first", id="the other ended then"),
        pytest.param(110, "second", id="after both, below the last to begin"),
    ],
)
def test_an_orphan_hangs_below_a_request_that_ran_when_it_started(
    start: int, is_below: str
) -> None:
    traces = build_traces(
        [
            span("first", 0, 100, parent=None),
            span("second", 10, 20, parent=None),
            span("orphan", start, 120, parent="lost"),
        ]
    )

    assert [trace.root.span_id for trace in traces if "orphan" in trace.spans] == [is_below]


def test_orphans_of_a_lost_call_stay_with_the_server_span_it_reached() -> None:
    traces = build_traces(
        [
            root(),
            span("forward", 30, 50, parent="lost too", service="embedder"),
            span("served", 20, 60, parent="lost", kind=SERVER, service="embedder"),
        ]
    )

    assert sorted(traces[1].spans) == ["forward", "served"]


def test_a_second_lost_call_to_a_service_is_a_request_beside_the_first() -> None:
    traces = build_traces(
        [
            root(),
            span("first", 10, 90, kind=SERVER, service="embedder"),
            span("second", 30, 60, parent="lost", kind=SERVER, service="embedder"),
        ]
    )

    assert [trace.root.span_id for trace in traces] == ["root", "first", "second"]


def test_a_loop_is_cut_above_its_earliest_span() -> None:
    trace = request(
        span("earliest", 10, 90, parent="b"),
        span("a", 20, 80, parent="earliest"),
        span("b", 30, 70, parent="a"),
    )

    assert trace.spans["earliest"].parent_id == "root"
    assert [child.span_id for child in trace.children["a"]] == ["b"]
    assert (RepairKind.CYCLE, "earliest") in kinds(trace)


def test_a_span_that_is_its_own_parent_hangs_below_the_request() -> None:
    trace = request(span("a", 10, 90, parent="a"))

    assert trace.spans["a"].parent_id == "root"
    assert (RepairKind.CYCLE, "a") in kinds(trace)


def test_a_span_sent_twice_is_no_repair() -> None:
    trace = request(span("search", 20, 40), span("search", 20, 40))

    assert kinds(trace) == []
    assert sorted(trace.spans) == ["root", "search"]


def test_of_spans_that_share_an_id_the_one_that_lasts_longest_is_kept() -> None:
    trace = request(span("search", 20, 60), span("search", 45, 75))

    assert (trace.spans["search"].start_ns, trace.spans["search"].end_ns) == (20, 60)
    assert kinds(trace) == [(RepairKind.DUPLICATE, "search")]


def test_a_span_that_ended_before_it_started_is_empty_at_its_start() -> None:
    trace = request(span("search", 40, 20))

    assert (trace.spans["search"].start_ns, trace.spans["search"].end_ns) == (40, 40)
    assert kinds(trace) == [(RepairKind.NEGATIVE, "search")]


@pytest.mark.parametrize(
    ("sent", "clipped", "where"),
    [
        pytest.param((-10, 30), (0, 30), "by 10 ns before it, 0 ns after it", id="early"),
        pytest.param((30, 130), (30, 100), "by 0 ns before it, 30 ns after it", id="late"),
        pytest.param((-10, 130), (0, 100), "by 10 ns before it, 30 ns after it", id="both"),
        pytest.param((-20, -5), (0, 0), "wholly before, by 5 ns", id="wholly before"),
        pytest.param((-20, 0), (0, 0), "wholly before, by 0 ns", id="just before"),
        pytest.param((110, 130), (100, 100), "wholly after, by 10 ns", id="wholly after"),
        pytest.param((100, 130), (100, 100), "wholly after, by 0 ns", id="just after"),
    ],
)
def test_a_child_outside_its_parent_is_clipped(
    sent: tuple[int, int], clipped: tuple[int, int], where: str
) -> None:
    trace = request(span("search", *sent))

    child = trace.spans["search"]
    assert (child.start_ns, child.end_ns) == clipped
    assert kinds(trace) == [(RepairKind.CLIPPED, "search")]
    assert trace.repairs[0].detail == f"search stuck out of root: {where}"


@pytest.mark.parametrize(
    ("sent", "instance", "is_repaired"),
    [
        pytest.param((110, 130), "a", False, id="after"),
        pytest.param((100, 130), "a", False, id="just after"),
        pytest.param((110, 130), "b", True, id="in another process"),
        pytest.param((90, 130), "a", True, id="beyond"),
        pytest.param((-20, -5), "a", True, id="before"),
    ],
)
def test_what_a_process_does_after_its_answer_is_no_repair(
    sent: tuple[int, int], instance: str, *, is_repaired: bool
) -> None:
    after = replace(span("after", *sent), instance=instance, host="here")
    below = replace(span("below", *sent, parent="after"), instance=instance, host="here")

    (trace,) = build_traces([replace(root(), instance="a", host="here"), after, below])

    assert ((RepairKind.CLIPPED, "after") in kinds(trace)) is is_repaired
    if not is_repaired:
        assert kinds(trace) == []
    assert trace.unclipped["after"] == after


def test_a_child_that_touches_the_edges_of_its_parent_is_not_clipped() -> None:
    trace = request(span("search", 0, 100))

    assert kinds(trace) == []


def test_intervals_stay_where_they_were_when_their_span_is_clipped() -> None:
    late = {semconv.INTERVALS: "respond:30+10"}

    trace = request(span("stream", -20, 50, attributes=late))

    assert trace.intervals["stream"] == (Interval(stage=Stage.RESPOND, start_ns=10, end_ns=20),)


def test_intervals_that_cannot_be_read_are_left_out_and_noted() -> None:
    trace = request(span("stream", 0, 50, attributes={semconv.INTERVALS: "respond:30"}))

    assert trace.intervals == {}
    assert kinds(trace) == [(RepairKind.INTERVALS, "stream")]


def test_an_inner_request_notes_only_the_repairs_of_its_own_spans() -> None:
    traces = build_traces(
        [
            root(),
            span("search", 40, 20),
            span("served", 20, 60, kind=SERVER, service="embedder"),
            span("forward", 40, 20, parent="served", service="embedder"),
        ]
    )

    assert kinds(traces[1]) == [(RepairKind.NEGATIVE, "forward")]


def test_a_search_made_over_http_is_retrieval_and_no_network() -> None:
    trace = request(
        span("search", 10, 90, stage=Stage.RETRIEVE),
        span("wrapper", 15, 85, parent="search"),
        span("GET", 20, 80, parent="wrapper", kind=CLIENT, attributes=HTTP),
    )

    assert trace.stages["GET"] is Stage.RETRIEVE


def test_a_call_to_a_service_that_is_traced_too_is_network() -> None:
    trace = request(
        span("search", 10, 90, stage=Stage.RETRIEVE),
        span("GET", 20, 80, parent="search", kind=CLIENT, attributes=HTTP),
        span("served", 30, 70, parent="GET", kind=SERVER, service="database"),
    )

    assert trace.stages["GET"] is Stage.NETWORK


def test_a_call_answered_by_a_traced_service_through_another_library_is_network() -> None:
    trace = request(
        span("search", 10, 90, stage=Stage.RETRIEVE),
        span("GET", 20, 80, parent="search", kind=CLIENT, attributes=HTTP),
        span("GET again", 25, 75, parent="GET", kind=CLIENT, attributes=HTTP),
        span("served", 30, 70, parent="GET again", kind=SERVER, service="database"),
    )

    assert trace.stages["GET"] is Stage.NETWORK


def test_a_call_of_any_protocol_is_network_around_the_server_span_that_it_caused() -> None:
    trace = request(
        span("fetch", 10, 90, kind=CLIENT),
        span("served", 30, 70, parent="fetch", kind=SERVER, service="features"),
        span("unseen", 92, 95, kind=CLIENT),
    )

    assert trace.stages["fetch"] is Stage.NETWORK
    assert trace.stages["unseen"] is Stage.OTHER


def test_a_client_that_called_a_traced_service_keeps_a_stage_of_its_own() -> None:
    trace = request(
        span("search", 10, 90, kind=CLIENT, stage=Stage.RETRIEVE),
        span("served", 30, 70, parent="search", kind=SERVER, service="database"),
    )

    assert trace.stages["search"] is Stage.RETRIEVE


def test_what_a_service_was_called_for_says_nothing_of_its_own_calls() -> None:
    trace = request(
        span("search", 10, 90, stage=Stage.RETRIEVE),
        span("served", 20, 80, parent="search", kind=SERVER, service="database"),
        span("GET", 30, 70, parent="served", kind=CLIENT, service="database", attributes=HTTP),
    )

    assert trace.stages["GET"] is Stage.NETWORK


@pytest.mark.parametrize("stage", sorted(CALLS))
def test_a_called_service_without_stages_has_that_of_the_call(stage: Stage) -> None:
    search = span("search", 10, 90, kind=CLIENT, stage=stage)
    served = span("served", 20, 80, parent="search", kind=SERVER, service="database")
    score = span("score", 30, 40, parent="served", service="database")

    outer, inner = build_traces([root(), search, served, score])

    assert (outer.stages["served"], outer.stages["score"]) == (stage, stage)
    assert (inner.stages["served"], inner.stages["score"]) == (Stage.UNATTRIBUTED, Stage.OTHER)


def test_the_nearest_call_counts_and_the_network_within_it_stays() -> None:
    trace = request(
        span("ask", 5, 95, stage=Stage.TOOL),
        span("search", 10, 90, parent="ask", stage=Stage.RETRIEVE),
        span("POST", 15, 85, parent="search", kind=CLIENT, attributes=HTTP),
        span("served", 20, 80, parent="POST", kind=SERVER, service="database"),
        span("parse", 91, 94, parent="ask"),
    )

    assert trace.stages["POST"] is Stage.NETWORK
    assert trace.stages["served"] is Stage.RETRIEVE
    assert trace.stages["parse"] is Stage.TOOL


def test_work_that_is_no_call_gives_its_stage_to_nothing_below() -> None:
    trace = request(
        span("generate", 10, 90, stage=Stage.DECODE), span("log", 20, 30, parent="generate")
    )

    assert trace.stages["log"] is Stage.OTHER


@given(heaps())
def test_no_span_in_a_call_is_without_a_stage(heap: list[Span]) -> None:
    for trace in build_traces(heap):
        for found in trace.spans.values():
            above = found is not trace.root and trace.stages[found.parent_id or ""] in CALLS
            assert not (above and trace.stages[found.span_id] in PLACED_NOWHERE)


def test_waiting_for_the_body_of_a_request_is_network_in_any_stage() -> None:
    trace = request(
        span("read", 10, 90, stage=Stage.PREPROCESS),
        span("POST /chat http receive", 20, 80, parent="read"),
    )

    assert trace.stages["POST /chat http receive"] is Stage.NETWORK


def test_a_call_made_for_no_stage_is_network() -> None:
    trace = request(span("GET", 20, 80, kind=CLIENT, attributes=HTTP))

    assert trace.stages["GET"] is Stage.NETWORK


def test_a_call_in_a_stage_of_the_users_own_is_network() -> None:
    trace = request(
        span("mine", 10, 90, stage=Stage.APPLICATION),
        span("GET", 20, 80, parent="mine", kind=CLIENT, attributes=HTTP),
    )

    assert trace.stages["GET"] is Stage.NETWORK


def test_requests_nested_without_end_are_bounded() -> None:
    heap = [
        span(
            str(depth),
            depth,
            1_000 - depth,
            parent=str(depth - 1) if depth else None,
            kind=SERVER,
            service=f"service {depth % 2}",
        )
        for depth in range(100)
    ]

    traces = build_traces(heap)

    assert len(traces) == MAX_NESTED_REQUESTS + 1
    assert len(traces[0].spans) == 100


@pytest.mark.parametrize("kind", sorted(ENTRY_KINDS))
def test_servers_and_consumers_called_by_another_service_are_requests(kind: SpanKind) -> None:
    traces = build_traces([root(), span("worker", 10, 90, kind=kind, service="worker")])

    assert [trace.root.span_id for trace in traces] == ["root", "worker"]


def test_repairs_without_end_are_counted() -> None:
    outside = [span(f"late {number:02}", 90, 110) for number in range(25)]

    trace = request(*outside)

    assert [repair.span_id for repair in trace.repairs][-2:] == ["late 19", "root"]
    assert trace.repairs[-1].detail == "and 5 more"


def test_requests_within_requests_cost_no_more_than_so_many_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build_trace, "MAX_NESTED_SPANS", 5)
    chain = [root()]
    for depth in range(1, 6):
        service = "rag" if depth % 2 == 0 else "gateway"
        parent = chain[-1].span_id
        chain.append(span(f"{depth}", 0, 100, parent=parent, kind=SERVER, service=service))

    traces = build_traces(chain)

    assert [trace.root.span_id for trace in traces] == ["root", "1"]
