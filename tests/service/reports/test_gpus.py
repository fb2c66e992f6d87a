"""The service keeps the GPU readings of agents."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.model.gpu import GpuMetric, GpuWindow, Reading
from latencytrace.service.reports.gpu_samplers import MetricReports
from latencytrace.service.reports.gpus import KEPT_NS, MAX_GPUS, MAX_SERIES, SILENT_NS, GpuReports
from tests.support.builders.gpu_requests import INTERVAL_NS, SECOND_NS, request, sample
from tests.support.fakes.contracts import GPU, FakeClock

LABELS = {"gpu": "0", "uuid": "GPU-a", "name": "NVIDIA H200"}
BANDWIDTH = "latencytrace_gpu_memory_bandwidth_utilization_ratio"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000 * SECOND_NS)


@pytest.fixture
def gpus(clock: FakeClock) -> GpuReports:
    return GpuReports(clock)


def shown(gpus: GpuReports) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(gpus)
    return registry


def test_the_last_values_are_metrics_with_their_method(gpus: GpuReports) -> None:
    gpus.take(request([sample(1, 0.4), sample(2, 0.61)]))

    metrics = shown(gpus)
    assert metrics.get_sample_value(BANDWIDTH, {**LABELS, "method": "gpm"}) == 0.61
    assert metrics.get_sample_value("latencytrace_gpu_power_watts", LABELS) == 250
    assert metrics.get_sample_value("latencytrace_gpu_energy_joules_total", LABELS) == 500
    event = {**LABELS, "reason": "sw_power_cap"}
    assert metrics.get_sample_value("latencytrace_gpu_clock_event_active", event) == 1


def test_every_window_is_kept_in_order_and_once(gpus: GpuReports) -> None:
    gpus.take(request([sample(2), sample(1)]))
    gpus.take(request([sample(2), sample(3, 0.1)]))

    first, _, last = gpus.windows("GPU-a")
    assert first == GpuWindow(
        start_ns=SECOND_NS,
        end_ns=SECOND_NS + INTERVAL_NS,
        bandwidth_ratio=0.61,
        tensor_ratio=0.05,
        engine_ratio=0.9,
        throttled=True,
    )
    assert last.bandwidth_ratio == 0.1


def test_a_sample_without_a_window_makes_none(gpus: GpuReports) -> None:
    gpus.take(request([replace(sample(), start_ns=None)]))

    assert gpus.windows("GPU-a") == ()


def test_a_gpu_that_fell_silent_is_not_shown_as_it_was(gpus: GpuReports, clock: FakeClock) -> None:
    gpus.take(request([sample()]))

    clock.now_ns += SILENT_NS + 1

    assert shown(gpus).get_sample_value("latencytrace_gpu_power_watts", LABELS) is None
    assert [gpu.device for gpu in gpus.gpus()] == [GPU]


def test_what_is_no_ratio_is_dropped_and_counted(gpus: GpuReports) -> None:
    gpus.take(request([sample(1, float("nan")), sample(2, 1.7), sample(3, -0.1)]))

    metrics = shown(gpus)
    assert metrics.get_sample_value(BANDWIDTH, {**LABELS, "method": "gpm"}) is None
    assert metrics.get_sample_value("latencytrace_service_gpu_points_dropped_total") == 3


def test_gpus_and_their_series_are_bounded(gpus: GpuReports, clock: FakeClock) -> None:
    many = [replace(GPU, uuid=f"GPU-{at}") for at in range(MAX_GPUS + 10)]
    xids = (Reading(GpuMetric.XID_ERRORS, 1.0, str(at)) for at in range(MAX_SERIES + 10))
    gpus.take(request([sample(1, 0.5, device) for device in many]))
    known = len(gpus.gpus())
    clock.now_ns += SILENT_NS

    gpus.take(request([sample(1, 0.5, replace(GPU, uuid="new"), *xids)]))

    assert known == MAX_GPUS
    (new,) = (gpu for gpu in gpus.gpus() if gpu.device.uuid == "new")
    assert len(new.values) == MAX_SERIES
    assert gpus.dropped > 0


def test_windows_are_kept_for_an_hour(gpus: GpuReports) -> None:
    late = KEPT_NS // INTERVAL_NS + 5

    gpus.take(request([sample(1), sample(2), sample(late)]))

    assert [window.end_ns for window in gpus.windows("GPU-a")] == [SECOND_NS + late * INTERVAL_NS]


def test_the_same_metrics_of_other_hardware_are_not_a_gpus(clock: FakeClock) -> None:
    sent = request([sample()])
    for metric in sent.resource_metrics[0].scope_metrics[0].metrics:
        for point in [*metric.gauge.data_points, *metric.sum.data_points]:
            del point.attributes[:]
            point.attributes.add(key="hw.type").value.string_value = "fan"
    reports = MetricReports.of(clock)

    assert reports.take(sent) == 6


def test_how_the_sampling_goes_is_shown_and_nothing_of_it_ignored(clock: FakeClock) -> None:
    reports = MetricReports.of(clock)
    state = SamplerState(ticks=9, tick_ns=1_500_000, interval_ns=INTERVAL_NS)
    state.errors["nvmlDeviceGetPowerUsage", "no_permission"] = 1

    ignored = reports.take(request([sample()], state))

    registry = CollectorRegistry()
    registry.register(reports)
    about = {"service": "rag", "agent": "rag-1"}
    error = {**about, "call": "nvmlDeviceGetPowerUsage", "error": "no_permission"}
    assert ignored == 0
    assert registry.get_sample_value("latencytrace_gpu_sampler_tick_seconds", about) == 0.0015
    assert registry.get_sample_value("latencytrace_gpu_sampler_interval_seconds", about) == 0.2
    assert registry.get_sample_value("latencytrace_gpu_sampler_errors_total", error) == 1
    assert registry.get_sample_value("latencytrace_service_data_points_ignored_total") == 0
