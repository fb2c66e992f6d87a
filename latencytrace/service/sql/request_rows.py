"""Requests read back from the table `requests`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

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
from latencytrace.service.sql.tables import (
    REQUEST_COLUMNS,
    REQUESTS,
    Target,
    column_type,
    stage_column,
)

_STAGES = {stage_column(stage) for stage in Stage}
_STAGE_OF: Mapping[str, Stage] = {stage.value: stage for stage in Stage}

TARGET = Target(
    table=REQUESTS,
    columns={name: column_type(definition) for name, definition in REQUEST_COLUMNS.items()},
    block_format="Native",
)


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

# Fields of a request that a column holds as they are.
_PLAIN: Final[Mapping[str, str]] = {
    "trace_id": "TraceId", "span_id": "SpanId", "revision": "Revision", "weight": "Weight",
    "outermost": "Outermost", "health": "Health", "startup": "Startup",
    "service": "ServiceName", "instance": "ServiceInstance", "version": "ServiceVersion",
    "route": "Route", "model": "Model", "start_ns": "StartNs", "duration_ns": "DurationNs",
    "time_to_first_token_ns": "TimeToFirstTokenNs",
    "model_time_to_first_token_ns": "ModelTimeToFirstTokenNs",
    "time_per_output_token_ns": "TimePerOutputTokenNs",
    "input_tokens": "InputTokens", "cached_input_tokens": "CachedInputTokens",
    "output_tokens": "OutputTokens", "finish_reason": "FinishReason",
    "batch_size": "BatchSize", "queue_depth": "QueueDepth", "concurrency": "Concurrency",
    "preemptions": "Preemptions", "cold_start": "ColdStart",
    "attributes_left_out": "AttributesLeftOut",
}  # fmt: skip
_Row = dict[str, Any]


def requests_from(lines: bytes) -> Iterator[Request]:
    """Requests from an answer with `COLUMNS` in the format JSONEachRow."""
    for line in lines.splitlines():
        yield _request(orjson.loads(line))


def written_from(lines: bytes) -> Iterator[tuple[int, Request]]:
    """Requests with the moment each was written under, from an answer with `WrittenNs`."""
    for line in lines.splitlines():
        row = orjson.loads(line)
        yield row["WrittenNs"], _request(row)


def _request(row: _Row) -> Request:
    first_of = row["TimeToFirstTokenOf"]
    segments = _segments(row)
    ledger = ledger_of(segments)
    return Request(
        **{field: row[column] for field, column in _PLAIN.items()},
        status=RequestStatus(row["Status"]),
        detail=detail_named(row["Detail"]),
        time_to_first_token_of=FirstTokenOf(first_of) if first_of else None,
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
