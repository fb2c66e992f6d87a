"""Requests read back as columns from what `latencytrace export` wrote."""

import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, parquet

from latencytrace.errors import QuestionError
from latencytrace.model.cohorts.request_columns import (
    NUMBERS,
    STAGES,
    WORDS,
    KnownNumbers,
    RequestColumns,
    Words,
    weights_of,
)
from latencytrace.service.store import TableFormat

_TIME: Final = pa.timestamp("ns", tz="UTC")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "trace_id": pa.string(),
    "start": _TIME,
    "duration_ns": pa.int64(),
    "cold_start": pa.bool_(),
    **{name: pa.string() for name in WORDS},
    "weight": pa.int64(),
    **{name: pa.int64() for name in NUMBERS if name != "cold_start"},
    **{f"{stage}_ns": pa.int64() for stage in STAGES},
}
_NEEDED: Final = ("trace_id", "start", "duration_ns")


def columns_of(body: bytes, table_format: TableFormat) -> RequestColumns:
    """The requests of a table of ledgers, in order of start.

    Columns that an older version did not write are unknown.

    Raises:
        QuestionError: The file is not a table of ledgers.
    """
    try:
        table = _table(body, table_format)
    except (pa.ArrowException, OSError) as error:
        raise QuestionError(f"it cannot be read as {table_format}: {error}") from None
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise QuestionError(
            f"it has no column {missing[0]}: write it with `latencytrace export -o FILE`"
        )
    try:
        return _columns(table)
    except (pa.ArrowException, ValueError) as error:
        raise QuestionError(f"it is no table of ledgers: {error}") from None


def _table(body: bytes, table_format: TableFormat) -> pa.Table:
    if table_format is TableFormat.PARQUET:
        return parquet.read_table(io.BytesIO(body))
    options = csv.ConvertOptions(
        column_types=_TYPES, null_values=[""], strings_can_be_null=True, true_values=["true"],
        false_values=["false"],
    )  # fmt: skip
    table = csv.read_csv(io.BytesIO(body), convert_options=options)
    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table.schema.field(name).type):  # a spreadsheet would run it
            plain = compute.replace_substring_regex(table[name], "^'('*[=+@\\t\\r-])", "\\1")
            table = table.set_column(place, name, plain)
    return table


def _columns(table: pa.Table) -> RequestColumns:
    start = table["start"].cast(_TIME).cast(pa.int64())
    order = np.argsort(start.to_numpy(), kind="stable")
    table = table.take(pa.array(order))
    ids = bytes.fromhex("".join(table["trace_id"].to_pylist()))
    named: dict[str, Any] = {name: _numbers(table, name) for name in NUMBERS}
    named |= {name: _words(table, name) for name in WORDS}
    return RequestColumns(
        trace_id=np.frombuffer(ids, "V16"),
        start_ns=start.to_numpy()[order],
        duration_ns=_whole(table, "duration_ns"),
        stages_ns=np.column_stack([_whole(table, f"{stage}_ns") for stage in STAGES]),
        **named,
        weight=_weight(table),
    )


def _weight(table: pa.Table) -> NDArray[np.int64] | None:
    """The weights, which stores keep in 32 bits: sums of greater ones might overflow."""
    if "weight" not in table.column_names:
        return None
    column = table["weight"].cast(pa.uint32()).fill_null(1).cast(pa.int64())
    return weights_of(np.maximum(column.to_numpy(), 1))


def _whole(table: pa.Table, name: str) -> NDArray[np.int64]:
    return _numbers(table, name).value


def _numbers(table: pa.Table, name: str) -> KnownNumbers:
    if name not in table.column_names:
        nothing = np.zeros(table.num_rows, np.int64)
        return KnownNumbers(value=nothing, known=nothing.astype(np.bool_))
    column = table[name].cast(pa.int64())
    return KnownNumbers(value=column.fill_null(0).to_numpy(), known=column.is_valid().to_numpy())


def _words(table: pa.Table, name: str) -> Words:
    known = name in table.column_names
    return Words.of(table[name].to_pylist() if known else [None] * table.num_rows)
