"""Requests of metrics as the agent encodes them."""

from collections.abc import Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from latencytrace.agent.export.transport import Response
from latencytrace.agent.gpu.report import GpuReport
from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.model.gpu import (
    GPU_METRICS,
    BandwidthMethod,
    ClockEvent,
    GpuDevice,
    GpuMetric,
    GpuSample,
    Pipe,
    Reading,
)
from tests.support.fakes.contracts import GPU, FakeClock

SECOND_NS = 1_000_000_000
INTERVAL_NS = 200_000_000


class KeepingSender:
    """Takes everything."""

    url = "http://keeps"

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """See `Sender.send`."""
        self.bodies.append(body)
        return Response(200, "OK", None)

    def close(self) -> None:
        """See `Sender.close`."""


def request(
    samples: Sequence[GpuSample], state: SamplerState | None = None
) -> ExportMetricsServiceRequest:
    """A report of an agent with these."""
    sender = KeepingSender()
    about = {"service.name": "rag", "service.instance.id": "rag-1"}
    report = GpuReport(about, sender, FakeClock(60 * SECOND_NS))
    report.add(samples)
    report.send(state or SamplerState())
    (body,) = sender.bodies
    return ExportMetricsServiceRequest.FromString(body)


def sample(
    at: int = 1, bandwidth: float = 0.61, device: GpuDevice = GPU, *more: Reading
) -> GpuSample:
    """The sample at a tick."""
    return GpuSample(
        device=device,
        start_ns=SECOND_NS + (at - 1) * INTERVAL_NS,
        end_ns=SECOND_NS + at * INTERVAL_NS,
        readings=(
            Reading(GpuMetric.BANDWIDTH_UTILIZATION, bandwidth, BandwidthMethod.GPM),
            Reading(GpuMetric.PIPE_ACTIVE, 0.05, Pipe.TENSOR_ANY),
            Reading(GpuMetric.ENGINE_ACTIVE, 0.9),
            Reading(GpuMetric.CLOCK_EVENT, 1.0, ClockEvent.SW_POWER_CAP),
            Reading(GpuMetric.POWER, 250.0),
            Reading(GpuMetric.ENERGY, 500.0),
            *more,
        ),
    )


def whole_sample() -> GpuSample:
    """A sample in which every metric was read."""
    known = {reading.metric for reading in sample().readings}
    more = (
        Reading(metric, 0.5, form.label and "one of them")
        for metric, form in GPU_METRICS.items()
        if metric not in known
    )
    return sample(1, 0.61, GPU, *more)
