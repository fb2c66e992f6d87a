"""The documents of `GET /gpu`; what is unknown is null."""

from typing import Final

from typing_extensions import TypedDict

# In words: what bounds a kind of work, and the notes on it.
BOUND_BY: Final = {
    "compute": "arithmetic",
    "memory_bandwidth": "memory bandwidth",
    "copy": "copying",
    "launch_or_sync": "launching, or waiting for the GPU",
    "gpu_idle": "not the GPU: it was idle",
    "latency_or_mixed": "latency, or a mixture",
    "unknown": "unknown",
}
NOTES: Final = {
    "throttled": "clocks held down",
    "foreign_load": "others at work there",
    "queued": "waited for earlier work",
    "modelled": "modelled",
}


class BandwidthDocument(TypedDict):
    """The share of memory's bandwidth that is used, and the method that measured it."""

    method: str
    utilization_ratio: float
    bytes_per_second: float | None
    peak_bytes_per_second: float | None


class GpuDocument(TypedDict):
    """One GPU as it was read last; a value without a recent report is null or absent."""

    uuid: str
    index: int
    name: str
    vendor: str
    driver: str | None
    parent_uuid: str | None
    silent_ns: int  # since it was reported last
    bandwidth: BandwidthDocument | None
    kernel_active_ratio: float | None
    engine_active_ratio: float | None
    sm_active_ratio: float | None
    sm_occupancy_ratio: float | None
    pipes: dict[str, float]
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_watts: float | None
    energy_joules: float | None
    temperatures_celsius: dict[str, float]
    clocks_hertz: dict[str, float]
    clock_events: list[str]  # that hold its clocks down now
    pcie_bytes_per_second: dict[str, float]
    nvlink_bytes_per_second: dict[str, float]
    ecc_errors: dict[str, float]
    xid_errors: dict[str, float]


class UsedDocument(TypedDict):
    """A ratio and the half of its 95 % interval."""

    ratio: float
    error_ratio: float


class GpuStageDocument(TypedDict):
    """One kind of work on one GPU."""

    uuid: str
    service: str
    model: str
    stage: str
    bound: str
    confidence: str
    notes: list[str]
    spans: int
    wall_ns: int
    device_ns: int
    launch_ns: int
    queue_ns: int | None
    windows: int
    coverage_ratio: float
    used: dict[str, UsedDocument]
    modelled_bandwidth_ratio: float | None  # the least it can have used, by the model's weights
    modelled_tensor_ratio: float | None  # of the tensor cores, in half precision


class GpuColumnDocument(TypedDict):
    """A stretch of time of one GPU; a ratio is null where nothing was read."""

    since: str
    until: str
    sm_ratio: float | None
    bandwidth_ratio: float | None
    tensor_ratio: float | None
    engine_ratio: float | None
    throttled: bool  # clocks were held down at some time in it
    device_ns: int  # how long traced work ran there
    works: int  # spans whose work began in it


class GpuTimelineDocument(TypedDict):
    """One GPU over the last hour."""

    uuid: str
    since: str
    until: str
    column_ns: int
    columns: list[GpuColumnDocument]


class GpuTimelinesDocument(TypedDict):
    """`GET /gpu/timeline`: the GPUs that were read or had traced work."""

    gpus: list[GpuTimelineDocument]


class GpusDocument(TypedDict):
    """`GET /gpu`."""

    gpus: list[GpuDocument]
    stages: list[GpuStageDocument]
