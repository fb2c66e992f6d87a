"""What the agent reports on itself, to a real receiver."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric

import latencytrace
from latencytrace.agent.budget.keeper import Overhead
from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.reporting.self_report import Report, SelfReport
from latencytrace.agent.timing.patching import HookState, HookStatus
from latencytrace.model import semconv
from latencytrace.settings import agent_settings
from tests.support.agent.receiving import Receiver, attributes_of, metrics
from tests.support.fakes.contracts import FakeClock
from tests.support.servers.ports import free_port
from tests.support.waiting import until

SECOND_NS = 1_000_000_000
HOOKS = (
    HookStatus(name="httpx", state=HookState.APPLIED),
    HookStatus(name="qdrant", state=HookState.REFUSED, reason="not found: x.y"),
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def self_report(url: str, clock: FakeClock) -> SelfReport:
    return SelfReport({"service.name": "rag"}, HttpSender(url, {}, 5.0), clock)


def report(sent: int = 7) -> Report:
    return Report(provider="ours", sent=sent, dropped=2, faults=1, hooks=HOOKS)


def test_the_stock_classes_read_what_it_says(receiver: Receiver, clock: FakeClock) -> None:
    sender = self_report(f"{receiver.endpoint}/v1/metrics", clock)

    sender.send(report())
    sender.close()

    (request,) = receiver.reports
    found = metrics(request)
    sums = {
        name: metric.sum.data_points[0].as_int for name, metric in found.items() if _sum(metric)
    }
    resource = attributes_of(request.resource_metrics[0].resource.attributes)
    assert resource == {"service.name": "rag"}
    assert sums == {
        semconv.AGENT_SPANS_SENT: 7,
        semconv.AGENT_SPANS_DROPPED: 2,
        semconv.AGENT_FAULTS: 1,
        semconv.AGENT_CPU_NS: 0,
        semconv.AGENT_REQUESTS: 0,
    }
    assert [attributes_of(p.attributes) for p in found[semconv.AGENT_HOOK].gauge.data_points] == [
        {semconv.HOOK: "httpx", semconv.HOOK_STATE: "applied"},
        {
            semconv.HOOK: "qdrant",
            semconv.HOOK_STATE: "refused",
            semconv.HOOK_REASON: "not found: x.y",
        },
    ]


def test_a_report_says_what_is_left_out_to_keep_the_budget(
    receiver: Receiver, clock: FakeClock
) -> None:
    overhead = Overhead(
        budget_ratio=0.01, share_ratio=0.02, step=5, sampling_ratio=0.25,
        requests=7, reduced_requests=3, control_requests=2, dropped_requests=20,
    )  # fmt: skip
    sender = self_report(f"{receiver.endpoint}/v1/metrics", clock)

    sender.send(replace(report(), overhead=overhead))
    sender.close()

    found = metrics(receiver.reports[0])
    gauges = {
        name: found[name].gauge.data_points[0].as_double
        for name in (semconv.AGENT_OVERHEAD, semconv.AGENT_BUDGET, semconv.AGENT_SAMPLING)
    }
    requests = {
        attributes_of(point.attributes)[semconv.DETAIL]: point.as_int
        for point in found[semconv.AGENT_REQUESTS].sum.data_points
    }
    assert list(gauges.values()) == [0.02, 0.01, 0.25]
    assert found[semconv.AGENT_REDUCTION].gauge.data_points[0].as_int == 5
    assert requests == {"full": 4, "reduced": 3, "server_span": 0, "control": 2, "dropped": 20}


def _sum(metric: Metric) -> bool:
    """Whether it is a counter since the start."""
    return (
        metric.sum.is_monotonic
        and metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    )


def test_a_change_is_reported_after_ten_seconds_and_nothing_new_after_sixty(
    receiver: Receiver, clock: FakeClock
) -> None:
    sender = self_report(f"{receiver.endpoint}/v1/metrics", clock)
    reported = []

    for at_s, sent in ((0, 1), (9.9, 2), (10, 2), (69, 2), (70, 2)):
        clock.now_ns = round(at_s * SECOND_NS)
        sender.send(report(sent))
        reported.append(len(receiver.reports))
    sender.close()

    assert reported == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("is_away", [False, True])
def test_where_nothing_changes_a_report_is_seldom_made(
    receiver: Receiver, clock: FakeClock, *, is_away: bool
) -> None:
    url = f"http://127.0.0.1:{free_port()}" if is_away else receiver.endpoint
    sender = self_report(f"{url}/v1/metrics", clock)
    made = []

    for half_seconds in range(120):  # a round each
        clock.now_ns = half_seconds * SECOND_NS // 2
        if sender.may_be_due:
            made.append(clock.now_ns // SECOND_NS)
            sender.send(report())
    sender.close()

    assert made == [0, *range(10, 60, 5)]


def test_a_receiver_of_traces_alone_is_asked_once(receiver: Receiver, clock: FakeClock) -> None:
    receiver.answers.append((404, {}))
    sender = self_report(f"{receiver.endpoint}/v1/traces", clock)

    sender.send(report())
    clock.move_s(1000)
    sender.send(report(8))

    assert (receiver.refused, receiver.posts) == (1, [])


def test_one_that_is_away_is_asked_again_a_minute_later(clock: FakeClock) -> None:
    port = free_port()
    sender = self_report(f"http://127.0.0.1:{port}/v1/metrics", clock)
    sender.send(report())

    with Receiver(port) as back:
        clock.move_s(59)
        sender.send(report(8))
        early = len(back.reports)
        clock.move_s(1)
        sender.send(report(8))
        sender.close()

        assert (early, len(back.reports)) == (0, 1)


def test_a_running_agent_says_what_it_has_done(receiver: Receiver) -> None:
    latencytrace.instrument("rag", endpoint=receiver.endpoint, hooks=["httpx"])
    try:
        with latencytrace.stage("rerank"):
            pass
        latencytrace.flush(60)
        until(lambda: bool(receiver.reports))
    finally:
        latencytrace.uninstrument()

    found = metrics(receiver.reports[0])
    (running,) = found[semconv.AGENT_RUNNING].gauge.data_points
    assert attributes_of(running.attributes) == {semconv.AGENT_PROVIDER: "ours"}
    assert found[semconv.AGENT_SPANS_SENT].sum.data_points[0].as_int == 1


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://127.0.0.1:4318/v1/metrics"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1/"}, "http://c:1/v1/metrics"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m/x"}, "http://m/x"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/v1/traces"}, None),
        ({"OTEL_METRICS_EXPORTER": "none"}, None),
    ],
)
def test_where_it_reports_to(environ: Mapping[str, str], url: str | None) -> None:
    assert agent_settings(environ=environ).metrics_url == url
