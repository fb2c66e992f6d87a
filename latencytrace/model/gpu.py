"""Readings of a GPU, of any vendor: devices, metrics, samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from latencytrace.model.span import Span
from latencytrace.model.stage import Stage


class ShareBasis(StrEnum):
    """The basis on which the shares of a step's members are estimated."""

    TOKENS = "tokens"  # in proportion to the tokens that each brought
    EQUAL = "equal"  # one part each


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMember:
    """A request's part in a step."""

    trace_id: str
    span_id: str  # what the step was to it, in its own trace
    span: Span | None  # that span; None: it is not there, only the step's link to it
    tokens: int | None  # that it brought; None: not reported
    share_ns: int  # the estimate of what it cost


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStep:
    """A batch or a decode step; the shares add up to `wall_ns` exactly."""

    span: Span
    stage: Stage
    size: int  # members, those unknown included
    tokens: int | None  # of all of them
    wall_ns: int
    basis: ShareBasis
    members: tuple[StepMember, ...]  # the largest share first
    unknown_members: int  # that the step counted, and no link leads to
    unknown_share_ns: int  # theirs together; of a step without members all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWindow:
    """Means over `[start_ns, end_ns)` of one GPU, as ratios; None: not read."""

    start_ns: int
    end_ns: int
    bandwidth_ratio: float | None = None  # of memory's peak
    tensor_ratio: float | None = None
    fp32_ratio: float | None = None
    sm_ratio: float | None = None
    engine_ratio: float | None = None  # of time with work, of whomever
    throttled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWork:
    """The work that one span had a GPU do, as the device timer measured it."""

    trace_id: str
    span_id: str
    service: str
    model: str | None
    stage: Stage
    gpu: str  # its UUID
    start_ns: int  # Unix time: of the first work on the device
    end_ns: int  # of the last
    device_ns: int  # how long the device worked in between, the gaps between passes left out
    wall_ns: int  # of the span
    launch_ns: int  # how long the host took to hand the work over
    queue_ns: int | None = None  # how long the work waited for earlier work of the device
    error_ns: int | None = None  # by how much start and end may be wrong
    moved_bytes: int | None = None  # of weights, at the least; None: not known
    flops: int | None = None  # operations in half precision, at the least; None: not known


class BandwidthMethod(StrEnum):
    """The source of a memory bandwidth; it is given with every such number."""

    GPM = "gpm"  # counted by the device, read through NVML
    DCGM = "dcgm"  # counted by the device, read by NVIDIA's own exporter
    MODELLED = "modelled"  # the bytes a stage must move by its device time: a lower bound
    ESTIMATED = "estimated"  # the time the memory was busy by its peak: an upper bound


class Pipe(StrEnum):
    """Parts of a multiprocessor that can be busy."""

    TENSOR_ANY = "tensor_any"
    TENSOR_HMMA = "tensor_hmma"  # half precision
    TENSOR_IMMA = "tensor_imma"  # integers
    FP16 = "fp16"
    FP32 = "fp32"
    FP64 = "fp64"
    INT = "int"


class ClockEvent(StrEnum):
    """Reasons for which a GPU's clocks are lower than they could be."""

    IDLE = "idle"
    APPLICATION_CLOCKS = "application_clocks"
    SW_POWER_CAP = "sw_power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL = "sw_thermal"
    HW_THERMAL = "hw_thermal"
    HW_POWER_BRAKE = "hw_power_brake"
    DISPLAY_CLOCKS = "display_clocks"


THROTTLING = frozenset(
    {
        ClockEvent.SW_POWER_CAP,
        ClockEvent.HW_SLOWDOWN,
        ClockEvent.SW_THERMAL,
        ClockEvent.HW_THERMAL,
        ClockEvent.HW_POWER_BRAKE,
    }
)


class GpuMetric(StrEnum):
    """Metrics of a GPU by their OTLP names: OpenTelemetry's where they exist."""

    KERNEL_ACTIVE = "hw.gpu.utilization"
    MEMORY_CONTROLLER_BUSY = "latencytrace.gpu.memory.controller.busy"
    ENGINE_ACTIVE = "latencytrace.gpu.engine.active"
    SM_ACTIVE = "latencytrace.gpu.sm.active"
    SM_OCCUPANCY = "latencytrace.gpu.sm.occupancy"
    PIPE_ACTIVE = "latencytrace.gpu.pipe.active"
    BANDWIDTH_UTILIZATION = "latencytrace.gpu.memory.bandwidth.utilization"
    BANDWIDTH = "latencytrace.gpu.memory.bandwidth"
    BANDWIDTH_PEAK = "latencytrace.gpu.memory.bandwidth.peak"
    TENSOR_PEAK = "latencytrace.gpu.tensor.peak"
    PCIE = "latencytrace.gpu.pcie.bandwidth"
    NVLINK = "latencytrace.gpu.nvlink.bandwidth"
    MEMORY_USED = "hw.gpu.memory.usage"
    MEMORY_RESERVED = "latencytrace.gpu.memory.reserved"
    MEMORY_TOTAL = "hw.gpu.memory.limit"
    POWER = "hw.power"
    ENERGY = "hw.energy"
    TEMPERATURE = "hw.temperature"
    CLOCK = "latencytrace.gpu.clock"
    CLOCK_EVENT = "latencytrace.gpu.clock.event"
    ECC_ERRORS = "hw.errors"
    XID_ERRORS = "latencytrace.gpu.xid"


