"""Requests are recorded on a meter of the SDK."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from latencytrace.model import MetricAttributes, Request, RequestStatus, Stage, semconv
from latencytrace.service.metrics.requests import RequestMetrics
from tests.support.builders.made_requests import TRACE, made_request

SECOND_NS = 1_000_000_000
HTTP = "http.server.request.duration"
GEN_AI = "gen_ai.server.request.duration"
FIRST_TOKEN = "gen_ai.server.time_to_first_token"
TOKEN = "gen_ai.server.time_per_output_token"
STAGE = "latencytrace.request.stage.duration"
CHAT = MetricAttributes(
    http=((semconv.HTTP_REQUEST_METHOD, "POST"), (semconv.HTTP_ROUTE, "/chat")),
    gen_ai=((semconv.GEN_AI_OPERATION_NAME, "chat"), (semconv.GEN_AI_REQUEST_MODEL, "tiny")),
)


class Recorded:
    """A meter, and what was recorded on it."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def count(self, *requests: Request, max_cohorts: int = 200, max_sets: int = 2000) -> None:
        """Record requests."""
        meter = self.provider.get_meter("test")
        RequestMetrics(meter, max_cohorts, max_sets).count(requests)

    def points(self) -> dict[str, list[HistogramDataPoint]]:
        """By the names of the metrics."""
        read = self._reader.get_metrics_data()
        if read is None:
            return {}
        found: dict[str, list[HistogramDataPoint]] = {}
        for metric in read.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points:
                assert isinstance(point, HistogramDataPoint)
                found.setdefault(metric.name, []).append(point)
        return found


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    recorded = Recorded()
    yield recorded
    recorded.provider.shutdown()


def chat(duration_ns: int = SECOND_NS, **more: object) -> Request:
    return made_request(duration_ns, **{"metric_attributes": CHAT, **more})  # type: ignore[arg-type] # any field may be given


def test_a_request_is_recorded_by_its_duration(recorded: Recorded) -> None:
    recorded.count(chat(2 * SECOND_NS))

    points = recorded.points()
    (http,), (gen_ai,) = points[HTTP], points[GEN_AI]
    assert (http.count, http.sum, gen_ai.count, gen_ai.sum) == (1, 2.0, 1, 2.0)
    assert http.attributes == {semconv.SERVICE_NAME: "rag", **dict(CHAT.http)}
    assert gen_ai.attributes == {semconv.SERVICE_NAME: "rag", **dict(CHAT.gen_ai)}


def test_token_times_are_recorded_where_known(recorded: Recorded) -> None:
    recorded.count(
        chat(time_to_first_token_ns=SECOND_NS // 2, time_per_output_token_ns=SECOND_NS // 100),
        chat(),
    )

    points = recorded.points()
    assert [(point.count, point.sum) for point in points[FIRST_TOKEN]] == [(1, 0.5)]
    assert [(point.count, point.sum) for point in points[TOKEN]] == [(1, 0.01)]


def test_token_times_are_those_of_requests_that_succeed(recorded: Recorded) -> None:
    failed = replace(CHAT, error_type="timeout")

    recorded.count(
        chat(
            metric_attributes=failed,
            status=RequestStatus.TIMEOUT,
            time_to_first_token_ns=SECOND_NS,
            time_per_output_token_ns=SECOND_NS,
        )
    )

    points = recorded.points()
    assert not {FIRST_TOKEN, TOKEN} & points.keys()
    for name in (HTTP, GEN_AI):
        assert (points[name][0].attributes or {})[semconv.ERROR_TYPE] == "timeout"


def test_stages_add_up_to_the_duration(recorded: Recorded) -> None:
    recorded.count(chat(stages={Stage.RETRIEVE: SECOND_NS, Stage.DECODE: 3 * SECOND_NS}))

    points = {
        str((point.attributes or {})[semconv.STAGE]): point for point in recorded.points()[STAGE]
    }
    assert {stage: point.sum for stage, point in points.items()} == {"retrieve": 1, "decode": 3}
    assert points["decode"].attributes == {
        semconv.SERVICE_NAME: "rag",
        semconv.ROUTE: "POST /chat",
        semconv.GEN_AI_REQUEST_MODEL: "tiny",
        semconv.STAGE: "decode",
    }


def test_boundaries_are_those_that_the_conventions_advise(recorded: Recorded) -> None:
    recorded.count(chat(time_to_first_token_ns=1, time_per_output_token_ns=1))

    points = recorded.points()
    assert list(points[GEN_AI][0].explicit_bounds) == pytest.approx(
        [0.01 * 2**power for power in range(14)]
    )
    assert [points[name][0].explicit_bounds[0] for name in (HTTP, FIRST_TOKEN, TOKEN)] == [
        0.005, 0.001, 0.01,
    ]  # fmt: skip


def test_exemplars_lead_to_the_request(recorded: Recorded) -> None:
    request = chat(time_to_first_token_ns=1, time_per_output_token_ns=1)

    recorded.count(request)

    exemplars = [
        exemplar
        for points in recorded.points().values()
        for point in points
        for exemplar in point.exemplars
    ]
    assert len(exemplars) == 5
    assert {exemplar.trace_id for exemplar in exemplars} == {int(TRACE, 16)}
    assert {exemplar.span_id for exemplar in exemplars} == {int(request.span_id, 16)}


def test_a_revision_is_not_recorded_again(recorded: Recorded) -> None:
    recorded.count(chat(), chat(revision=2))

    assert {point.count for points in recorded.points().values() for point in points} == {1}


def test_health_routes_are_left_out(recorded: Recorded) -> None:
    recorded.count(chat(health=True))

    assert recorded.points() == {}


def test_a_request_of_neither_kind_has_its_stages_alone(recorded: Recorded) -> None:
    recorded.count(made_request(model=None))

    assert recorded.points().keys() == {STAGE}


def test_beyond_the_most_cohorts_requests_are_counted_as_overflow(recorded: Recorded) -> None:
    recorded.count(*(chat(route=f"GET /{number}") for number in range(5)), max_cohorts=2)

    over = {semconv.SERVICE_NAME: "overflow", semconv.METRIC_OVERFLOW: True}
    points = recorded.points()
    for name in (HTTP, GEN_AI):
        assert [point.count for point in points[name] if point.attributes == over] == [3]
    stages = {**over, semconv.STAGE: "unattributed"}
    assert [point.count for point in points[STAGE] if point.attributes == stages] == [3]


def test_beyond_the_most_attributes_requests_are_counted_as_overflow(recorded: Recorded) -> None:
    codes = [
        replace(CHAT, http=(*CHAT.http, (semconv.HTTP_RESPONSE_STATUS_CODE, code)))
        for code in range(200, 205)
    ]

    recorded.count(*(chat(metric_attributes=code) for code in codes), max_sets=2)

    over = {semconv.SERVICE_NAME: "rag", semconv.METRIC_OVERFLOW: True}
    points = recorded.points()[HTTP]
    assert sum(point.count for point in points) == 5
    assert [point.count for point in points if point.attributes == over] == [3]


def test_what_cannot_be_encoded_is_replaced(recorded: Recorded) -> None:
    recorded.count(chat(service="r\ud800g"))

    assert {
        (point.attributes or {})[semconv.SERVICE_NAME] for point in recorded.points()[HTTP]
    } == {"r?g"}
