"""Any heap of spans becomes requests, each with its ledger."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import (
    AttributeValue,
    RequestStatus,
    Span,
    SpanKind,
    Stage,
    StatusCode,
    semconv,
)
from tests.support.builders.spans.strategies import heaps
from tests.support.builders.spans.trees import ROOT, TRACE_ID, root, span


@given(heaps())
def test_every_ledger_sums_to_its_requests_duration(heap: list[Span]) -> None:
    requests = requests_of([root(), *heap], {})

    assert requests
    assert all(sum(request.ledger.values()) == request.duration_ns for request in requests)


@given(heaps())
def test_segments_partition_every_request(heap: list[Span]) -> None:
    requests = requests_of([root(), *heap], {})

    for request in requests:
        edges_ns = [0, *(segment.end_ns for segment in request.segments)]
        assert [segment.start_ns for segment in request.segments] == edges_ns[:-1]
        assert edges_ns[-1] == request.duration_ns
        assert all(before < after for before, after in pairwise(edges_ns))


@given(heaps(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(heap: list[Span], random: Random) -> None:
    requests = requests_of(random.sample(heap, len(heap)), {})

    assert requests == requests_of(heap, {})


def test_no_spans_are_no_requests() -> None:
    assert requests_of([], {}) == ()


def test_time_around_the_server_that_a_call_reached_is_network() -> None:
    outer, inner = requests_of(
        [
            root(),
            span(
                "call",
                10,
                90,
                kind=SpanKind.CLIENT,
                attributes={semconv.HTTP_REQUEST_METHOD: "POST"},
            ),
            span("served", 25, 80, parent="call", kind=SpanKind.SERVER, service="embedder"),
            span("forward", 30, 70, parent="served", service="embedder", stage=Stage.FORWARD),
        ],
        {},
    )

    assert outer.ledger == {
        Stage.UNATTRIBUTED: 10 + 10 + 5 + 10,
        Stage.NETWORK: 15 + 10,
        Stage.FORWARD: 40,
    }
    assert (inner.service, inner.outermost, inner.duration_ns) == ("embedder", False, 55)
    assert inner.ledger == {Stage.UNATTRIBUTED: 15, Stage.FORWARD: 40}


def test_segments_count_from_the_start_of_their_own_request() -> None:
    inner = requests_of(
        [root(), span("served", 25, 80, kind=SpanKind.SERVER, service="embedder")], {}
    )[1]

    assert (inner.start_ns, inner.segments[0].start_ns, inner.segments[0].end_ns) == (25, 0, 55)


def test_the_first_revision_is_one() -> None:
    (request,) = requests_of([root()], {})

    assert request.revision == 1


def test_a_request_written_before_gets_the_next_revision() -> None:
    (request,) = requests_of([root()], {(TRACE_ID, ROOT): 3, (TRACE_ID, "other"): 7})

    assert request.revision == 4


def test_a_request_carries_what_its_root_says_of_its_service() -> None:
    (request,) = requests_of([replace(root(), instance="rag-7", version="1.2")], {})

    assert (request.service, request.instance, request.version) == ("rag", "rag-7", "1.2")


@pytest.mark.parametrize(
    ("attributes", "route"),
    [
        pytest.param(
            {"http.request.method": "POST", "http.route": "/chat/{id}"},
            "POST /chat/{id}",
            id="new names",
        ),
        pytest.param({"http.method": "POST", "http.route": "/chat"}, "POST /chat", id="old names"),
        pytest.param({"http.request.method": "POST"}, "root", id="no route"),
        pytest.param({}, "root", id="no web request"),
    ],
)
def test_the_route_is_the_method_and_the_template(
    attributes: dict[str, AttributeValue], route: str
) -> None:
    (request,) = requests_of([root(attributes=attributes)], {})

    assert request.route == route


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        pytest.param({}, RequestStatus.OK, id="nothing said"),
        pytest.param({"http.response.status_code": 200}, RequestStatus.OK, id="200"),
        pytest.param({"rpc.response.status_code": "OK"}, RequestStatus.OK, id="gRPC OK"),
        pytest.param(
            {"rpc.response.status_code": "CANCELLED"}, RequestStatus.CANCELLED, id="gRPC cancelled"
        ),
        pytest.param(
            {"rpc.response.status_code": "DEADLINE_EXCEEDED"},
            RequestStatus.TIMEOUT,
            id="gRPC deadline",
        ),
        pytest.param(
            {"rpc.response.status_code": "RESOURCE_EXHAUSTED"},
            RequestStatus.REJECTED,
            id="gRPC exhausted",
        ),
        pytest.param(
            {"rpc.response.status_code": "NOT_FOUND"}, RequestStatus.OK, id="gRPC not found"
        ),
        pytest.param(
            {"rpc.grpc.status_code": 4}, RequestStatus.TIMEOUT, id="gRPC deadline, old name"
        ),
        pytest.param({"http.response.status_code": 404}, RequestStatus.OK, id="404"),
        pytest.param({"http.response.status_code": 500}, RequestStatus.ERROR, id="500"),
        pytest.param({"http.status_code": 502}, RequestStatus.ERROR, id="502, old name"),
        pytest.param({"http.response.status_code": 504}, RequestStatus.TIMEOUT, id="504"),
        pytest.param({"http.response.status_code": 408}, RequestStatus.TIMEOUT, id="408"),
        pytest.param({"error.type": "ReadTimeout"}, RequestStatus.TIMEOUT, id="a timeout"),
        pytest.param({"http.response.status_code": 499}, RequestStatus.CANCELLED, id="499"),
        pytest.param(
            {"latencytrace.cancelled": True, "http.response.status_code": 200},
            RequestStatus.CANCELLED,
            id="the caller left",
        ),
        pytest.param({"http.response.status_code": 429}, RequestStatus.REJECTED, id="429"),
        pytest.param({"http.response.status_code": 503}, RequestStatus.REJECTED, id="503"),
        pytest.param({"http.response.status_code": "teapot"}, RequestStatus.OK, id="no number"),
    ],
)
def test_the_root_tells_how_a_request_ended(
    attributes: dict[str, AttributeValue], status: RequestStatus
) -> None:
    (request,) = requests_of([root(attributes=attributes)], {})

    assert request.status is status


@pytest.mark.parametrize(
    ("kind", "status"),
    [(SpanKind.CLIENT, RequestStatus.OK), (SpanKind.SERVER, RequestStatus.ERROR)],
)
def test_a_call_by_itself_that_is_answered_with_404_fails_nobody(
    kind: SpanKind, status: RequestStatus
) -> None:
    answered = root(attributes={"http.response.status_code": 404})

    (request,) = requests_of([replace(answered, kind=kind, status=StatusCode.ERROR)], {})

    assert request.status is status


def test_a_root_marked_as_failed_is_an_error() -> None:
    (request,) = requests_of([replace(root(), status=StatusCode.ERROR)], {})

    assert request.status is RequestStatus.ERROR


@pytest.mark.parametrize(
    ("attributes", "health"),
    [
        pytest.param({"http.route": "/healthz"}, True, id="by its route"),
        pytest.param({"url.path": "/v1/health/ready"}, True, id="by its path"),
        pytest.param({"http.target": "/metrics?name=a"}, True, id="by its old target"),
        pytest.param({"url.path": "/Ready/"}, True, id="spelled otherwise"),
        pytest.param({"http.route": "/healthy-recipes"}, False, id="only alike"),
        pytest.param({"http.route": "/{path}", "url.path": "/ping"}, False, id="another route"),
        pytest.param({}, False, id="no web request"),
    ],
)
def test_health_and_metrics_routes_are_marked(
    attributes: dict[str, AttributeValue], *, health: bool
) -> None:
    (request,) = requests_of([root(attributes=attributes)], {})

    assert request.health is health


def test_a_job_that_asks_a_health_route_is_no_health_request() -> None:
    job = span("job", 0, 9, parent=None, kind=SpanKind.CLIENT, attributes={"url.path": "/healthz"})

    (request,) = requests_of([job], {})

    assert request.health is False


def test_token_times_and_counts_are_part_of_the_request() -> None:
    attributes: dict[str, AttributeValue] = {
        semconv.GEN_AI_REQUEST_MODEL: "llama",
        semconv.GEN_AI_USAGE_INPUT_TOKENS: 30,
        semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS: 20,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 5,
        semconv.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",),
        semconv.BATCH_SIZE: 1,
    }
    generate = span("generate", 0, 90, attributes=attributes)
    prefill = span("prefill", 10, 40, parent="generate", stage=Stage.PREFILL)
    decode = span("decode", 40, 80, parent="generate", stage=Stage.DECODE)

    (request,) = requests_of([root(), generate, prefill, decode], {})

    assert (request.time_to_first_token_ns, request.time_per_output_token_ns) == (40, 10)
    assert (request.input_tokens, request.cached_input_tokens, request.output_tokens) == (
        30,
        20,
        5,
    )
    assert (request.model, request.finish_reason, request.batch_size) == ("llama", "stop", 1)
