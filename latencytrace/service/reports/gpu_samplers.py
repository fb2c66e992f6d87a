"""The state of reading GPUs, by the agent that reads: `latencytrace_gpu_sampler_*`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from latencytrace.model import semconv
from latencytrace.service.otlp.metrics import number, texts
from latencytrace.service.reports.agents import AgentReports
from latencytrace.service.reports.gpus import GpuReports

MAX_SAMPLERS: Final = 500
MAX_ERRORS: Final = 50  # kinds of them, of one sampler
SILENT_NS: Final = 60_000_000_000
_SAMPLER: Final = ("service", "agent")
_GAUGES: Final = {
    semconv.GPU_SAMPLER_TICK: ("tick", "What reading all GPUs once took last."),
    semconv.GPU_SAMPLER_INTERVAL: ("interval", "Between two readings now; longer when slow."),
    semconv.GPU_SAMPLER_STUCK: ("stuck", "Since when a call into the driver does not return."),
}


@dataclass(slots=True)
class _Sampler:
    received_ns: int
    gauges: dict[str, float] = field(default_factory=dict)
    errors: dict[tuple[str, str], float] = field(default_factory=dict)


class GpuSamplerReports(Collector):
    """Holds the last report of each sampler; bounded.

    Args:
        now_ns: A monotonic clock.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._samplers: dict[tuple[str, str], _Sampler] = {}

    def take(self, request: ExportMetricsServiceRequest) -> int:
        """Note the reports in a request of metrics.

        Returns:
            How many data points they have.
        """
        taken = 0
        for of_resource in request.resource_metrics:
            sampler = _Sampler(self._now_ns())
            for of_scope in of_resource.scope_metrics:
                taken += sum(_note(sampler, metric) for metric in of_scope.metrics)
            if sampler.gauges:
                about = texts(of_resource.resource.attributes)
                key = (about.get("service.name", ""), about.get("service.instance.id", ""))
                self._samplers.pop(key, None)
                self._samplers[key] = sampler  # the one that reported last stands last
        while len(self._samplers) > MAX_SAMPLERS:
            del self._samplers[next(iter(self._samplers))]
        return taken

    def collect(self) -> Iterator[MetricFamily]:
        latest_ns = self._now_ns() - SILENT_NS
        live = [item for item in list(self._samplers.items()) if item[1].received_ns >= latest_ns]
        for name, (short, text) in _GAUGES.items():
            family = GaugeMetricFamily(
                f"latencytrace_gpu_sampler_{short}_seconds", text, labels=_SAMPLER
            )
            for key, sampler in live:
                if name in sampler.gauges:
                    family.add_metric(key, sampler.gauges[name])
            yield family
        errors = CounterMetricFamily(
            "latencytrace_gpu_sampler_errors",
            "Calls into the driver that failed.",
            labels=(*_SAMPLER, "call", "error"),
        )
        for key, sampler in live:
            for kind, times in sampler.errors.items():
                errors.add_metric([*key, *kind], times)
        yield errors


def _note(sampler: _Sampler, metric: Metric) -> int:
    """Note one metric; returns how many points it had."""
    points = metric.gauge.data_points or metric.sum.data_points
    if metric.name in _GAUGES:
        for point in points:
            sampler.gauges[metric.name] = number(point)
    elif metric.name == semconv.GPU_SAMPLER_ERRORS:
        for point in points[:MAX_ERRORS]:
            about = texts(point.attributes)
            kind = (about.get(semconv.GPU_SAMPLER_CALL, ""), about.get(semconv.ERROR_TYPE, ""))
            sampler.errors[kind] = number(point)
    else:
        return 0
    return len(points)


class MetricReports(Collector):
    """Gives each request of metrics to every collector that keeps some.

    Args:
        agents: Keeps what agents report on themselves.
        gpus: Keeps what is read of GPUs.
    """

    def __init__(
        self, agents: AgentReports, gpus: GpuReports, samplers: GpuSamplerReports
    ) -> None:
        self.agents = agents
        self.gpus = gpus
        self._samplers = samplers
        self._ignored = 0

    @classmethod
    def of(cls, now_ns: Callable[[], int], *, gpu_estimates: bool = False) -> Self:
        """All of them, on a monotonic clock."""
        gpus = GpuReports(now_ns, estimates=gpu_estimates)
        return cls(AgentReports(now_ns), gpus, GpuSamplerReports(now_ns))

    def take(self, request: ExportMetricsServiceRequest) -> int:
        """Keep what is known.

        Returns:
            How many data points are of other metrics, and are not kept.
        """
        taken = self.gpus.take(request) + self._samplers.take(request)
        ignored = self.agents.take(request) - taken
        self._ignored += ignored
        return ignored

    def collect(self) -> Iterator[MetricFamily]:
        yield CounterMetricFamily(
            "latencytrace_service_data_points_ignored",
            "Data points of metrics that are not kept.",
            value=self._ignored,
        )
        yield from self.agents.collect()
        yield from self.gpus.collect()
        yield from self._samplers.collect()
