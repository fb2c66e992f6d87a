"""Requests written an object at a time: the plain form of `request_blocks`, and its oracle."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from latencytrace.model import Request, Stage
from latencytrace.service.sql.native_values import VERSION, block, dictionary, texts
from latencytrace.service.sql.request_rows import TARGET
from latencytrace.service.sql.tables import stage_column

_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1
T = TypeVar("T")
Numbers = Sequence[int | None]


def numbers(dtype: type[np.number]) -> Callable[[Sequence[int]], bytes]:
    def column(values: Sequence[int]) -> bytes:
        return np.array(values, dtype).tobytes()

    return column


def unknown_numbers(dtype: type[np.number]) -> Callable[[Numbers], bytes]:
    """Write numbers of this type, or None."""

    def column(values: Numbers) -> bytes:
        known = bytes(value is None for value in values)
        return known + np.array([value or 0 for value in values], dtype).tobytes()

    return column


def words(values: Sequence[str]) -> bytes:
    """Texts that come again and again."""
    return VERSION + _dictionary(values, {})


def unknown_words(values: Sequence[str | None]) -> bytes:
    """Texts that come again and again, or None."""
    return VERSION + _dictionary(values, {None: 0})


def lists(column: Callable[[list[T]], bytes]) -> Callable[[Sequence[Sequence[T]]], bytes]:
    def listed(values: Sequence[Sequence[T]]) -> bytes:
        ends = np.fromiter(accumulate(map(len, values)), np.uint64, len(values))
        return ends.tobytes() + column(list(chain.from_iterable(values)))

    return listed


def lists_of_words(values: Sequence[Sequence[str]]) -> bytes:
    ends = np.fromiter(accumulate(map(len, values)), np.uint64, len(values))
    return VERSION + ends.tobytes() + _dictionary(list(chain.from_iterable(values)), {})


def _dictionary(values: Sequence[str | None], places: dict[str | None, int]) -> bytes:
    found = [places.setdefault(value, len(places)) for value in values]
    keys = [(value or "").encode("utf-8", "surrogateescape") for value in places]
    return b"".join(dictionary(keys, np.array(found, np.int64)))


def block_of(
    requests: Sequence[Request],
    void: Sequence[Request],
    read_ns: int,
    counted_as_ns: Mapping[tuple[str, str], int],
) -> bytes:
    """Requests as a block in the engine's Native format, after the rows that void others."""
    values = _values([*void, *requests])
    values["Moved"] = [place < len(void) for place in range(len(void) + len(requests))]
    values["CountedAs"] = [
        *(0 for _ in void),
        *(counted_as_ns.get((one.trace_id, one.span_id), 0) // _MS for one in requests),
    ]
    values["Written"] = [read_ns // _MS for _ in values["Moved"]]
    return block(
        len(void) + len(requests),
        [(name, kind, _WRITERS[kind](values[name])) for name, kind in TARGET.columns.items()],
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
    """The time for which each part of its runtime held a request up."""
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


_WRITERS: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "String": texts,
    "LowCardinality(String)": words,
    "LowCardinality(Nullable(String))": unknown_words,
    "Array(LowCardinality(String))": lists_of_words,
    "Array(String)": lists(texts),
    "Array(UInt64)": lists(numbers(np.uint64)),
    "Nullable(Int64)": unknown_numbers(np.int64),
    "Nullable(Bool)": unknown_numbers(np.uint8),
    "Bool": numbers(np.uint8),
    "UInt8": numbers(np.uint8),
    "UInt32": numbers(np.uint32),
    "UInt64": numbers(np.uint64),
    "DateTime64(3)": numbers(np.uint64),
    "DateTime64(9, 'UTC')": numbers(np.uint64),
}
