"""The documents of the JSON API, typed for its OpenAPI description."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin

from typing_extensions import TypedDict, get_type_hints, is_typeddict

from latencytrace.model import FirstTokenOf, RequestStatus, ShareBasis, Stage
from latencytrace.model.detail import TraceDetail

_Document = TypeVar("_Document")


def document(kind: type[_Document], *sources: object, **others: object) -> _Document:
    """Make the document of a value: each field holds the attribute of the same name.

    Whole numbers are rounded, times by stage have the stages' plain names, `start` is `start_ns`
    where the value has no other (a text of it, if it is one), and values inside it become
    documents of their own.

    Args:
        kind: Type of the document; its fields keep their order.
        sources: The value, or several: the first that has an attribute gives it.
        others: Fields that no source has in this form.

    Raises:
        TypeError: A field has no source, or one of `others` is no field.
    """
    made = dict(others)
    for name, source, attribute, written in _fields(
        cast(type, kind), tuple(map(type, sources)), frozenset(others)
    ):
        if source is None:  # it is there, in its place in the order from now on
            made[name] = made.pop(name)
            continue
        value = getattr(sources[source], attribute)
        made[name] = value if value is None or written is None else written(value)
    return cast(_Document, made)


class _Field(NamedTuple):
    """A field of a document: the source that has it, which attribute, and how it is written."""

    name: str
    source: int | None = None
    attribute: str = ""
    written: Callable[[Any], object] | None = None  # None: as it is


@cache
def _fields(kind: type, sources: tuple[type, ...], others: frozenset[str]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    if unknown := others - hints.keys():
        raise TypeError(f"{kind.__name__} has no field {min(unknown)!r}")
    return tuple(
        _Field(name) if name in others else _found(kind, name, hint, sources)
        for name, hint in hints.items()
    )


def _found(kind: type, name: str, hint: object, sources: tuple[type, ...]) -> _Field:
    for source, its_type in enumerate(sources):
        known = {*dir(its_type), *getattr(its_type, "__dataclass_fields__", ())}
        if name in known:
            return _Field(name, source, name, _written(hint))
        if f"{name}_ns" in known:
            is_text = str in {hint, *get_args(hint)}
            return _Field(name, source, f"{name}_ns", str if is_text else _written(hint))
    raise TypeError(f"nothing has the field {name!r} of {kind.__name__}")


def _written(hint: object) -> Callable[[Any], object] | None:
    """Return the function that writes a value of a type; None: it is written as it is."""
    known = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) is list:
        each = _written(known[0])
        return list if each is None else lambda values: [each(one) for one in values]
    if get_origin(hint) is dict and known[0] is Stage:
        return lambda times_ns: by_stage(dict(times_ns))
    if get_origin(hint) is not None:  # a union: of a value and None, else it has no other form
        return _written(known[0]) if len(known) == 1 else None
    if is_typeddict(hint):
        return partial(document, cast(type, hint))
    return round if hint is int else None


def by_stage(times_ns: Mapping[Stage, float]) -> dict[Stage, int]:
    """Times by the stages' names: JSON is encoded fastest where each key is a plain text."""
    times = {stage.value: round(time_ns) for stage, time_ns in times_ns.items()}
    return cast("dict[Stage, int]", times)


def rounded(time_ns: float | None) -> int | None:
    """A time as documents have it."""
    return None if time_ns is None else round(time_ns)


class QuantilesDocument(TypedDict):
    """Mean and quantiles, integer nanoseconds."""

    mean: int
    p50: int
    p90: int
    p95: int
    p99: int
    p999: int


class StagePartDocument(TypedDict):
    """A named part of a stage, such as event-loop lag or a stage of the user's own."""

    name: str
    mean_ns: int
    share_ratio: float
    requests: int


class StageDocument(TypedDict):
    """One row of a breakdown; quantiles over the `requests` that have the stage."""

    stage: Stage
    mean_ns: int
    share_ratio: float
    p50_ns: int
    p95_ns: int
    p99_ns: int
    requests: int
    # Of `runtime` and `application` the longest; what they leave of `mean_ns` are others.
    parts: list[StagePartDocument]


class LeftOutDocument(TypedDict):
    """Requests that a breakdown does not count."""

    health: int
    startup: int  # what processes loaded before they served
    reduced_detail: int
    unsure: int  # asked for by an attribute, of requests that not all attributes are kept of


class WorkAfterDocument(TypedDict):
    """Work after the answers of the `requests` that had some."""

    requests: int
    mean_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    stages: dict[Stage, int]  # means, the longest first: they add up to `mean_ns`


