"""Readings of GPUs, DCGM's too: the last values as metrics, the windows before for the join."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from latencytrace.analysis.gpu.bound import Peaks
from latencytrace.errors import ScrapeError
from latencytrace.model import semconv
from latencytrace.model.gpu import (
    GPU_METRICS,
    THROTTLING,
    BandwidthMethod,
    GpuDevice,
    GpuMetric,
    GpuWindow,
    Pipe,
)
from latencytrace.service.otlp.metrics import number, texts

_NAMES: Final = frozenset({"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"})
_PREFIX: Final = "DCGM_FI_"  # of all its names
_INSTANCE: Final = "GPU_I_ID"  # of a partitioned GPU: its own UUID is not shown


@dataclass(frozen=True, slots=True)
class DcgmReading:
    """The share of its memory's peak bandwidth that one GPU used."""

    uuid: str
    index: str
    name: str
    bandwidth_ratio: float


def dcgm_readings(text: str) -> tuple[DcgmReading, ...]:
    """Return the readings in the text of a `/metrics`, each GPU once; none in another's text.

    Raises:
        ScrapeError: It is the exporter's, and has no bandwidth of a whole GPU.
    """
    if _PREFIX not in text:
        return ()
    lines = (line for line in text.splitlines() if line.partition("{")[0] in _NAMES)
    found: dict[str, DcgmReading] = {}
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                reading = _reading(sample)
                if reading is not None:
                    found[reading.uuid] = reading
    except (ValueError, IndexError, KeyError) as error:
        raise ScrapeError(f"it answers with no metrics of Prometheus: {error}") from None
    if not found:
        raise ScrapeError(
            "this dcgm-exporter shows no bandwidth of a whole GPU: have it collect "
            "DCGM_FI_PROF_DRAM_ACTIVE"
        )
    return tuple(found.values())


def _reading(sample: Sample) -> DcgmReading | None:
    """None: it is of no whole GPU, or no number; DCGM leaves what it cannot read out."""
    labels, ratio = sample.labels, sample.value
    uuid = labels.get("UUID", "")
    if not uuid or labels.get(_INSTANCE) or not isfinite(ratio) or not 0 <= ratio <= 1:
        return None
    return DcgmReading(uuid, labels.get("gpu", ""), labels.get("modelName", ""), ratio)


MAX_GPUS: Final = 256
MAX_SERIES: Final = 100  # of one GPU
MAX_WINDOWS: Final = 200_000  # of all GPUs
KEPT_NS: Final = 3_600_000_000_000  # windows
SILENT_NS: Final = 30_000_000_000  # a value that is older is not shown
PREFIX: Final = "latencytrace_gpu"
_GPU: Final = ("gpu", "uuid", "name")
_METRICS: Final = {metric.value: metric for metric in GpuMetric}
_COLUMNS: Final = {
    (GpuMetric.BANDWIDTH_UTILIZATION, BandwidthMethod.GPM.value): "bandwidth_ratio",
    (GpuMetric.PIPE_ACTIVE, Pipe.TENSOR_ANY.value): "tensor_ratio",
    (GpuMetric.PIPE_ACTIVE, Pipe.FP32.value): "fp32_ratio",
    (GpuMetric.SM_ACTIVE, None): "sm_ratio",
    (GpuMetric.ENGINE_ACTIVE, None): "engine_ratio",
}

Key = tuple[GpuMetric, str | None]  # the value of its label


@dataclass(frozen=True, slots=True)
class Value:
    """The last value of one metric of a GPU."""

    value: float
    received_ns: int  # on the service's monotonic clock


@dataclass(slots=True)
class OpenWindow:
    """A window that still gets values."""

    start_ns: int = 0  # 0: no value yet that is a mean
    ratios: dict[str, float] = field(default_factory=dict)
    throttled: bool | None = None

    def closed(self, end_ns: int) -> GpuWindow:
        ratios = {column: self.ratios.get(column) for column in _COLUMNS.values()}
        return GpuWindow(start_ns=self.start_ns, end_ns=end_ns, throttled=self.throttled, **ratios)


@dataclass(slots=True)
class KnownGpu:
    """One GPU with its last values and its windows."""

    device: GpuDevice
    received_ns: int
    values: dict[Key, Value] = field(default_factory=dict)
    windows: deque[GpuWindow] = field(default_factory=deque)
    open: dict[int, OpenWindow] = field(default_factory=dict)  # by their end, of one request


