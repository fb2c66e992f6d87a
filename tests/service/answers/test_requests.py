"""The API's documents say what the store holds, and are as described."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import cast

import pytest
from pydantic import TypeAdapter

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import (
    Breakdown,
    Event,
    Link,
    Quantiles,
    Repair,
    RepairKind,
    Request,
    Span,
    SpanKind,
    Stage,
    StageBreakdown,
    StagePart,
    StatusCode,
    semconv,
)
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import (
    BreakdownDocument,
    RequestDocument,
    RequestsDocument,
    ServicesDocument,
)
from latencytrace.service.cohort import Cohort
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.store import Order, Store
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import SPAN, START_NS, TRACE, one_span

CHILD = "00000000000000a2"
INNER = "00000000000000a3"
UNKNOWN = "f" * 32


class KnownStore:
    """A store of what a test tells it: as much of `Store` as documents are made of."""

    def __init__(
        self, *spans: Span, kept: bool = True, breakdown: Breakdown | None = None
    ) -> None:
        self._spans = spans
        self._kept = kept
        self._requests = requests_of(spans, {})
        self._breakdown = breakdown

    def services(self) -> Sequence[str]:
        """The services of the spans."""
        return sorted({request.service for request in self._requests})

    def routes(self, service: str | None) -> Sequence[str]:
        """The routes of a service."""
        return sorted({one.route for one in self._requests if one.service == service})

    def breakdown(self, _: Cohort) -> Breakdown:
        """The one told."""
        assert self._breakdown
        return self._breakdown

    def requests(self, _: Cohort, order: Order, limit: int) -> Sequence[Request]:
        """All of them."""
        del order
        return self._requests[:limit]

    def request(self, trace_id: str, span_id: str | None) -> Request | None:
        """The one of these ids."""
        return next(
            (
                found
                for found in self._requests
                if found.trace_id == trace_id and span_id in {None, found.span_id}
            ),
            None,
        )

    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        """The spans, if they are kept."""
        return tuple(span for span in self._spans if self._kept and span.trace_id == trace_id)

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        """Those of the spans that lie there."""
        return tuple(span for span in self._spans if (span.trace_id, span.span_id) in places)


def known_store(*spans: Span, kept: bool = True, breakdown: Breakdown | None = None) -> Store:
    return cast(Store, KnownStore(*spans, kept=kept, breakdown=breakdown))


ROOT = one_span(end_ns=START_NS + 1000)
SEARCH = replace(
    one_span(
        span_id=CHILD,
        parent_id=SPAN,
        name="search",
        kind=SpanKind.INTERNAL,
        start_ns=START_NS + 100,
        end_ns=START_NS + 700,
        attributes={
            semconv.STAGE: "retrieve",
            "top_k": 5,
            "blob": b"\x00\xff",
            "nan": float("nan"),
        },
    ),
    status=StatusCode.ERROR,
    links=(Link(trace_id=UNKNOWN, span_id=CHILD),),
)
SERVED = replace(
    one_span(span_id=INNER, parent_id=CHILD, start_ns=START_NS + 200, end_ns=START_NS + 600),
    service="search",
)
BREAKDOWN = Breakdown(
    requests=2,
    attributed_ratio=0.75,
    duration_ns=Quantiles(mean=10.5, p50=10.4, p90=11, p95=11, p99=11, p999=11),
    time_to_first_token_ns=None,
    time_per_output_token_ns=None,
    output_tokens_per_second=None,
    stages=(
        StageBreakdown(
            stage=Stage.DECODE,
            mean_ns=9.6,
            share_ratio=0.75,
            p50_ns=9,
            p95_ns=9,
            p99_ns=9,
            requests=2,
            parts=(StagePart(name="event-loop lag", mean_ns=3.9, share_ratio=0.3, requests=1),),
        ),
    ),
    health_left_out=3,
    startup_left_out=2,
    reduced_detail_left_out=0,
    max_concurrency=1,
)
EMPTY = replace(
    BREAKDOWN, requests=0, attributed_ratio=None, duration_ns=None, stages=(), max_concurrency=None
)


def never_open(_: str) -> None:
    pass


def waiting(_: str) -> str:
    return "its request has not arrived"


def one(
    *spans: Span,
    kept: bool = True,
    trace_id: str = TRACE,
    span_id: str | None = None,
    open_because: Callable[[str], str | None] = never_open,
) -> RequestDocument:
    return answers.request(
        known_store(*spans, kept=kept), trace_id, span_id, open_because, lambda _: ["a profile"]
    )


def test_durations_of_a_breakdown_are_whole_nanoseconds() -> None:
    found = answers.breakdown(known_store(breakdown=BREAKDOWN), Cohort())

    assert found["duration_ns"] == {
        "mean": 10, "p50": 10, "p90": 11, "p95": 11, "p99": 11, "p999": 11
    }  # fmt: skip
    assert found["stages"] == [
        {
            "stage": "decode", "mean_ns": 10, "share_ratio": 0.75,
            "p50_ns": 9, "p95_ns": 9, "p99_ns": 9, "requests": 2,
            "parts": [
                {"name": "event-loop lag", "mean_ns": 4, "share_ratio": 0.3, "requests": 1}
            ],
        }
    ]  # fmt: skip
    assert found["left_out"] == {
        "health": 3,
        "startup": 2,
        "reduced_detail": 0,
        "unsure": 0,
    }


def test_a_breakdown_of_nothing_is_unknown_rather_than_zero() -> None:
    found = answers.breakdown(known_store(breakdown=EMPTY), Cohort())

    assert (found["requests"], found["attributed_ratio"], found["duration_ns"]) == (0, None, None)


def test_a_request_comes_with_its_spans_relative_to_its_start() -> None:
    found = one(ROOT, SEARCH)

    assert found["start"] == str(START_NS)
    assert found["ledger"] == {"unattributed": 400, "retrieve": 600}
    assert (found["busy"], found["exclusive"]) == ({"retrieve": 600}, {"retrieve": 600})
    assert (found["spans_kept"], found["profiles"]) == (True, ["a profile"])
    assert found["spans"] == [
        {
            "span_id": SPAN, "parent_id": None, "name": "POST /chat", "stage": "unattributed",
            "service": "rag", "instance": "rag-1",
            "start_ns": 0, "end_ns": 1000, "status": "ok", "error_type": None, "attributes": {},
            "links": [], "device": None,
        },
        {
            "span_id": CHILD, "parent_id": SPAN, "name": "search", "stage": "retrieve",
            "service": "rag", "instance": "rag-1",
            "start_ns": 100, "end_ns": 700, "status": "error", "error_type": None,
            "attributes": {semconv.STAGE: "retrieve", "top_k": 5, "blob": "00ff", "nan": "nan"},
            "links": [{"trace_id": UNKNOWN, "span_id": CHILD, "attributes": {}}], "device": None,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(("at_ns", "begin_ns"), [(0, 2**64 - 1), (2**64 - 1, 0)])
def test_a_span_of_an_absurd_time_is_answered(at_ns: int, begin_ns: int) -> None:
    span = replace(SEARCH, start_ns=at_ns, end_ns=at_ns)

    found = answers.span_document(span, Stage.OTHER, begin_ns)

    assert abs(json.loads(bytes(JsonAnswer(found).body))["start_ns"]) == 2**63 - 1


def test_a_consumer_says_which_span_of_another_trace_started_it() -> None:
    links = (Link(trace_id=UNKNOWN, span_id=CHILD), Link(trace_id=ROOT.trace_id, span_id=CHILD))
    consumer = replace(ROOT, kind=SpanKind.CONSUMER, links=links)

    assert one(consumer)["started_by"] == [{"trace_id": UNKNOWN, "span_id": CHILD}]
    nowhere = [Link(trace_id=one, span_id=CHILD) for one in ("", "0" * 32)]
    nowhere.append(Link(trace_id=UNKNOWN, span_id=""))
    assert one(replace(consumer, links=tuple(nowhere)))["started_by"] == []
    assert one(replace(ROOT, links=links))["started_by"] == []


def test_a_failed_request_names_the_type_of_its_exception_and_where_it_was_raised() -> None:
    raised = Event(time_ns=SEARCH.end_ns, name=semconv.EXCEPTION_EVENT, attributes={
        semconv.EXCEPTION_TYPE: "qdrant.Timeout", semconv.EXCEPTION_MESSAGE: "a prompt",
    })  # fmt: skip
    told = {semconv.ERROR_TYPE: "500"}

    found = one(
        replace(ROOT, status=StatusCode.ERROR, attributes=told), replace(SEARCH, events=(raised,))
    )

    assert (found["error_type"], found["error_span_id"]) == ("qdrant.Timeout", CHILD)
    assert [span["error_type"] for span in found["spans"]] == ["500", "qdrant.Timeout"]
    assert "a prompt" not in str(found)


def test_a_request_that_succeeds_has_no_exception() -> None:
    found = one(ROOT, SEARCH)

    assert (found["error_type"], found["error_span_id"]) == (None, None)


def test_segments_partition_the_request_though_its_spans_are_not_kept() -> None:
    found = one(ROOT, SEARCH, kept=False)

    assert [(part["start_ns"], part["end_ns"]) for part in found["segments"]] == [
        (0, 100), (100, 700), (700, 1000)
    ]  # fmt: skip
    assert (found["spans"], found["spans_kept"]) == ([], False)


def test_an_inner_request_comes_with_its_own_spans() -> None:
    found = one(ROOT, SEARCH, SERVED, span_id=INNER.upper())

    assert (found["service"], found["duration_ns"]) == ("search", 400)
    assert [span["span_id"] for span in found["spans"]] == [INNER]


def test_what_is_unknown_is_null() -> None:
    found = one(ROOT)

    unknown = ("model", "batch_size", "queue_depth", "concurrency", "preemptions", "cold_start")
    assert [dict(found)[key] for key in unknown] == [None] * len(unknown)


def test_a_streams_gaps_and_stalls_are_told_from_its_spans() -> None:
    second_ns = 10**9
    gaps = ",".join(str(second_ns // 100) for _ in range(9))
    packed = f"{second_ns};{gaps},{second_ns}"
    streamed = replace(
        ROOT, end_ns=START_NS + 5 * second_ns, attributes={semconv.TOKEN_TIMES: packed}
    )

    found = one(streamed)

    assert found["inter_token_ns"] == {
        "p50": second_ns // 100, "p99": second_ns, "max": second_ns
    }  # fmt: skip
    assert found["stalls"] == [
        {"start_ns": 1_090_000_000, "duration_ns": second_ns, "label": "unknown"}
    ]
    unkept = one(streamed, kept=False)
    assert (unkept["inter_token_ns"], unkept["stalls"]) == (None, None)


def test_without_token_times_gaps_and_stalls_are_unknown() -> None:
    found = one(ROOT, SEARCH)

    assert (found["inter_token_ns"], found["stalls"]) == (None, None)


def test_what_a_request_met_is_in_its_document() -> None:
    met: dict[str, object] = {"queue_depth": 3, "concurrency": 7}
    met |= {"preemptions": 0, "cold_start": False}
    found = answers.request_document(made_request(100, None, **met))

    assert met.items() <= found.items()


def test_failed_attempts_are_counted() -> None:
    found = answers.request_document(made_request(stages={Stage.RETRY: 5, Stage.REMOTE_MODEL: 5}))

    assert found["retries"] == 1


def test_an_unknown_trace_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="never arrived"):
        one(ROOT, trace_id=UNKNOWN)


def test_an_open_trace_is_not_found_yet() -> None:
    with pytest.raises(NotFoundError, match="still open: its request has not arrived"):
        one(SEARCH, open_because=waiting)


def test_spans_without_their_request_are_not_found_and_counted() -> None:
    with pytest.raises(NotFoundError, match="that have arrived: 1, but"):
        one(SEARCH)


def test_an_unknown_inner_request_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="without span_id"):
        one(ROOT, span_id=INNER)


@pytest.mark.parametrize("trace_id", ["", "abc", "g" * 32, TRACE + "0"])
def test_what_is_no_trace_id_is_a_question_not_understood(trace_id: str) -> None:
    with pytest.raises(QuestionError, match="32 hex digits"):
        one(ROOT, trace_id=trace_id)


@pytest.mark.parametrize(
    ("described", "document"),
    [
        (BreakdownDocument, answers.breakdown(known_store(breakdown=BREAKDOWN), Cohort())),
        (BreakdownDocument, answers.breakdown(known_store(breakdown=EMPTY), Cohort())),
        (RequestDocument, one(ROOT, SEARCH, SERVED)),
        (RequestDocument, one(ROOT, SEARCH, kept=False)),
        (
            RequestDocument,
            one(replace(ROOT, attributes={semconv.TOKEN_TIMES: f"1;1,1,1,1,{10**8}"})),
        ),
        (
            RequestsDocument,
            answers.requests(known_store(ROOT, SEARCH), Cohort(), Order.NEWEST, 10),
        ),
        (
            RequestsDocument,
            {
                "requests": [
                    answers.request_document(
                        made_request(
                            repairs=(Repair(kind=RepairKind.ORPHAN, span_id=SPAN, detail=""),)
                        )
                    )
                ],
                "matching": 1,
            },
        ),
        (ServicesDocument, answers.services(known_store(ROOT))),
    ],
)
def test_documents_are_as_the_api_describes_them(described: type, document: object) -> None:
    encoded = bytes(JsonAnswer(document).body)
    closed = TypeAdapter[object](described)
    keys = json.loads(encoded)

    assert closed.dump_python(closed.validate_json(encoded, strict=False), mode="json") == keys
