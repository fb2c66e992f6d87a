"""The questions of pages at a glance: routes side by side, durations over time."""

from collections import defaultdict
from typing import Any, Final, cast

import orjson

from latencytrace.model import Stage
from latencytrace.model.cohorts.overview import (
    FINE_ROWS,
    IDLE,
    IDLE_RATIO,
    LONG_LIVED_NS,
    ROWS_PER_DOUBLING,
    HeatCell,
    Overview,
    RouteSummary,
    StageColumn,
    SummaryFields,
    TimeColumn,
    p99_of_rows_ns,
)
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql.counting import Standing
from latencytrace.service.sql.questions import OF_MODEL, Parameters, Query, counted, rows_of
from latencytrace.service.sql.tables import stage_column

LINES: Final = "JSONEachRow"
_COLUMN: Final = "intDiv(toUnixTimestamp64Nano(Start) - {since:Int64}, {column_ns:Int64})"
_CELLS: Final = 4_096  # more than there are fine rows
_FINE_CELL: Final = (
    f"{_COLUMN} * {_CELLS} + toInt64(floor(log2(greatest(DurationNs, 1)) * {FINE_ROWS}))"
)
_FAILED: Final = "Status != 'ok'"
_LEVELS: Final = (0.5, 0.95, 0.99)


def overview(
    query: Query, cohort: Cohort, column_ns: int, limit: int, standing: Standing
) -> Overview:
    """Ask for the routes of a cohort that took most time in all.

    Each service's requests count, inner ones too: a row is what a breakdown of that service
    and route says.
    """
    rows, bound = rows_of(cohort, standing, outermost=False)
    by = standing.counting
    question = (
        "SELECT ServiceName AS service, Route AS route, count() OVER () AS routes, "
        f"{by.median('TimeToFirstTokenNs')} AS first_token, "
        f"{by.count(OF_MODEL)} AS of_model, {by.count('Outermost')} AS outermost, "
        "minMap([ifNull(ServiceVersion, '')], [toUnixTimestamp64Nano(Start)]) AS versions, "
        f"{together(standing)} FROM {rows} "
        f"GROUP BY service, route ORDER BY {longest(standing)} DESC, service, route "
        "LIMIT {limit:UInt32}"
    )
    found = rows_from(query(question, LINES, {**bound, "column_ns": column_ns, "limit": limit}))
    return Overview(
        routes=tuple(map(_summary, found)),
        route_count=cast(int, found[0]["routes"]) if found else 0,
    )


def busiest(
    query: Query, cohort: Cohort, limit: int, standing: Standing
) -> tuple[list[tuple[str, str]], int]:
    """Ask for the services and routes that took most time in all, and how many there are."""
    rows, bound = rows_of(cohort, standing, outermost=False)
    question = (
        f"SELECT ServiceName AS service, Route AS route, count() OVER () AS routes FROM {rows} "
        f"GROUP BY service, route ORDER BY {longest(standing)} DESC, service, route "
        "LIMIT {limit:UInt32}"
    )
    found = rows_from(query(question, LINES, {**bound, "limit": limit}))
    return [(one["service"], one["route"]) for one in found], found[0]["routes"] if found else 0


def heat_map(
    query: Query, cohort: Cohort, column_ns: int, standing: Standing
) -> tuple[HeatCell, ...]:
    """Ask for the durations of a cohort over time."""
    rows, bound = rows_of(cohort, standing, counted)
    row = f"toInt32(floor(log2(greatest(DurationNs, 1)) * {ROWS_PER_DOUBLING}))"
    question = (
        f"SELECT {_COLUMN} AS column, {row} AS row, {standing.counting.count()} AS requests "
        f"FROM {rows} GROUP BY column, row ORDER BY column, row"
    )
    found = rows_from(query(question, LINES, {**bound, "column_ns": column_ns}))
    return tuple(HeatCell(**one) for one in found)