class GpuReports(Collector):
    """Holds the last readings of GPUs; bounded in GPUs, series and windows.

    Args:
        now_ns: A monotonic clock.
        estimates: Show an upper bound of the bandwidth where it is not counted.
    """

    def __init__(self, now_ns: Callable[[], int], *, estimates: bool = False) -> None:
        self._now_ns = now_ns
        self._estimates = estimates
        self._gpus: dict[str, KnownGpu] = {}
        self._window_count = 0
        self.dropped = 0  # points over a bound, or that are no numbers

    def take(self, request: ExportMetricsServiceRequest) -> int:
        """Note what is read of GPUs in a request of metrics.

        Returns:
            How many data points that is.
        """
        taken = 0
        touched: dict[str, KnownGpu] = {}
        for of_resource in request.resource_metrics:
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    known = _METRICS.get(metric.name)
                    if known is not None:
                        taken += self._note(known, metric, touched)
        for gpu in touched.values():
            self._close_windows(gpu)
        return taken

    def receive(self, text: str) -> bool:
        """Note the GPUs in another exporter's `/metrics`; return whether there are any.

        It says nothing of when that was: such a value is shown, and is in no window.
        """
        readings = dcgm_readings(text)
        for reading in readings:
            about = {
                semconv.GPU_INDEX: reading.index,
                semconv.HW_NAME: reading.name,
                semconv.HW_VENDOR: "nvidia",
            }
            gpu = self._gpu(reading.uuid, about)
            if gpu is None:
                self.dropped += 1
                continue
            gpu.received_ns = self._now_ns()
            label = BandwidthMethod.DCGM.value
            values = {(GpuMetric.BANDWIDTH_UTILIZATION, label): reading.bandwidth_ratio}
            peak = self.peaks(reading.uuid).bytes_per_s
            if peak is not None:
                values[GpuMetric.BANDWIDTH, label] = reading.bandwidth_ratio * peak
            gpu.values |= {key: Value(value, gpu.received_ns) for key, value in values.items()}
        return bool(readings)

    def gpus(self) -> list[KnownGpu]:
        """The GPUs reported in the last hour, in order of machine-wide number."""
        latest_ns = self._now_ns() - KEPT_NS
        known = [gpu for gpu in list(self._gpus.values()) if gpu.received_ns >= latest_ns]
        return sorted(known, key=lambda gpu: (gpu.device.index, gpu.device.uuid))

    def windows(self, uuid: str) -> Sequence[GpuWindow]:
        """The windows that a GPU counted in the last hour, in order of time."""
        gpu = self._gpus.get(uuid)
        return tuple(gpu.windows) if gpu else ()

    def peaks(self, uuid: str) -> Peaks:
        gpu = self._gpus.get(uuid)
        values = gpu.values if gpu else {}
        memory = values.get((GpuMetric.BANDWIDTH_PEAK, None))
        tensor = values.get((GpuMetric.TENSOR_PEAK, None))
        return Peaks(
            bytes_per_s=memory.value if memory else None,
            flops_per_s=tensor.value if tensor else None,
        )

    def fresh(self, gpu: KnownGpu) -> Mapping[Key, float]:
        """The values of a GPU that were reported just now."""
        latest_ns = self._now_ns() - SILENT_NS
        fresh = {
            key: value.value
            for key, value in list(gpu.values.items())
            if value.received_ns >= latest_ns
        }
        return fresh | _estimated(fresh) if self._estimates else fresh

    def silent_ns(self, gpu: KnownGpu) -> int:
        """The time since a GPU was reported last."""
        return self._now_ns() - gpu.received_ns

    def collect(self) -> Iterator[MetricFamily]:
        """Read what is fresh."""
        shown = [(gpu, self.fresh(gpu)) for gpu in self.gpus()]
        for metric, form in GPU_METRICS.items():
            labels = (*_GPU, *([form.label] if form.label else []))
            kind = CounterMetricFamily if form.is_counter else GaugeMetricFamily
            family = kind(f"{PREFIX}_{form.prometheus}", form.text, labels=labels)
            for gpu, values in shown:
                about = (str(gpu.device.index), gpu.device.uuid, gpu.device.name)
                for (held, label), value in values.items():
                    if held is metric:
                        more = (label or "",) if form.label else ()
                        family.add_metric([*about, *more], value)
            if family.samples:
                yield family
        yield CounterMetricFamily(
            "latencytrace_service_gpu_points_dropped",
            "Readings of GPUs that were no numbers, or too many.",
            value=self.dropped,
        )

    def _note(self, metric: GpuMetric, sent: Metric, touched: dict[str, KnownGpu]) -> int:
        """Note one metric; returns how many points it had that are a GPU's."""
        taken = 0
        points = sent.gauge.data_points or sent.sum.data_points
        for point in points:
            about = texts(point.attributes)
            uuid = about.get(semconv.HW_ID)
            if uuid is None or about.get(semconv.HW_TYPE) != "gpu":
                continue  # `hw.power` and the like are reported of other hardware too
            taken += 1
            gpu = self._gpu(uuid, about)
            if gpu is None or not self._note_point(gpu, metric, about, point):
                self.dropped += 1
            else:
                touched[uuid] = gpu
        return taken

    def _gpu(self, uuid: str, about: Mapping[str, str]) -> KnownGpu | None:
        """The GPU that a point is of; None: there are too many."""
        gpu = self._gpus.get(uuid)
        if gpu is None:
            if len(self._gpus) >= MAX_GPUS and not self._forget_one():
                return None
            index = about.get(semconv.GPU_INDEX, "")
            device = GpuDevice(
                uuid=uuid,
                index=int(index) if index.isdecimal() else 0,
                name=about.get(semconv.HW_NAME, ""),
                vendor=about.get(semconv.HW_VENDOR, ""),
                driver=about.get(semconv.HW_DRIVER_VERSION),
                parent_uuid=about.get(semconv.HW_PARENT),
            )
            gpu = self._gpus[uuid] = KnownGpu(device, self._now_ns())
        return gpu

    def _forget_one(self) -> bool:
        """Make room, if there is a GPU that is reported no more."""
        uuid, gpu = min(self._gpus.items(), key=lambda item: item[1].received_ns)
        if self._now_ns() - gpu.received_ns < SILENT_NS:
            return False
        self._window_count -= len(gpu.windows)
        del self._gpus[uuid]
        return True

    def _note_point(
        self, gpu: KnownGpu, metric: GpuMetric, about: Mapping[str, str], point: NumberDataPoint
    ) -> bool:
        value = number(point)
        form = GPU_METRICS[metric]
        if not math.isfinite(value) or value < 0 or (form.unit == "1" and value > 1):
            return False
        label = about.get(form.attribute) if form.attribute else None
        key = (metric, label)
        if key not in gpu.values and len(gpu.values) >= MAX_SERIES:
            return False
        gpu.received_ns = self._now_ns()
        gpu.values[key] = Value(value, gpu.received_ns)
        _add_to_window(gpu, key, value, point)
        return True

    def _close_windows(self, gpu: KnownGpu) -> None:
        """Keep the windows of a request, in order; what was sent twice is kept once."""
        last_ns = gpu.windows[-1].end_ns if gpu.windows else 0
        for end_ns, window in sorted(gpu.open.items()):
            if 0 < window.start_ns < end_ns and end_ns > last_ns:
                gpu.windows.append(window.closed(end_ns))
                self._window_count += 1
        gpu.open.clear()
        while gpu.windows and gpu.windows[0].end_ns < gpu.windows[-1].end_ns - KEPT_NS:
            gpu.windows.popleft()
            self._window_count -= 1
        while self._window_count > MAX_WINDOWS:
            max(self._gpus.values(), key=lambda held: len(held.windows)).windows.popleft()
            self._window_count -= 1


