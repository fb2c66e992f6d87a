"""Requests of a cohort as columns: the question, and how its answer in Arrow is read."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from latencytrace.model import RequestStatus, Stage
from latencytrace.model.cohorts.request_columns import (
    NUMBERS,
    UNKNOWN,
    WORDS,
    AttributeColumns,
    DurationBand,
    Durations,
    KnownNumbers,
    RequestColumns,
    Rows,
    Words,
    weights_of,
)
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.counting import Standing
from latencytrace.service.sql.questions import (
    WIDE_ROWS,
    Parameters,
    Query,
    counted,
    rows_of,
)
from latencytrace.service.sql.tables import stage_column

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "ArrowStream"
_SETTINGS: Final = (
    f"{WIDE_ROWS}, output_format_arrow_low_cardinality_as_dictionary = 0, "
    "output_format_arrow_string_as_string = 1, "
    "output_format_arrow_fixed_string_as_fixed_byte_array = 1, "
    "output_format_arrow_compression_method = 'none'"
)
_WEIGHT: Final = "weight"
_KEYS: Final = "attribute_keys"
_VALUES: Final = "attribute_values"
_COLUMNS: Final = {
    "service": "ServiceName",
    "instance": "ServiceInstance",
    "version": "ServiceVersion",
}
_HIGHEST_HASH: Final = (1 << 64) - 1
_IN_PART: Final = "TraceId < {end:String}"
_PART_DIGITS: Final = 12
_MOST_ERRORS: Final = 5  # standard ones, that a part may be off
_CELL_DIGITS: Final = 4  # by which requests of one cell agree: as text they are 32 bits
_CELLS: Final = 16**_CELL_DIGITS
_MOST_CELL_ERRORS: Final = 6  # as above, for the fullest of all cells; and as many requests


def durations(ask: Query, cohort: Cohort, standing: Standing) -> Durations:
    """How long the requests of a cohort took."""
    weight = ", toInt64(Weight)" * standing.weighted
    rows, bound = rows_of(cohort, standing)
    question = f"SELECT toInt64(DurationNs){weight} FROM {rows} SETTINGS {WIDE_ROWS}"
    found = np.frombuffer(ask(question, "RowBinary", bound), np.int64)
    if not standing.weighted:
        return Durations(ns=found)
    return Durations(ns=found[::2], weight=weights_of(found[1::2]))


def times_question(cohort: Cohort, standing: Standing) -> tuple[str, Parameters]:
    """The start, the duration, the success and the weight of each as `Int64`, in no order."""
    rows, bound = rows_of(cohort, standing, counted)
    question = (
        "SELECT toUnixTimestamp64Nano(Start), toInt64(DurationNs), "
        f"toInt64(Status = '{RequestStatus.OK}'), toInt64(Weight) FROM {rows}"
    )
    return question, bound


def spread_question(
    cohort: Cohort, part_ratio: float, standing: Standing
) -> tuple[str, Parameters]:
    """How the requests of a cohort lie in cells of trace ids, for `is_spread`."""
    rows, bound = rows_of(cohort, standing, columns="TraceId")
    question = (
        "SELECT sum(found), max(found), sum(in_part) FROM (SELECT count() AS found, "
        f"countIf({_IN_PART}) AS in_part FROM {rows} GROUP BY reinterpretAsUInt32(TraceId))"
    )
    return question, {**bound, "end": _part_end(part_ratio)}


def is_spread(answer: bytes, part_ratio: float) -> bool:
    """Tell from its answer, as TSV, whether a part has its share of the requests of each sender.

    Trace ids are random, as their specification asks, and rows of five minutes lie in their
    order: to read those below one is to read a part of the rows. Some senders put the time into
    the first digits, or zeros, which then say nothing by chance. A few such requests among many
    others are hardly more or fewer in the part, but they are many in one cell. So are those of a
    trace that has many: then, too, all rows are to be read.
    """
    requests, most, found = map(int, answer.split())
    mean = requests / _CELLS
    if most > mean + _MOST_CELL_ERRORS * (math.sqrt(mean) + 1):
        return False
    error = math.sqrt(requests * part_ratio * (1 - part_ratio))
    return abs(found - requests * part_ratio) <= _MOST_ERRORS * error


def columns_question(
    cohort: Cohort,
    bands: Sequence[DurationBand],
    standing: Standing,
    *,
    attributes: bool,
    part_ratio: float = 1.0,
) -> tuple[str, Parameters]:
    """The requests of a cohort that lie in one of these bands, for `columns_from`.

    Args:
        bands: How long they took, and which share of them is read.
        part_ratio: The part of all that the shares are taken of, where its requests
            are spread (`is_spread`): no share is larger.
    """
    rows, _, bound = _within(cohort, bands, standing, part_ratio)
    selected = [
        "toFixedString(unhex(TraceId), 16) AS trace_id",
        "toUnixTimestamp64Nano(Start) AS start_ns",
        "toInt64(DurationNs) AS duration_ns",
        *(f"toInt64({stage_column(stage)}) AS {stage}_ns" for stage in Stage),
        *(f"toInt64({_column(name)}) AS {name}" for name in NUMBERS),
        *(f"{_column(name)} AS {name}" for name in WORDS),
    ]
    if standing.weighted:
        selected.append(f"toInt64(Weight) AS {_WEIGHT}")
    if attributes:
        selected += [f"`Attributes.Key` AS {_KEYS}", f"`Attributes.Value` AS {_VALUES}"]
    return f"SELECT {', '.join(selected)} FROM {rows} SETTINGS {_SETTINGS}", bound


def means_question(
    cohort: Cohort,
    bands: Sequence[DurationBand],
    standing: Standing,
    *,
    part_ratio: float = 1.0,
) -> tuple[str, Parameters]:
    """The mean time per stage of the requests in each of these bands, for `means_from`.

    Args:
        bands: As above; a request may lie in several.
        part_ratio: As above.
    """
    rows, each, bound = _within(cohort, bands, standing, part_ratio)
    by = standing.counting
    numbered = ", ".join(f"if({one}, {place}, -1)" for place, one in enumerate(each))
    means = ", ".join(
        f"{by.total(f'toFloat64({stage_column(stage)})')} / {by.count()}" for stage in Stage
    )
    question = (
        f"SELECT band, [{means}] FROM {rows} "
        f"ARRAY JOIN arrayFilter(one -> one >= 0, CAST([{numbered}], 'Array(Int64)')) AS band "
        f"GROUP BY band SETTINGS {WIDE_ROWS}"
    )
    return question, bound


def means_from(lines: bytes, bands: int) -> list[dict[Stage, float]]:
    """Read the answer to that question in the format JSONCompactEachRow; empty: no request."""
    found = dict(map(orjson.loads, lines.splitlines()))
    return [
        {stage: mean for stage, mean in zip(Stage, found[band], strict=True) if mean}
        if band in found
        else {}
        for band in range(bands)
    ]


def _within(
    cohort: Cohort, bands: Sequence[DurationBand], standing: Standing, part_ratio: float
) -> tuple[str, list[str], dict[str, object]]:
    """Return the rows within any band, the condition of each band, and what these bind."""
    conditions: list[str] = []
    bound: dict[str, object] = {}
    hashes = [_highest_hash(band.share_ratio / part_ratio) for band in bands]
    if part_ratio < 1:
        conditions.append(_IN_PART)
        bound["end"] = _part_end(part_ratio)
    elif hashes and max(hashes) < _HIGHEST_HASH:  # few are left to be held against each band
        conditions.append("cityHash64(TraceId) <= {hash:UInt64}")
        bound["hash"] = max(hashes)
    for place, (band, highest) in enumerate(zip(bands, hashes, strict=True)):
        bound[f"least{place}"] = band.at_least_ns
        bound[f"most{place}"] = band.at_most_ns
        bound[f"hash{place}"] = highest
    each = [
        f"(DurationNs BETWEEN {{least{place}:UInt64}} AND {{most{place}:UInt64}} "
        f"AND cityHash64(TraceId) <= {{hash{place}:UInt64}})"
        for place in range(len(bands))
    ]
    conditions.append(f"({' OR '.join(each) or 'false'})")
    rows, of_cohort = rows_of(cohort, standing, also=" AND ".join(conditions))
    return rows, each, {**of_cohort, **bound}


def columns_from(answer: bytes, *, attributes: bool) -> RequestColumns:
    """Requests from an answer to that question in the format `FORMAT`."""
    from pyarrow import ipc  # noqa: PLC0415 - heavy, and many services are never asked

    table = ipc.open_stream(answer).read_all().combine_chunks() if answer else None
    if table is None or not table.num_rows:
        return RequestColumns.of([], attributes=attributes)
    columns = {name: table[name].chunk(0) for name in table.column_names}
    start_ns = columns["start_ns"].to_numpy()
    order = np.argsort(start_ns, kind="stable")
    trace_ids = columns["trace_id"]
    named: dict[str, Any] = {name: _numbers(columns[name], order) for name in NUMBERS}
    named |= {name: _words(columns[name], order) for name in WORDS}
    return RequestColumns(
        trace_id=np.frombuffer(trace_ids.buffers()[1], "V16")[trace_ids.offset :][order],
        start_ns=start_ns[order],
        duration_ns=columns["duration_ns"].to_numpy()[order],
        stages_ns=np.column_stack([columns[f"{stage}_ns"].to_numpy() for stage in Stage])[order],
        **named,
        weight=weights_of(columns[_WEIGHT].to_numpy()[order]) if _WEIGHT in columns else None,
        attributes=_attributes(columns[_KEYS], columns[_VALUES], order) if attributes else None,
    )


def _highest_hash(share_ratio: float) -> int:
    """The hash up to which such a share of all trace ids lies."""
    return min(int(share_ratio * 2.0**64), _HIGHEST_HASH)


def _part_end(part_ratio: float) -> str:
    """The trace id below which such a part of all lies."""
    return f"{int(part_ratio * 16**_PART_DIGITS):0{_PART_DIGITS}x}"


def _column(name: str) -> str:
    return _COLUMNS.get(name) or "".join(word.capitalize() for word in name.split("_"))


def _numbers(column: "pa.Array", order: Rows) -> KnownNumbers:
    return KnownNumbers(
        value=column.fill_null(0).to_numpy(zero_copy_only=False)[order],
        known=column.is_valid().to_numpy(zero_copy_only=False)[order],
    )


def _words(column: "pa.Array", order: Rows) -> Words:
    encoded = column.dictionary_encode()
    number = encoded.indices.fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return Words(names=encoded.dictionary.to_pylist(), number=number[order].astype(np.int32))


def _attributes(keys: "pa.Array", values: "pa.Array", order: Rows) -> AttributeColumns:
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    row = np.repeat(place, keys.value_lengths().to_numpy(zero_copy_only=False))
    by_row = np.argsort(row, kind="stable")
    return AttributeColumns(
        row=row[by_row],
        key=_words(keys.flatten(), by_row),
        value=_words(values.flatten(), by_row),
    )