def stages_over_time(
    query: Query, cohort: Cohort, column_ns: int, standing: Standing
) -> tuple[StageColumn, ...]:
    """Ask for the mean time per stage of a cohort over time."""
    rows, bound = rows_of(cohort, standing)
    by = standing.counting
    stages = ", ".join(by.total(f"toFloat64({stage_column(stage)})") for stage in Stage)
    question = (
        f"SELECT {_COLUMN} AS column, {by.count()} AS requests, [{stages}] AS stages "
        f"FROM {rows} GROUP BY column ORDER BY column"
    )
    return tuple(
        StageColumn(
            column=row["column"],
            requests=row["requests"],
            mean_ns={
                stage: total / row["requests"]
                for stage, total in zip(Stage, row["stages"], strict=True)
                if total
            },
        )
        for row in rows_from(query(question, LINES, {**bound, "column_ns": column_ns}))
    )


def rows_from(lines: bytes) -> list[dict[str, Any]]:
    """Read an answer in the format JSONEachRow."""
    return [orjson.loads(line) for line in lines.splitlines()]


def long_lived_question(cohort: Cohort, standing: Standing) -> tuple[str, Parameters]:
    """The routes for which `RouteSummary.is_long_lived` holds."""
    rows, bound = rows_of(cohort, standing)
    by = standing.counting
    idle = " + ".join(f"toFloat64({stage_column(stage)})" for stage in IDLE)
    question = (
        f"SELECT DISTINCT Route FROM (SELECT ServiceName, Route, "
        f"{by.median('DurationNs')} AS p50, {by.known('TimeToFirstTokenNs')} AS streams, "
        f"{by.total(idle)} AS idle, {longest(standing)} AS whole FROM {rows} "
        f"GROUP BY ServiceName, Route) WHERE p50 >= {LONG_LIVED_NS} AND streams = 0 "
        f"AND idle >= {IDLE_RATIO} * whole ORDER BY Route"
    )
    return question, bound


def longest(standing: Standing) -> str:
    """The time that requests took in all."""
    return standing.counting.total("toFloat64(DurationNs)")


def together(standing: Standing) -> str:
    """The aggregates that `summary_fields` reads."""
    by = standing.counting
    # Whole nanoseconds, to the last one: 64 bits do not hold every sum.
    times = f"toInt128({{}}) * {by.number}" if standing.weighted else "toInt128({})"
    stages = ", ".join(f"sum({times.format(stage_column(stage))})" for stage in Stage)
    return (
        f"{by.count()} AS requests, {by.count(_FAILED)} AS failed, "
        f"{by.quantiles(_LEVELS, 'DurationNs')} AS durations, [{stages}] AS stages, "
        f"sumMap([{_COLUMN}], [{by.number}]) AS counts, "
        f"sumMap([{_FINE_CELL}], [{by.number}]) AS cells, "
        f"sumMap([{_COLUMN}], [{times.format('DurationNs')}]) AS times"
    )


def _summary(row: dict[str, object]) -> RouteSummary:
    versions = zip(*cast("tuple[list[str], list[int]]", row["versions"]), strict=True)
    return RouteSummary(
        service=cast(str, row["service"]),
        route=cast(str, row["route"]),
        outermost=cast(int, row["outermost"]),
        first_token_p50_ns=cast(float | None, row["first_token"]),
        first_tokens_of_model=cast(int, row["of_model"]),
        versions={version: first for version, first in versions if version},
        **summary_fields(row),
    )


def summary_fields(row: dict[str, object]) -> SummaryFields:
    """Read what `together` selected."""
    requests = cast(int, row["requests"])
    p50_ns, p95_ns, p99_ns = cast(list[float], row["durations"])
    sums = zip(Stage, cast(list[int], row["stages"]), strict=True)
    columns, counts = cast("tuple[list[int], list[int]]", row["counts"])
    times = dict(zip(*cast("tuple[list[int], list[int]]", row["times"]), strict=True))
    rows: dict[int, dict[int, int]] = defaultdict(dict)
    for cell, count in zip(*cast("tuple[list[int], list[int]]", row["cells"]), strict=True):
        column, fine_row = divmod(cell, _CELLS)
        rows[column][fine_row] = count
    return {
        "requests": requests,
        "failed": cast(int, row["failed"]),
        "p50_ns": p50_ns,
        "p95_ns": p95_ns,
        "p99_ns": p99_ns,
        "mean_ns": {stage: total / requests for stage, total in sums if total},
        "timeline": tuple(
            TimeColumn(
                column=column,
                requests=count,
                mean_ns=times.get(column, 0) / count,
                p99_ns=p99_of_rows_ns(rows[column]),
            )
            for column, count in zip(columns, counts, strict=True)
        ),
    }