class BreakdownDocument(TypedDict):
    """Time per stage of a cohort; the means add up to the mean duration."""

    requests: int
    attributed_ratio: float | None
    duration_ns: QuantilesDocument | None
    time_to_first_token_ns: QuantilesDocument | None
    first_tokens_of_model: int
    time_per_output_token_ns: QuantilesDocument | None
    output_tokens_per_second: float | None
    max_concurrency: int | None
    reduced_requests: int  # of which pauses, intervals or cheap calls were not recorded
    quantile_error_ratio: float  # 0: exact; more: from histograms, off by at most so much
    stages: list[StageDocument]
    after: WorkAfterDocument | None  # null: no request went on; no part of `stages`
    left_out: LeftOutDocument


class RouteBreakdownDocument(BreakdownDocument):
    """A breakdown of one route of a service."""

    service: str
    route: str


class RouteBreakdownsDocument(TypedDict):
    """The routes that took most time in all; `route_count` counts those left out as well."""

    routes: list[RouteBreakdownDocument]
    route_count: int


class SegmentDocument(TypedDict):
    """A stretch of the critical path, relative to the request's start."""

    start_ns: int
    end_ns: int
    stage: Stage
    span_id: str
    name: str


class RepairDocument(TypedDict):
    """A change that made a malformed trace well-formed."""

    kind: str
    span_id: str
    detail: str


class LinkDocument(TypedDict):
    """A span that shared work, possibly of another trace."""

    trace_id: str
    span_id: str
    attributes: dict[str, object]


class PlaceDocument(TypedDict):
    """The ids of a span of another trace."""

    trace_id: str
    span_id: str


class DeviceDocument(TypedDict):
    """The work of a span on a GPU, relative to the request's start."""

    gpu: str  # its UUID
    start_ns: int
    end_ns: int
    device_ns: int
    launch_ns: int
    queue_ns: int | None
    error_ns: int | None  # by how much start and end may be wrong


class SpanHeadDocument(TypedDict):
    """The part of a span that a waterfall shows, its times relative to the request's start."""

    span_id: str
    parent_id: str | None
    name: str
    stage: Stage
    service: str
    start_ns: int
    end_ns: int
    status: str
    error_type: str | None  # of its exception, or what its `error.type` says; never a message
    attributes: Mapping[str, object]


class SpanDocument(SpanHeadDocument):
    """One timed operation on the request's clock, relative to its start, clipped to nothing."""

    instance: str | None
    links: list[LinkDocument]
    device: DeviceDocument | None  # what it had a GPU do


class StepMemberDocument(TypedDict):
    """A request's part in a shared step; its share is an estimate."""

    trace_id: str
    span_id: str
    service: str | None
    route: str | None
    tokens: int | None
    wall_ns: int | None
    share_ns: int


class StepFieldsDocument(TypedDict):
    """A shared step itself."""

    trace_id: str
    span_id: str
    name: str
    service: str
    instance: str | None
    stage: Stage
    start: str
    wall_ns: int
    size: int | None
    tokens: int | None
    basis: ShareBasis | None


class StepDocument(StepFieldsDocument):
    """A shared step: the shares, and `unknown_share_ns`, add up to `wall_ns`."""

    members: list[StepMemberDocument]
    unknown_members: int
    unknown_share_ns: int


class RequestStepDocument(StepFieldsDocument):
    """A shared step that held a request up, and the requests with the largest parts in it."""

    held_up_ns: int
    share_ns: int | None
    largest_others: list[StepMemberDocument]


class InterTokenDocument(TypedDict):
    """The gaps between a request's tokens."""

    p50: int
    p99: int
    max: int


class StallDocument(TypedDict):
    """A gap between tokens that is too long; its label is a stage, `preemption` or `unknown`."""

    start_ns: int
    duration_ns: int
    label: str


class ListedRequestDocument(TypedDict):
    """A request in a list: its ledger sums to `duration_ns`."""

    trace_id: str
    span_id: str
    service: str
    instance: str | None
    route: str
    model: str | None
    version: str | None
    status: RequestStatus
    start: str
    duration_ns: int
    revision: int
    weight: int  # how many requests it stands for, where its sender sampled
    time_to_first_token_ns: int | None
    time_to_first_token_of: FirstTokenOf | None
    model_time_to_first_token_ns: int | None
    time_per_output_token_ns: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    batch_size: int | None
    queue_depth: int | None
    concurrency: int | None
    retries: int
    preemptions: int | None
    cold_start: bool | None
    detail: TraceDetail  # what its trace lacks, for the agent kept its budget
    ledger: dict[Stage, int]
    segments: list[SegmentDocument]
    after: dict[Stage, int]  # what it went on with after its end; no part of `ledger`
    repairs: list[RepairDocument]
    attributes: dict[str, list[str]]  # by which it can be asked for; each value once
    attributes_left_out: int


class OpenedRequestDocument(ListedRequestDocument):
    """A request with what its spans say about it as a whole."""

    error_type: str | None  # of the exception that failed it
    error_span_id: str | None  # of the span that it was raised in
    spans_kept: bool
    shared_steps: list[RequestStepDocument]
    shared_steps_left_out: int
    inter_token_ns: InterTokenDocument | None
    stalls: list[StallDocument] | None
    profiles: list[str]  # ids of profiles that saw it
    started_by: list[PlaceDocument]  # what sent the message that it answers, of other traces


