"""The ledgers of a cohort as a table for other programs, written by the engine itself."""

from typing import Final

from latencytrace.model import Stage
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.counting import Standing
from latencytrace.service.sql.questions import Parameters, counted, rows_of
from latencytrace.service.sql.tables import stage_column
from latencytrace.service.store import TableFormat

ENGINE_FORMATS: Final = {TableFormat.CSV: "CSVWithNames", TableFormat.PARQUET: "Parquet"}

_COLUMNS: Final = {
    "trace_id": "TraceId",
    "span_id": "SpanId",
    "service": "ServiceName",
    "instance": "ServiceInstance",
    "version": "ServiceVersion",
    "route": "Route",
    "model": "Model",
    "status": "Status",
    "start": "Start",
    "duration_ns": "toInt64(DurationNs)",  # unsigned numbers are foreign to many readers
    "time_to_first_token_ns": "TimeToFirstTokenNs",
    "time_to_first_token_of": "TimeToFirstTokenOf",
    "model_time_to_first_token_ns": "ModelTimeToFirstTokenNs",
    "time_per_output_token_ns": "TimePerOutputTokenNs",
    "input_tokens": "InputTokens",
    "cached_input_tokens": "CachedInputTokens",
    "output_tokens": "OutputTokens",
    "finish_reason": "FinishReason",
    "batch_size": "BatchSize",
    "queue_depth": "QueueDepth",
    "concurrency": "Concurrency",
    "preemptions": "Preemptions",
    "cold_start": "ColdStart",
    "after_ns": "toInt64(AfterNs)",
    "revision": "toInt32(Revision)",
    "weight": "toInt32(Weight)",
} | {f"{stage}_ns": f"toInt64({stage_column(stage)})" for stage in Stage}

_SENT: Final = ("service", "instance", "version", "route", "model", "finish_reason")
_SETTINGS = "date_time_output_format = 'iso', format_csv_null_representation = ''"


def count_question(cohort: Cohort, standing: Standing) -> tuple[str, Parameters]:
    """How many requests of a cohort count."""
    rows, bound = rows_of(cohort, standing, counted)
    return f"SELECT count() FROM {rows}", bound


def table_question(
    cohort: Cohort, table_format: TableFormat, standing: Standing
) -> tuple[str, Parameters]:
    """One row a request, in order of start; the columns of stages add up to the duration."""
    rows, bound = rows_of(cohort, standing)
    shown = _COLUMNS
    if table_format is TableFormat.CSV:
        shown = _COLUMNS | {name: _as_text(_COLUMNS[name]) for name in _SENT}
    columns = ", ".join(f"{column} AS {name}" for name, column in shown.items())
    return (
        f"SELECT {columns} FROM {rows} ORDER BY Start, TraceId, SpanId SETTINGS {_SETTINGS}",
        bound,
    )


def _as_text(column: str) -> str:
    """A cell that no spreadsheet takes for a formula; Parquet needs none."""
    return rf"if(match({column}, '^\'*[=+@\t\r-]'), concat('\'', {column}), {column})"