def _add_to_window(gpu: KnownGpu, key: Key, value: float, point: NumberDataPoint) -> None:
    """Put a value into the window that it is of; all of one sample have one end."""
    metric, label = key
    window = gpu.open.setdefault(point.time_unix_nano, OpenWindow())
    column = _COLUMNS.get(key)
    if column is not None:
        window.start_ns = point.start_time_unix_nano
        window.ratios[column] = value
    elif metric is GpuMetric.CLOCK_EVENT and label in THROTTLING:
        window.throttled = bool(window.throttled or value)


def _estimated(values: Mapping[Key, float]) -> dict[Key, float]:
    """At most so much was moved: as if all of the time that memory was busy were at its peak.

    Where it is counted, there is nothing to be estimated.
    """
    busy = values.get((GpuMetric.MEMORY_CONTROLLER_BUSY, None))
    if busy is None or of_metric(values, GpuMetric.BANDWIDTH_UTILIZATION):
        return {}
    label = BandwidthMethod.ESTIMATED.value
    found: dict[Key, float] = {(GpuMetric.BANDWIDTH_UTILIZATION, label): busy}
    peak = values.get((GpuMetric.BANDWIDTH_PEAK, None))
    if peak is not None:
        found[GpuMetric.BANDWIDTH, label] = busy * peak
    return found


def of_metric(values: Mapping[Key, float], metric: GpuMetric) -> dict[str, float]:
    return {label or "": value for (held, label), value in values.items() if held is metric}
