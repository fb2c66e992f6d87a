"""The documents of the JSON API, as far as pictures are drawn from them (DESIGN part 4)."""

from typing import NotRequired, TypedDict


class QuantilesDocument(TypedDict):
    """Mean and quantiles in nanoseconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


class StageDocument(TypedDict):
    """One row of a breakdown."""

    stage: str
    mean_ns: float
    share_ratio: float
    p50_ns: float
    p95_ns: float
    p99_ns: float
    requests: int


class LeftOutDocument(TypedDict):
    """Requests that a breakdown does not count."""

    health: int
    reduced_detail: int
    unsure: NotRequired[int]


class BreakdownDocument(TypedDict):
    """`GET /breakdown`."""

    requests: int
    attributed_ratio: float | None
    duration_ns: QuantilesDocument | None
    time_to_first_token_ns: QuantilesDocument | None
    time_per_output_token_ns: QuantilesDocument | None
    output_tokens_per_second: float | None
    stages: list[StageDocument]
    left_out: LeftOutDocument
    max_concurrency: NotRequired[int | None]


class SegmentDocument(TypedDict):
    """A stretch of the critical path."""

    start_ns: int
    end_ns: int
    stage: str
    span_id: str
    name: str


class LinkDocument(TypedDict):
    """A span that shared work."""

    trace_id: str
    span_id: str


class DeviceDocument(TypedDict):
    """What a span had a GPU do, relative to its request's start."""

    gpu: str
    start_ns: int
    end_ns: int
    device_ns: int
    launch_ns: int
    queue_ns: int | None
    error_ns: int | None


class SpanDocument(TypedDict):
    """One timed operation, relative to its request's start."""

    span_id: str
    parent_id: str | None
    name: str
    stage: str
    service: str
    instance: NotRequired[str | None]
    start_ns: int
    end_ns: int
    status: str
    attributes: NotRequired[dict[str, object]]
    links: NotRequired[list[LinkDocument]]
    device: NotRequired[DeviceDocument | None]


class RepairDocument(TypedDict):
    """What was mended in a trace."""

    kind: str
    span_id: str
    detail: str


class StepMemberDocument(TypedDict):
    """A request's part in a shared step."""

    trace_id: str
    service: str | None
    route: str | None
    tokens: int | None
    share_ns: int


class SharedStepDocument(TypedDict):
    """A shared step that held a request up."""

    span_id: str
    name: str
    stage: str
    wall_ns: int
    size: int | None
    basis: str | None
    held_up_ns: int
    share_ns: int | None
    largest_others: list[StepMemberDocument]


class InterTokenDocument(TypedDict):
    """The gaps between a request's tokens."""

    p50: int
    p99: int
    max: int


class StallDocument(TypedDict):
    """A gap between tokens that is too long."""

    start_ns: int
    duration_ns: int
    label: str


class RequestDocument(TypedDict):
    """`GET /requests/{trace_id}`; in lists without its spans."""

    trace_id: str
    span_id: str
    service: str
    route: str
    model: str | None
    version: str | None
    status: str
    start: str
    duration_ns: int
    revision: int
    time_to_first_token_ns: int | None
    time_per_output_token_ns: int | None
    input_tokens: int | None
    output_tokens: int | None
    ledger: dict[str, int]
    segments: list[SegmentDocument]
    spans: NotRequired[list[SpanDocument]]
    spans_kept: NotRequired[bool]
    shared_steps: NotRequired[list[SharedStepDocument]]
    shared_steps_left_out: NotRequired[int]
    inter_token_ns: NotRequired[InterTokenDocument | None]
    stalls: NotRequired[list[StallDocument] | None]
    network: NotRequired[dict[str, int]]
    busy: NotRequired[dict[str, int]]
    exclusive: NotRequired[dict[str, int]]
    repairs: list[RepairDocument]


class ServiceDocument(TypedDict):
    """One service of `GET /services`."""

    service: str
    routes: list[str]


class BandwidthDocument(TypedDict):
    """How much of memory's bandwidth is used, and how that is known."""

    method: str
    utilization_ratio: float
    bytes_per_second: float | None
    peak_bytes_per_second: float | None


class GpuDocument(TypedDict):
    """One GPU of `GET /gpu`."""

    uuid: str
    index: int
    name: str
    driver: str | None
    parent_uuid: str | None
    silent_ns: int
    bandwidth: BandwidthDocument | None
    kernel_active_ratio: float | None
    sm_active_ratio: float | None
    pipes: dict[str, float]
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_watts: float | None
    temperatures_celsius: dict[str, float]
    clocks_hertz: dict[str, float]
    clock_events: list[str]
    xid_errors: dict[str, float]


class UsedDocument(TypedDict):
    """A ratio and the half of its 95 % interval."""

    ratio: float
    error_ratio: float


class GpuStageDocument(TypedDict):
    """What one kind of work did on one GPU."""

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
    used: dict[str, UsedDocument]
    modelled_bandwidth_ratio: float | None


class GpusDocument(TypedDict):
    """`GET /gpu`."""

    gpus: list[GpuDocument]
    stages: list[GpuStageDocument]


class BurnRateDocument(TypedDict):
    """How fast the budget is spent in the two windows of a tier."""

    factor: float
    severity: str
    long_ns: int
    short_ns: int
    long: float | None
    short: float | None
    firing: bool


class ObjectiveDocument(TypedDict):
    """One of `GET /objectives`."""

    name: str
    display_name: str
    service: str
    route: str | None
    model: str | None
    version: str | None
    measure: str
    threshold_ns: int
    target_ratio: float
    period_ns: int
    requests: int
    bad_requests: int
    burn_rates: list[BurnRateDocument]
    budget_left_ratio: float | None
    exhaustion_ns: int | None


class BadRequestDocument(TypedDict):
    """A request that an alert shows."""

    trace_id: str
    summary: str


class AlertDocument(TypedDict):
    """One of `GET /alerts`."""

    labels: dict[str, str]
    summary: str
    description: list[str]
    started: str
    slowest: list[BadRequestDocument]
    url: str
