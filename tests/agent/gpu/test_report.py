"""Samples of GPUs on their way to a real receiver."""

from inspect import signature

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.semconv._incubating.metrics import hw_metrics

from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.gpu.report import KEPT_SAMPLES, GpuReport
from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.model import semconv
from latencytrace.model.gpu import BandwidthMethod, GpuMetric, GpuSample, Reading
from tests.support.agent.receiving import Receiver, attributes_of, metrics
from tests.support.fakes.contracts import GPU, FakeClock
from tests.support.servers.ports import free_port

SECOND_NS = 1_000_000_000
WINDOW = (SECOND_NS, SECOND_NS + SECOND_NS // 5)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(60 * SECOND_NS)


def gpu_report(url: str, clock: FakeClock) -> GpuReport:
    return GpuReport({"service.name": "rag"}, HttpSender(url, {}, 5.0), clock)


def sample(ratio: float = 0.61) -> GpuSample:
    return GpuSample(
        device=GPU,
        start_ns=WINDOW[0],
        end_ns=WINDOW[1],
        readings=(
            Reading(GpuMetric.BANDWIDTH_UTILIZATION, ratio, BandwidthMethod.GPM),
            Reading(GpuMetric.ENERGY, 12.5),
        ),
    )


def test_the_stock_classes_read_the_windows_it_sends(receiver: Receiver, clock: FakeClock) -> None:
    report = gpu_report(f"{receiver.endpoint}/v1/metrics", clock)

    report.add([sample()])
    report.send(SamplerState())
    report.close()

    found = metrics(receiver.reports[0])
    (point,) = found[GpuMetric.BANDWIDTH_UTILIZATION].gauge.data_points
    assert point.as_double == 0.61
    assert (point.start_time_unix_nano, point.time_unix_nano) == WINDOW
    assert attributes_of(point.attributes) == {
        "hw.id": "GPU-a",
        "hw.name": "NVIDIA H200",
        "hw.type": "gpu",
        "hw.vendor": "nvidia",
        "hw.driver_version": "580.1",
        "latencytrace.gpu.index": 0,
        "latencytrace.gpu.method": "gpm",
    }
    energy = found[GpuMetric.ENERGY]
    assert (energy.unit, energy.sum.is_monotonic) == ("J", True)
    assert energy.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE


@pytest.mark.parametrize("name", [metric for metric in GpuMetric if str(metric).startswith("hw.")])
def test_metrics_of_the_conventions_are_of_the_conventions_kind_and_unit(
    name: GpuMetric, receiver: Receiver, clock: FakeClock
) -> None:
    report = gpu_report(f"{receiver.endpoint}/v1/metrics", clock)
    reading = Reading(name, 1.0)

    report.add([GpuSample(device=GPU, start_ns=WINDOW[0], end_ns=WINDOW[1], readings=(reading,))])
    report.send(SamplerState())
    report.close()

    kind, unit = in_the_conventions(name)
    sent = metrics(receiver.reports[0])[name]
    assert (kind_of(sent), sent.unit) == (kind, unit)


def in_the_conventions(name: str) -> tuple[str, str]:
    """The kind and unit of a metric, from OpenTelemetry's own package."""
    made = getattr(hw_metrics, f"create_{name.replace('.', '_')}")
    callbacks = [()] if "callbacks" in signature(made).parameters else []
    instrument = made(MeterProvider(shutdown_on_exit=False).get_meter("test"), *callbacks)
    return signature(made).return_annotation.__name__, instrument.unit


def kind_of(metric: Metric) -> str:
    if metric.HasField("gauge"):
        return "ObservableGauge"
    assert metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    return "Counter" if metric.sum.is_monotonic else "UpDownCounter"


def test_samples_of_a_second_go_together(receiver: Receiver, clock: FakeClock) -> None:
    report = gpu_report(f"{receiver.endpoint}/v1/metrics", clock)

    for _ in range(10):
        report.add([sample()])
        report.send(SamplerState())
        clock.move_s(0.2)
    report.close()

    sent = [
        len(metrics(request)[GpuMetric.BANDWIDTH_UTILIZATION].gauge.data_points)
        for request in receiver.reports
    ]
    assert sent == [1, 5]


def test_it_says_how_the_sampling_goes(receiver: Receiver, clock: FakeClock) -> None:
    state = SamplerState(ticks=3, tick_ns=2_000_000, interval_ns=SECOND_NS)
    state.tick_since_ns = clock() - 61 * SECOND_NS
    state.errors["nvmlDeviceGetPowerUsage", "no_permission"] = 2
    report = gpu_report(f"{receiver.endpoint}/v1/metrics", clock)

    report.send(state)
    report.close()

    found = metrics(receiver.reports[0])
    assert found[semconv.GPU_SAMPLER_TICK].gauge.data_points[0].as_double == 0.002
    assert found[semconv.GPU_SAMPLER_STUCK].gauge.data_points[0].as_double == 61
    (errors,) = found[semconv.GPU_SAMPLER_ERRORS].sum.data_points
    assert errors.as_int == 2
    assert attributes_of(errors.attributes) == {
        semconv.GPU_SAMPLER_CALL: "nvmlDeviceGetPowerUsage",
        semconv.ERROR_TYPE: "no_permission",
    }


def test_a_process_that_reads_no_gpu_sends_nothing(receiver: Receiver, clock: FakeClock) -> None:
    report = gpu_report(f"{receiver.endpoint}/v1/metrics", clock)

    report.send(SamplerState())

    assert receiver.reports == []


def test_a_receiver_of_traces_alone_is_asked_once(receiver: Receiver, clock: FakeClock) -> None:
    receiver.answers.append((404, {}))
    report = gpu_report(f"{receiver.endpoint}/v1/traces", clock)

    report.add([sample()])
    report.send(SamplerState())
    clock.move_s(100)
    report.add([sample()])
    report.send(SamplerState())

    assert not report.is_taken
    assert (receiver.refused, receiver.posts) == (1, [])


def test_what_nobody_took_is_sent_later_in_order_and_bounded(clock: FakeClock) -> None:
    port = free_port()
    report = gpu_report(f"http://127.0.0.1:{port}/v1/metrics", clock)
    report.add([sample(0.1)])
    report.send(SamplerState())

    with Receiver(port) as back:
        clock.move_s(10)
        report.add([sample(0.2)])
        report.send(SamplerState())
        report.close()

        points = metrics(back.reports[0])[GpuMetric.BANDWIDTH_UTILIZATION].gauge.data_points
        assert [point.as_double for point in points] == [0.1, 0.2]


def test_more_than_can_be_kept_is_dropped_and_counted(clock: FakeClock) -> None:
    report = gpu_report("http://127.0.0.1:1/v1/metrics", clock)

    report.add([sample()] * (KEPT_SAMPLES + 5))

    assert report.dropped == 5
