"""Last readings of GPUs as Prometheus reads them; loaded only where one may ask."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.model.gpu.sample import GPU_METRICS, GpuDevice, GpuMetric

_PREFIX = "latencytrace_gpu"
_LABELS = ("gpu", "uuid", "name")

Value = tuple[GpuDevice, GpuMetric, str | None, float]  # with the value of the metric's label


def exposition(values: Sequence[Value], state: SamplerState) -> bytes:
    """The text of a `/metrics`.

    Args:
        values: Of all GPUs, each metric and label once.
        state: How reading them goes.
    """
    registry = CollectorRegistry()
    registry.register(_Shown([*_metrics(values), *_state_metrics(state)]))
    return generate_latest(registry)


class _Shown(Collector):
    """These metrics."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _metrics(values: Sequence[Value]) -> Iterator[Metric]:
    of_metric: dict[GpuMetric, list[Value]] = {}
    for value in values:
        of_metric.setdefault(value[1], []).append(value)
    for metric, held in of_metric.items():
        form = GPU_METRICS[metric]
        labels = (*_LABELS, *([form.label] if form.label else []))
        kind = CounterMetricFamily if form.is_counter else GaugeMetricFamily
        family = kind(f"{_PREFIX}_{form.prometheus}", form.text, labels=labels)
        for device, _, label, read in held:
            more = [str(label or "")] if form.label else []
            family.add_metric([str(device.index), device.uuid, device.name, *more], read)
        yield family


def _state_metrics(state: SamplerState) -> Iterator[Metric]:
    seconds: Mapping[str, tuple[int, str]] = {
        "tick": (state.tick_ns, "What reading all GPUs once took."),
        "interval": (state.interval_ns, "Time between two readings."),
    }
    for name, (length_ns, text) in seconds.items():
        yield GaugeMetricFamily(f"{_PREFIX}_sampler_{name}_seconds", text, value=length_ns / 1e9)
    errors = CounterMetricFamily(
        f"{_PREFIX}_sampler_errors", "Calls of the driver that failed.", labels=("call", "error")
    )
    for (call, error), times in state.errors.items():
        errors.add_metric([call, error], times)
    yield errors
