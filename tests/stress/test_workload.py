"""The workload is what it claims to be: else the count at the end would prove nothing."""

from collections import Counter

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.stress.workload import SPANS, WORKER, Workload, workload


@pytest.fixture(scope="module", params=[1, 2], ids=["one service", "two services"])
def made(request: pytest.FixtureRequest) -> Workload:
    return workload(requests=300, rate=50, services=request.param)


def posted(made: Workload) -> list[tuple[str, str]]:
    return [
        (span.trace_id.hex(), span.span_id.hex())
        for post in made.posts
        for of_resource in ExportTraceServiceRequest.FromString(post.body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def test_every_span_is_posted_once(made: Workload) -> None:
    spans = posted(made)

    assert len(set(spans)) == len(spans) == made.span_count
    assert Counter(trace_id for trace_id, _ in spans) == made.spans_of


def test_a_trace_has_8_to_20_spans(made: Workload) -> None:
    assert {*made.spans_of.values()} == {*range(SPANS[0], SPANS[1] + 1)}


def test_a_ledger_adds_up_to_its_duration(made: Workload) -> None:
    for request in made.requests:
        assert sum(request.ledger.values()) == request.duration_ns
        assert min(request.ledger.values()) > 0


def test_traces_are_cut_across_posts(made: Workload) -> None:
    posts = Counter(trace_id for post in made.posts for trace_id in post.trace_ids)

    assert sum(count > 1 for count in posts.values()) >= len(posts) / 10


def test_posts_are_due_in_order_and_never_too_large(made: Workload) -> None:
    due_s = [post.due_s for post in made.posts]

    assert due_s == sorted(due_s)
    assert [post.number for post in made.posts] == list(range(len(made.posts)))
    assert max(post.span_count for post in made.posts) == 512


def test_the_worker_answers_two_thirds_of_the_requests_of_two_services() -> None:
    made = workload(requests=300, rate=50, services=2)

    inner = {request.trace_id for request in made.requests if request.service == WORKER}
    outermost = [request.trace_id for request in made.requests if request.outermost]
    assert len(inner) == 200
    assert len(set(outermost)) == len(outermost) == 300


def test_the_same_seed_cuts_the_same_posts() -> None:
    first, second = (workload(requests=50, rate=50, seed=7) for _ in range(2))

    assert [post.trace_ids for post in first.posts] == [post.trace_ids for post in second.posts]
    assert [one.ledger for one in first.requests] == [one.ledger for one in second.requests]
