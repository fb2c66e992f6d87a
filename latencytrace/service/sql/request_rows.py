"""Requests written to and read back from the table `requests`."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypedDict, cast

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
from latencytrace.service.sql.tables import (
    REQUEST_COLUMNS,
    REQUESTS,
    Target,
    column_type,
    stage_column,
)

_STAGES = {stage_column(stage): stage for stage in Stage}
_I63 = 1 << 63
_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TARGET = Target(
    table=REQUESTS,
    columns={name: column_type(definition) for name, definition in REQUEST_COLUMNS.items()},
    block_format="JSONEachRow",
)

# Renamed, so that a question can still name the column itself.
COLUMNS = (
    "* EXCEPT (Start, Written, Moved, CountedAs), "
    "reinterpretAsUInt64(toUnixTimestamp64Nano(Start)) AS StartNs"
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
        "Repairs.Kind": list[str],
        "Repairs.SpanId": list[str],
        "Repairs.Detail": list[str],
        "Attributes.Key": list[str],
        "Attributes.Value": list[str],
        "AttributesLeftOut": int,
    },
)


def rows_of(
    requests: Sequence[Request], read_ns: int, counted_as_ns: Mapping[tuple[str, str], int]
) -> bytes:
    """Requests as lines of JSON; columns left out are empty or 0.

    Args:
        requests: Any.
        read_ns: Wall time when their spans were read; what arrived since is not in them.
        counted_as_ns: Of those that were counted under an earlier revision, when that was
            written.
    """
    written = {"Written": _time_text(read_ns)}
    return b"\n".join(
        orjson.dumps(
            _row(request)
            | written
            | {"CountedAs": _time_text(counted_as_ns.get((request.trace_id, request.span_id), 0))}
        )
        for request in requests
    )


def void_rows(keys: Collection[tuple[str, str, int, int]], read_ns: int) -> bytes:
    """Rows that take the place of requests which moved.

    Args:
        keys: Trace id, span id, the start they have no more, the new revision.
        read_ns: As of `rows_of`.
    """
    written = _time_text(read_ns)
    return b"\n".join(
        orjson.dumps(
            {
                "TraceId": trace_id,
                "SpanId": span_id,
                "Start": _time_text(start_ns),
                "Revision": revision,
                "Moved": 1,
                "Written": written,
            }
        )
        for trace_id, span_id, start_ns, revision in keys
    )


def _row(request: Request) -> dict[str, object]:
    segments, repairs = request.segments, request.repairs
    row: dict[str, object] = {
        "TraceId": request.trace_id,
        "SpanId": request.span_id,
        "Revision": request.revision,
        "Outermost": request.outermost,
        "Health": request.health,
        "Startup": request.startup,
        "ServiceName": request.service,
        "ServiceInstance": request.instance,
        "ServiceVersion": request.version,
        "Route": request.route,
        "Model": request.model,
        "Status": request.status,
        "Start": _time_text(request.start_ns),
        "DurationNs": request.duration_ns,
        "TimeToFirstTokenNs": request.time_to_first_token_ns,
        "TimeToFirstTokenOf": request.time_to_first_token_of,
        "ModelTimeToFirstTokenNs": request.model_time_to_first_token_ns,
        "TimePerOutputTokenNs": request.time_per_output_token_ns,
        "InputTokens": request.input_tokens,
        "CachedInputTokens": request.cached_input_tokens,
        "OutputTokens": request.output_tokens,
        "FinishReason": request.finish_reason,
        "BatchSize": request.batch_size,
        "QueueDepth": request.queue_depth,
        "Concurrency": request.concurrency,
        "Preemptions": request.preemptions,
        "ColdStart": request.cold_start,
        "Segments.EndNs": [segment.end_ns for segment in segments],
        "Segments.Stage": [segment.stage for segment in segments],
        "Segments.SpanId": [segment.span_id for segment in segments],
        "Segments.Name": [segment.name for segment in segments],
        "Attributes.Key": [key for key, _ in request.attributes],
        "Attributes.Value": [value for _, value in request.attributes],
        "AttributesLeftOut": min(request.attributes_left_out, _U32),
    }
    if repairs:
        row["Repairs.Kind"] = [repair.kind for repair in repairs]
        row["Repairs.SpanId"] = [repair.span_id for repair in repairs]
        row["Repairs.Detail"] = [repair.detail for repair in repairs]
    if Stage.RUNTIME in request.ledger:
        parts = Counter[str]()
        for segment in segments:
            if segment.stage is Stage.RUNTIME:
                parts[segment.name] += segment.end_ns - segment.start_ns
        row["Runtime.Name"], row["Runtime.Ns"] = list(parts), list(parts.values())
    for stage, length_ns in request.ledger.items():
        row[stage_column(stage)] = length_ns
    return row


def _time_text(ns: int) -> str:
    """A time as the engine reads it without loss: it takes ten digits of seconds for that."""
    if ns < _I63:
        return f"{ns // 1_000_000_000:010}.{ns % 1_000_000_000:09}"
    # Beyond the year 2262 columns wrap; the very edge, a second wide, the engine cannot read.
    seconds, rest_ns = divmod(max(ns - _U64 - 1, 1_000_000_000 - _I63), 1_000_000_000)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}.{rest_ns:09}"


def requests_from(lines: bytes) -> Iterator[Request]:
    """Requests from an answer with `COLUMNS` in the format JSONEachRow."""
    for line in lines.splitlines():
        yield _request(cast(_Row, orjson.loads(line)))


def written_from(lines: bytes) -> Iterator[tuple[int, Request]]:
    """Likewise, each with the moment it was written under, from an answer with `WrittenNs`."""
    for line in lines.splitlines():
        row = orjson.loads(line)
        yield row["WrittenNs"], _request(cast(_Row, row))


def _request(row: _Row) -> Request:
    first_of = row["TimeToFirstTokenOf"]
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
        ledger={
            stage: length_ns
            for column, stage in _STAGES.items()
            if (length_ns := cast(dict[str, int], row)[column])
        },
        segments=tuple(_segments(row)),
        repairs=tuple(
            Repair(kind=RepairKind(kind), span_id=span_id, detail=detail)
            for kind, span_id, detail in zip(
                row["Repairs.Kind"], row["Repairs.SpanId"], row["Repairs.Detail"], strict=True
            )
        ),
        attributes=tuple(zip(row["Attributes.Key"], row["Attributes.Value"], strict=True)),
        attributes_left_out=row["AttributesLeftOut"],
    )


def _segments(row: _Row) -> Iterator[Segment]:
    columns = zip(
        pairwise((0, *row["Segments.EndNs"])),
        row["Segments.Stage"],
        row["Segments.SpanId"],
        row["Segments.Name"],
        strict=True,
    )
    for (start_ns, end_ns), stage, span_id, name in columns:
        yield Segment(
            start_ns=start_ns, end_ns=end_ns, stage=Stage(stage), span_id=span_id, name=name
        )
