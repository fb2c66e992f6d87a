"""Requests written to and read back from the table `requests`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
import orjson

from latencytrace.model import (
    FirstTokenOf,
    Repair,
    RepairKind,
    Request,
    RequestStatus,
    Segment,
    Stage,
)
from latencytrace.model.detail import detail_named
from latencytrace.model.from_columns import from_columns
from latencytrace.model.request import ledger_of
from latencytrace.service.sql import native_values
from latencytrace.service.sql.tables import (
    REQUEST_COLUMNS,
    REQUESTS,
    Target,
    column_type,
    stage_column,
)

_STAGES = {stage_column(stage) for stage in Stage}
_STAGE_OF: Mapping[str, Stage] = {stage.value: stage for stage in Stage}
_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1

TARGET = Target(
    table=REQUESTS,
    columns={name: column_type(definition) for name, definition in REQUEST_COLUMNS.items()},
    block_format="Native",
)


class Void(NamedTuple):
    """The row of a request that starts elsewhere by now, or is none any more."""

    trace_id: str
    span_id: str
    start_ns: int  # that it has no more
    revision: int  # the new one


# What a request is read from. Its stages and the parts of its runtime are in its segments: each
# column costs a question that looks for few among many as much as all of a granule.
_NOT_READ = {
    "Start", "Written", "Moved", "CountedAs", "AfterNs", "Runtime.Name", "Runtime.Ns", *_STAGES
}  # fmt: skip
# `Start` is renamed, so that a question can still name the column itself.
COLUMNS = ", ".join(
    [
        *(f"`{name}`" for name in REQUEST_COLUMNS if name not in _NOT_READ),
        "reinterpretAsUInt64(toUnixTimestamp64Nano(Start)) AS StartNs",
    ]
)

_Row = TypedDict(
    "_Row",
    {
        "TraceId": str,
        "SpanId": str,
        "Revision": int,
        "Outermost": bool,
        "Health": bool,
        "Startup": bool,
        "Detail": str,
        "Weight": int,
        "ServiceName": str,
        "ServiceInstance": str | None,
        "ServiceVersion": str | None,
        "Route": str,
        "Model": str | None,
        "Status": str,
        "StartNs": int,
        "DurationNs": int,
        "TimeToFirstTokenNs": int | None,
        "TimeToFirstTokenOf": str | None,
        "ModelTimeToFirstTokenNs": int | None,
        "TimePerOutputTokenNs": int | None,
        "InputTokens": int | None,
        "CachedInputTokens": int | None,
        "OutputTokens": int | None,
        "FinishReason": str | None,
        "BatchSize": int | None,
        "QueueDepth": int | None,
        "Concurrency": int | None,
        "Preemptions": int | None,
        "ColdStart": bool | None,
        "Segments.EndNs": list[int],
        "Segments.Stage": list[str],
        "Segments.SpanId": list[str],
        "Segments.Name": list[str],
        "After.Stage": list[str],
        "After.Ns": list[int],
        "Repairs.Kind": list[str],
        "Repairs.SpanId": list[str],
        "Repairs.Detail": list[str],
        "Attributes.Key": list[str],
        "Attributes.Value": list[str],
        "AttributesLeftOut": int,
    },
)


def block_of(
    requests: Sequence[Request],
    void: Sequence[Void],
    read_ns: int,
    counted_as_ns: Mapping[tuple[str, str], int],
) -> bytes:
    """Requests as a block in the engine's Native format, and rows that void others.

    Args:
        void: The rows of requests that moved or are none any more; they come first, so that
            the later one stands where one has the key of a row of today.
        read_ns: Wall time when their spans were read; what arrived since is not in them.
        counted_as_ns: Of those that were counted under an earlier revision, when that was
            written.
    """
    written: list[object] = [read_ns // _MS]
    counted: list[object] = [
        counted_as_ns.get((request.trace_id, request.span_id), 0) // _MS for request in requests
    ]
    none = len(void)
    of_void: dict[str, list[object]] = {
        "TraceId": [one.trace_id for one in void],
        "SpanId": [one.span_id for one in void],
        "Start": [one.start_ns & _U64 for one in void],
        "Revision": [one.revision for one in void],
        "Moved": [1] * none,
        "CountedAs": [0] * none,
        "Written": written * none,
    }
    values = _values(requests)
    values["Moved"] = [0] * len(requests)
    values["CountedAs"] = counted
    values["Written"] = written * len(requests)
    return native_values.block(
        none + len(requests),
        [
            (
                name,
                TARGET.columns[name],
                column.write(of_void.get(name, [column.default] * none) + values[name]),
            )
            for name, column in NATIVE.items()
        ],
    )


def _values(requests: Sequence[Request]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {
        name: [tell(request) for request in requests] for name, tell in _TOLD.items()
    }
    parts = [_runtime_parts(request) for request in requests]
    found["Runtime.Name"] = [list(one) for one in parts]
    found["Runtime.Ns"] = [list(one.values()) for one in parts]
    for stage in Stage:
        found[stage_column(stage)] = [request.ledger.get(stage, 0) for request in requests]
    return found


def _runtime_parts(request: Request) -> Mapping[str, int]:
    """How long each part of its runtime held a request up."""
    if Stage.RUNTIME not in request.ledger:
        return _NO_PARTS
    parts = Counter[str]()
    for segment in request.segments:
        if segment.stage is Stage.RUNTIME:
            parts[segment.name] += segment.end_ns - segment.start_ns
    return parts


_NO_PARTS: Mapping[str, int] = {}
_MS = 1_000_000

# What each column tells of a request. Times wrap as their 64 bits do.
_TOLD: Mapping[str, Callable[[Request], object]] = {
    "TraceId": attrgetter("trace_id"),
    "SpanId": attrgetter("span_id"),
    "Revision": attrgetter("revision"),
    "Outermost": attrgetter("outermost"),
    "Health": attrgetter("health"),
    "Startup": attrgetter("startup"),
    "Detail": attrgetter("detail"),
    "Weight": attrgetter("weight"),
    "ServiceName": attrgetter("service"),
    "ServiceInstance": attrgetter("instance"),
    "ServiceVersion": attrgetter("version"),
    "Route": attrgetter("route"),
    "Model": attrgetter("model"),
    "Status": attrgetter("status"),
    "Start": lambda request: request.start_ns & _U64,
    "DurationNs": attrgetter("duration_ns"),
    "TimeToFirstTokenNs": attrgetter("time_to_first_token_ns"),
    "TimeToFirstTokenOf": attrgetter("time_to_first_token_of"),
    "ModelTimeToFirstTokenNs": attrgetter("model_time_to_first_token_ns"),
    "TimePerOutputTokenNs": attrgetter("time_per_output_token_ns"),
    "InputTokens": attrgetter("input_tokens"),
    "CachedInputTokens": attrgetter("cached_input_tokens"),
    "OutputTokens": attrgetter("output_tokens"),
    "FinishReason": attrgetter("finish_reason"),
    "BatchSize": attrgetter("batch_size"),
    "QueueDepth": attrgetter("queue_depth"),
    "Concurrency": attrgetter("concurrency"),
    "Preemptions": attrgetter("preemptions"),
    "ColdStart": attrgetter("cold_start"),
    "Segments.EndNs": lambda request: [segment.end_ns for segment in request.segments],
    "Segments.Stage": lambda request: [segment.stage for segment in request.segments],
    "Segments.SpanId": lambda request: [segment.span_id for segment in request.segments],
    "Segments.Name": lambda request: [segment.name for segment in request.segments],
    "AfterNs": attrgetter("after_ns"),
    "After.Stage": lambda request: list(request.after),
    "After.Ns": lambda request: list(request.after.values()),
    "Repairs.Kind": lambda request: [repair.kind for repair in request.repairs],
    "Repairs.SpanId": lambda request: [repair.span_id for repair in request.repairs],
    "Repairs.Detail": lambda request: [repair.detail for repair in request.repairs],
    "Attributes.Key": lambda request: [key for key, _ in request.attributes],
    "Attributes.Value": lambda request: [value for _, value in request.attributes],
    "AttributesLeftOut": lambda request: min(request.attributes_left_out, _U32),
}


class _Column(NamedTuple):
    """One column in the Native format."""

    write: Callable[[Sequence[Any]], bytes]
    default: object = 0


_WRITERS: Mapping[str, _Column] = {
    "String": _Column(native_values.texts, ""),
    "LowCardinality(String)": _Column(native_values.words, ""),
    "LowCardinality(Nullable(String))": _Column(native_values.unknown_words, None),
    "Array(LowCardinality(String))": _Column(native_values.lists_of_words, ()),
    "Array(String)": _Column(native_values.lists(native_values.texts), ()),
    "Array(UInt64)": _Column(native_values.lists(native_values.numbers(np.uint64)), ()),
    "Nullable(Int64)": _Column(native_values.unknown_numbers(np.int64), None),
    "Nullable(Bool)": _Column(native_values.unknown_numbers(np.uint8), None),
    "Bool": _Column(native_values.numbers(np.uint8)),
    "UInt8": _Column(native_values.numbers(np.uint8)),
    "UInt32": _Column(native_values.numbers(np.uint32)),
    "UInt64": _Column(native_values.numbers(np.uint64)),
    "DateTime64(3)": _Column(native_values.numbers(np.uint64)),
    "DateTime64(9, 'UTC')": _Column(native_values.numbers(np.uint64)),
}
NATIVE = {name: _WRITERS[type_] for name, type_ in TARGET.columns.items()}


def requests_from(lines: bytes) -> Iterator[Request]:
    """Requests from an answer with `COLUMNS` in the format JSONEachRow."""
    for line in lines.splitlines():
        yield _request(cast(_Row, orjson.loads(line)))


def written_from(lines: bytes) -> Iterator[tuple[int, Request]]:
    """Requests with the moment each was written under, from an answer with `WrittenNs`."""
    for line in lines.splitlines():
        row = orjson.loads(line)
        yield row["WrittenNs"], _request(cast(_Row, row))


def _request(row: _Row) -> Request:
    first_of = row["TimeToFirstTokenOf"]
    segments = _segments(row)
    ledger = ledger_of(segments)
    return Request(
        trace_id=row["TraceId"],
        span_id=row["SpanId"],
        outermost=row["Outermost"],
        service=row["ServiceName"],
        instance=row["ServiceInstance"],
        route=row["Route"],
        model=row["Model"],
        version=row["ServiceVersion"],
        status=RequestStatus(row["Status"]),
        start_ns=row["StartNs"],
        duration_ns=row["DurationNs"],
        revision=row["Revision"],
        time_to_first_token_ns=row["TimeToFirstTokenNs"],
        time_to_first_token_of=FirstTokenOf(first_of) if first_of else None,
        model_time_to_first_token_ns=row["ModelTimeToFirstTokenNs"],
        time_per_output_token_ns=row["TimePerOutputTokenNs"],
        input_tokens=row["InputTokens"],
        cached_input_tokens=row["CachedInputTokens"],
        output_tokens=row["OutputTokens"],
        finish_reason=row["FinishReason"],
        batch_size=row["BatchSize"],
        queue_depth=row["QueueDepth"],
        concurrency=row["Concurrency"],
        preemptions=row["Preemptions"],
        cold_start=row["ColdStart"],
        health=row["Health"],
        startup=row["Startup"],
        detail=detail_named(row["Detail"]),
        weight=row["Weight"],
        ledger={stage: ledger[stage] for stage in Stage if ledger.get(stage)},
        segments=tuple(segments),
        after={
            _STAGE_OF[stage]: length_ns
            for stage, length_ns in zip(row["After.Stage"], row["After.Ns"], strict=True)
        },
        repairs=tuple(
            Repair(kind=RepairKind(kind), span_id=span_id, detail=detail)
            for kind, span_id, detail in zip(
                row["Repairs.Kind"], row["Repairs.SpanId"], row["Repairs.Detail"], strict=True
            )
        ),
        attributes=tuple(zip(row["Attributes.Key"], row["Attributes.Value"], strict=True)),
        attributes_left_out=row["AttributesLeftOut"],
    )


def _segments(row: _Row) -> list[Segment]:
    ends_ns = row["Segments.EndNs"]
    return from_columns(
        Segment,
        len(ends_ns),
        start_ns=[0, *ends_ns],
        end_ns=ends_ns,
        stage=map(_STAGE_OF.__getitem__, row["Segments.Stage"]),
        span_id=row["Segments.SpanId"],
        name=row["Segments.Name"],
    )