@dataclass(frozen=True, slots=True)
class MetricForm:
    """The form of a metric: in OTLP, and for Prometheus behind `latencytrace_gpu_`."""

    prometheus: str
    unit: str  # of UCUM
    text: str
    label: str | None = None  # for Prometheus
    attribute: str | None = None  # the same in OTLP
    is_counter: bool = False
    adds_up: bool = False  # over devices, though it goes up and down: OTLP's sum, no gauge
    is_mean: bool = False  # over the window of its sample; else of the window's end


GPU_METRICS: Mapping[GpuMetric, MetricForm] = {
    GpuMetric.KERNEL_ACTIVE: MetricForm(
        "kernel_active_ratio", "1", "Share of time in which any kernel ran, however small."
    ),
    GpuMetric.MEMORY_CONTROLLER_BUSY: MetricForm(
        "memory_controller_busy_ratio",
        "1",
        "Share of time in which device memory was accessed; no bandwidth.",
    ),
    GpuMetric.ENGINE_ACTIVE: MetricForm(
        "engine_active_ratio",
        "1",
        "Share of time in which the compute engine had work.",
        is_mean=True,
    ),
    GpuMetric.SM_ACTIVE: MetricForm(
        "sm_active_ratio",
        "1",
        "Multiprocessors that had work, mean over the window.",
        is_mean=True,
    ),
    GpuMetric.SM_OCCUPANCY: MetricForm(
        "sm_occupancy_ratio",
        "1",
        "Warps resident of those that fit, mean over the window.",
        is_mean=True,
    ),
    GpuMetric.PIPE_ACTIVE: MetricForm(
        "pipe_active_ratio",
        "1",
        "Share of cycles in which a pipe worked.",
        "pipe",
        "latencytrace.gpu.pipe",
        is_mean=True,
    ),
    GpuMetric.BANDWIDTH_UTILIZATION: MetricForm(
        "memory_bandwidth_utilization_ratio",
        "1",
        "Bytes moved to and from device memory, of its peak.",
        "method",
        "latencytrace.gpu.method",
        is_mean=True,
    ),
    GpuMetric.BANDWIDTH: MetricForm(
        "memory_bandwidth_bytes_per_second",
        "By/s",
        "Bytes moved to and from device memory.",
        "method",
        "latencytrace.gpu.method",
        is_mean=True,
    ),
    GpuMetric.BANDWIDTH_PEAK: MetricForm(
        "memory_bandwidth_peak_bytes_per_second",
        "By/s",
        "What device memory could move at its highest clock.",
    ),
    GpuMetric.TENSOR_PEAK: MetricForm(
        "tensor_peak_operations_per_second",
        "{operation}/s",
        "What tensor cores could do in half precision, dense, at the highest clock.",
    ),
    GpuMetric.PCIE: MetricForm(
        "pcie_bytes_per_second",
        "By/s",
        "Bytes over PCIe.",
        "direction",
        "network.io.direction",
        is_mean=True,
    ),
    GpuMetric.NVLINK: MetricForm(
        "nvlink_bytes_per_second",
        "By/s",
        "Bytes over NVLink.",
        "direction",
        "network.io.direction",
        is_mean=True,
    ),
    GpuMetric.MEMORY_USED: MetricForm(
        "memory_used_bytes", "By", "Device memory allocated.", adds_up=True
    ),
    GpuMetric.MEMORY_RESERVED: MetricForm(
        "memory_reserved_bytes", "By", "Device memory that the driver keeps."
    ),
    GpuMetric.MEMORY_TOTAL: MetricForm(
        "memory_total_bytes", "By", "Device memory there is.", adds_up=True
    ),
    GpuMetric.POWER: MetricForm("power_watts", "W", "Power drawn now, as the device averages it."),
    GpuMetric.ENERGY: MetricForm(
        "energy_joules", "J", "Energy used since the driver was loaded.", is_counter=True
    ),
    GpuMetric.TEMPERATURE: MetricForm(
        "temperature_celsius", "Cel", "Temperature.", "sensor", "hw.sensor_location"
    ),
    GpuMetric.CLOCK: MetricForm(
        "clock_hertz", "Hz", "Clocks.", "domain", "latencytrace.gpu.clock.domain"
    ),
    GpuMetric.CLOCK_EVENT: MetricForm(
        "clock_event_active",
        "1",
        "1: clocks are lowered for this reason now.",
        "reason",
        "latencytrace.gpu.clock.reason",
    ),
    GpuMetric.ECC_ERRORS: MetricForm(
        "ecc_errors",
        "{error}",
        "Memory errors since the driver was loaded.",
        "type",
        "error.type",
        is_counter=True,
    ),
    GpuMetric.XID_ERRORS: MetricForm(
        "xid_errors",
        "{error}",
        "Faults that the driver reported, since sampling began.",
        "xid",
        "latencytrace.gpu.xid.code",
        is_counter=True,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """One GPU, or one instance of a partitioned GPU."""

    uuid: str
    index: int  # among the GPUs that the driver shows, which need not be the program's numbering
    name: str
    vendor: str
    driver: str | None = None
    parent_uuid: str | None = None  # the GPU that this is an instance of


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one metric; what could not be read is not there at all."""

    metric: GpuMetric
    value: float
    label: str | None = None  # the value of the metric's one label


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One reading of one GPU; what is a mean is one over `[start_ns, end_ns)`."""

    device: GpuDevice
    start_ns: int | None  # Unix time; None: nothing in it is a mean over a window
    end_ns: int
    readings: tuple[Reading, ...]

    def value(self, metric: GpuMetric, label: str | None = None) -> float | None:
        """One of its values; None: it was not read."""
        return next(
            (
                reading.value
                for reading in self.readings
                if reading.metric is metric and reading.label == label
            ),
            None,
        )