class RequestDocument(OpenedRequestDocument):
    """A request with its spans: its ledger sums to `duration_ns`."""

    spans: list[SpanDocument]
    network: dict[str, int]
    busy: dict[Stage, int]
    exclusive: dict[Stage, int]


class TraceIdsDocument(TypedDict):
    """Traces with ids that begin so, the first in order."""

    trace_ids: list[str]


class RequestsDocument(TypedDict):
    """Requests of a cohort."""

    requests: list[ListedRequestDocument]
    matching: int  # how many there are, the ones not listed included


class ServiceDocument(TypedDict):
    """One service and its routes."""

    service: str
    routes: list[str]


class ServicesDocument(TypedDict):
    """The services that have requests."""

    services: list[ServiceDocument]


class ReceiversDocument(TypedDict):
    """The address that receives spans."""

    otlp_http: str


class BurnRateDocument(TypedDict):
    """The burn rates of the two windows of a tier; null: no traffic."""

    factor: float
    severity: str
    long_ns: int
    short_ns: int
    long: float | None
    short: float | None
    firing: bool


class ObjectiveDocument(TypedDict):
    """An objective, and how it stands."""

    name: str
    display_name: str
    service: str
    route: str | None
    model: str | None
    version: str | None
    measure: str
    threshold_ns: int | None
    target_ratio: float
    time_slice_ns: int | None  # None: requests are counted, else slices
    time_slice_target_ratio: float | None
    period_ns: int
    requests: int
    bad_requests: int
    burn_rates: list[BurnRateDocument]
    budget_left_ratio: float | None
    exhaustion_ns: int | None
    budget_since: str | None
    last_request: str | None


class MaintenanceDocument(TypedDict):
    """A window of maintenance that is not over."""

    name: str
    start: str
    end: str
    objectives: list[str]  # none, and no services: it is for all
    services: list[str]
    is_on: bool
    is_in_file: bool  # of objectives; else it was asked for


class MaintenancesDocument(TypedDict):
    """The windows of maintenance that are not over."""

    maintenance: list[MaintenanceDocument]


class ObjectivesDocument(TypedDict):
    """The objectives that the service watches."""

    objectives: list[ObjectiveDocument]
    maintenance: list[MaintenanceDocument]


class GuiltyStageDocument(TypedDict):
    """The stage that slow requests spend most of their extra time in."""

    stage: Stage
    excess_ns: int
    share_ratio: float


class FailingCallDocument(TypedDict):
    """The call that failed requests have in common."""

    name: str
    stage: Stage
    error: str | None
    share_ratio: float


class DistinctionDocument(TypedDict):
    """A trait that bad requests have more often than good ones."""

    trait: str
    value: str
    bad_ratio: float
    good_ratio: float


class BadRequestDocument(TypedDict):
    """A request that violated the objective."""

    trace_id: str
    span_id: str
    status: RequestStatus
    duration_ns: int
    ledger: dict[str, int]
    summary: str
    url: str


class AcknowledgementDocument(TypedDict):
    """A person who looks after an alert."""

    at: str
    by: str | None
    note: str | None


class AlertDocument(TypedDict):
    """All that is known of an alert."""

    fingerprint: str
    status: str
    labels: dict[str, str]
    summary: str
    description: list[str]
    onset: str | None
    started: str
    ended: str | None
    end_reason: str | None
    bad_ratio: float | None
    window_ns: int | None
    traffic_ratio: float | None
    burn_rates: list[BurnRateDocument]
    budget_left_ratio: float | None
    exhaustion_ns: int | None
    guilty: GuiltyStageDocument | None
    failed_ratio: float | None
    failing_call: FailingCallDocument | None
    version: str | None
    distinctions: list[DistinctionDocument]
    slowest: list[BadRequestDocument]
    acknowledged: AcknowledgementDocument | None
    url: str
    profile_url: str | None  # of the steps that came next; null: none was asked for


class AlertsDocument(TypedDict):
    """The alerts that fire."""

    alerts: list[AlertDocument]


class ProfileDocument(TypedDict):
    """A profile that was asked for, and what has become of it."""

    id: str
    state: str  # waiting | taken | kept | refused
    phase: str  # where it is, in words
    service: str | None  # None: any, and none has begun
    instance: str | None
    cause: str | None  # the fingerprint of the alert that asked for it
    asked: str  # Unix nanoseconds, like the others
    began: str | None
    ended: str | None
    steps: int | None
    ended_by: str | None  # steps | time
    held_ns: int | None  # that the program stood still at its end
    with_gpu: bool | None
    torch: str | None  # its version
    trace_ids: list[str]  # of requests that it saw, 64 at most
    bytes: int | None
    url: str  # of the trace


class ProfilesDocument(TypedDict):
    """All that are known, the newest first."""

    profiles: list[ProfileDocument]
