"""Requests in Chrome's trace event format, by the rules of its specification."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, cast

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.requests import request_of
from latencytrace.model import Span
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import RequestDocument, SpanDocument
from latencytrace.service.answers.traces.perfetto import Event, microseconds, perfetto_trace
from tests.support.builders.documents import MS, request_document, span
from tests.support.builders.spans.strategies import heaps

METADATA = {"process_name", "process_sort_index", "thread_name"}


def request_of_heap(heap: list[Span]) -> Iterator[RequestDocument]:
    """The documents that the API gives of every request in a heap of spans."""
    for trace in build_traces(heap):
        request = request_of(trace, critical_path(trace), {})
        spans = [
            answers.span_document(one, trace.stages[one.span_id], request.start_ns)
            for one in trace.unclipped.values()
        ]
        yield cast(RequestDocument, {**answers.request_document(request), "spans": spans})


def events_of(request: RequestDocument, phase: str) -> list[dict[str, object]]:
    """As a reader of the file gets them."""
    document = json.loads(json.dumps(perfetto_trace(request), allow_nan=False))
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def read_ns(event: Event, key: str = "ts") -> int:
    """A time as Perfetto reads it: cut off after the nanosecond."""
    return int(cast(float, event[key]) * 1000)


def track(event: Event) -> tuple[object, object]:
    return event["pid"], event["tid"]


def slices_of(request: RequestDocument) -> dict[tuple[object, object], list[tuple[int, int]]]:
    """Start and end of the slices on each track, in the order of the file."""
    tracks = defaultdict(list)
    for event in events_of(request, "X"):
        start_ns = read_ns(event)
        tracks[track(event)].append((start_ns, start_ns + read_ns(event, "dur")))
    return tracks


@given(heaps())
def test_every_event_has_what_its_phase_needs(heap: list[Span]) -> None:
    for request in request_of_heap(heap):
        for event in cast(list[Event], perfetto_trace(request)["traceEvents"]):
            assert {"ph", "name", "pid", "tid"} <= event.keys()
            assert isinstance(event["pid"], int)
            assert isinstance(event["tid"], int)
            match event["ph"]:
                case "M":
                    assert event["name"] in METADATA
                    assert event["args"]
                case "X":
                    assert cast(float, event["ts"]) >= 0
                    assert cast(float, event["dur"]) >= 0
                    assert event["cat"]
                case "s" | "f":
                    assert cast(float, event["ts"]) >= 0
                    assert event["id"]
                    assert event["cat"]
                case phase:
                    raise AssertionError(phase)


@given(heaps())
def test_slices_of_a_track_nest(heap: list[Span]) -> None:
    for request in request_of_heap(heap):
        for slices in slices_of(request).values():
            around: list[int] = []  # ends of the slices that are open
            for start_ns, end_ns in slices:
                assert slices == sorted(slices, key=lambda one: (one[0], -one[1]))
                while around and around[-1] <= start_ns:
                    around.pop()
                assert not around or end_ns <= around[-1]
                around.append(end_ns)


@given(heaps())
def test_every_span_is_one_slice_and_the_path_covers_the_request(heap: list[Span]) -> None:
    for request in request_of_heap(heap):
        slices = events_of(request, "X")
        path = [event for event in slices if event["pid"] == 1]
        spans = [cast(dict[str, str], one["args"])["span_id"] for one in slices if one["pid"] != 1]
        assert sorted(spans) == sorted(one["span_id"] for one in request.get("spans", []))
        assert [event["name"] for event in path] == [one["stage"] for one in request["segments"]]
        assert sum(read_ns(event, "dur") for event in path) == request["duration_ns"]


@given(heaps())
def test_every_arrow_begins_and_ends_in_a_slice(heap: list[Span]) -> None:
    for request in request_of_heap(heap):
        tracks = slices_of(request)
        begun = {event["id"]: event for event in events_of(request, "s")}
        ended = {event["id"]: event for event in events_of(request, "f")}
        assert begun.keys() == ended.keys()
        for key, start in begun.items():
            end = ended[key]
            assert (start["name"], start["cat"]) == (end["name"], end["cat"])
            assert read_ns(start) <= read_ns(end)
            assert end["bp"] == "e"
            for event in (start, end):
                assert any(a <= read_ns(event) < b for a, b in tracks[track(event)])


@given(st.integers(0, 10**15))
def test_no_nanosecond_is_lost(ns: int) -> None:
    assert int(microseconds(ns) * 1000) == ns


def test_the_path_is_a_track_of_its_own_named_by_stage() -> None:
    path = [event for event in events_of(request_document(), "X") if event["pid"] == 1]

    assert [(event["name"], event["ts"], event["dur"]) for event in path[:2]] == [
        ("unattributed", 0.0, 5000.0),
        ("embed", 5000.0, 20_000.0),
    ]


def in_process(one: SpanDocument, service: str, instance: str | None = None) -> SpanDocument:
    return {**one, "service": service, "instance": instance}


def drawn(*spans: SpanDocument) -> RequestDocument:
    return {**request_document(), "spans": list(spans)}


def test_an_instance_of_a_service_is_a_process() -> None:
    request = drawn(
        in_process(span("aa", None, "POST /chat", "unattributed", 0, 100), "rag", "rag-1"),
        in_process(span("bb", "aa", "embed", "embed", 5, 25), "embedder"),
    )

    names = [
        cast(dict[str, str], event["args"])["name"]
        for event in events_of(request, "M")
        if event["name"] == "process_name"
    ]
    assert names == ["critical path of POST /chat", "rag · rag-1", "embedder"]


def test_spans_that_overlap_lie_on_tracks_of_their_own() -> None:
    request = drawn(
        span("aa", None, "POST /chat", "unattributed", 0, 100),
        span("bb", "aa", "first", "retrieve", 10, 50),
        span("cc", "aa", "second", "retrieve", 20, 60),
        span("dd", "cc", "in the second", "embed", 30, 40),
        span("ee", "aa", "third", "decode", 60, 90),
    )

    tracks = {event["name"]: event["tid"] for event in events_of(request, "X") if event["pid"] > 1}  # type: ignore[operator] # a number
    assert tracks == {
        "POST /chat": 1, "first": 1, "second": 2, "in the second": 2, "third": 1,
    }  # fmt: skip


def test_times_begin_with_the_earliest_span() -> None:
    request = drawn(
        span("aa", None, "POST /chat", "unattributed", 0, 100),
        span("bb", "aa", "before its parent", "retrieve", -10, 50),
    )

    starts = {event["name"]: event["ts"] for event in events_of(request, "X") if event["pid"] > 1}  # type: ignore[operator] # a number
    assert starts == {"before its parent": 0.0, "POST /chat": 10_000.0}


def test_arrows_lead_to_other_processes_and_from_linked_spans() -> None:
    linked: SpanDocument = {
        **span("cc", "aa", "decode", "decode", 40, 60),
        "links": [{"trace_id": "", "span_id": "dd", "attributes": {}}],
    }
    request = drawn(
        span("aa", None, "POST /chat", "unattributed", 0, 100),
        in_process(span("bb", "aa", "embed", "embed", 5, 25), "embedder"),
        linked,
        in_process(span("dd", None, "batch", "decode", 30, 70), "engine"),
    )

    begun = {(event["name"], event["ts"]) for event in events_of(request, "s")}
    ended = {(event["name"], event["ts"]) for event in events_of(request, "f")}
    assert begun == {("call", 5000.0), ("link", 30_000.0)}
    assert ended == {("call", 5000.0), ("link", 40_000.0)}


def test_a_request_whose_spans_were_not_kept_has_its_path() -> None:
    request: RequestDocument = {**request_document(), "spans": [], "spans_kept": False}

    assert {event["pid"] for event in events_of(request, "X")} == {1}


def test_what_is_known_of_the_whole_stands_beside_it() -> None:
    document = perfetto_trace(request_document())
    other = cast(dict[str, object], document["otherData"])

    unit: Literal["ns"] = "ns"  # the format knows ms and ns
    assert document["displayTimeUnit"] == unit
    assert other["ledger_ns"] == request_document()["ledger"]
    assert other["duration_ns"] == 100 * MS
