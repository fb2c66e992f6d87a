"""The metrics that senders post, each with the part that keeps them."""

from collections.abc import Callable, Iterator
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from latencytrace.service.reports.agents import AgentReports
from latencytrace.service.reports.gpu_samplers import GpuSamplerReports
from latencytrace.service.reports.gpus import GpuReports


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
