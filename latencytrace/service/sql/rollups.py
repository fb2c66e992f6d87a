"""Rollups: the requests of each window of five minutes, counted by their labels beforehand.

Sums and counts are exact; durations are kept as the bins of a histogram.
Requests that are in no rollup yet are counted in the same form at the moment of the question.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np
import orjson

from latencytrace.model import Breakdown, Quantiles, Stage, StageBreakdown, StagePart
from latencytrace.model.cohorts.breakdown import WorkAfter
from latencytrace.model.detail import TraceDetail
from latencytrace.model.stage import IN_PARTS
from latencytrace.service.cohort import Cohort
from latencytrace.service.plain_answers import MOST_PARTS
from latencytrace.service.sql.counting import BY_ROW, WINDOW, Counting, Standing, windows
from latencytrace.service.sql.questions import (
    AFTER_PARTS,
    AT_ONCE,
    PAUSES,
    SEGMENTS,
    Parameters,
    Part,
    Routes,
    after_stages,
    has_stages,
    part_columns,
    rows_of,
    where,
)
from latencytrace.service.sql.tables import REQUESTS, ROLLUPS, WINDOWS, stage_column

BINS_PER_DOUBLING = 32  # scale 5 of OpenTelemetry's exponential histogram
ERROR_RATIO = 2 ** (1 / BINS_PER_DOUBLING) - 1  # of a quantile, at most: the width of a bin
ZERO = -32767  # the bin of what took no time


@dataclass(frozen=True)
class Histogram:
    """How many durations lie in each bin: bin `n` begins at `2 ** (n / BINS_PER_DOUBLING)`."""

    counts: Mapping[int, int]  # by bin; at least one, none is 0

    def quantile(self, level: float) -> float:
        """Return a quantile, interpolated between neighbours as exact ones are."""
        place = level * (self._reached[-1] - 1)
        lower = self._at(math.floor(place))
        return lower + (place - math.floor(place)) * (self._at(math.ceil(place)) - lower)

    @cached_property
    def _bins(self) -> list[int]:
        return sorted(self.counts)

    @cached_property
    def _reached(self) -> list[int]:
        """How many durations lie up to the end of each bin."""
        return list(accumulate(self.counts[bin_] for bin_ in self._bins))

    def _at(self, place: int) -> float:
        """The duration at a place in their order, as if those of a bin lay evenly in it."""
        number = bisect_right(self._reached, place)
        bin_ = self._bins[number]
        if bin_ == ZERO:
            return 0.0
        count = self.counts[bin_]
        within = (place - (self._reached[number] - count) + 0.5) / count
        return float(2 ** ((bin_ + within) / BINS_PER_DOUBLING))


WINDOW_S: Final = 300
_TOTAL: Final = -32768  # the bin of the row with count and sum of a measure
_LEVELS: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
_STAGE_LEVELS: Final = (0.5, 0.95, 0.99)

_DURATION: Final = "DurationNs"
_FIRST_TOKEN: Final = "TimeToFirstTokenNs"  # noqa: S105 - tokens of models
_PER_TOKEN: Final = "TimePerOutputTokenNs"  # noqa: S105 - tokens of models
_TOKEN_RATE: Final = "OutputTokensPerSecond"  # noqa: S105 - tokens of models
_AFTER: Final = "AfterNs"
_AFTER_PART: Final = "AfterPart"
_OF_MODEL: Final = "FirstTokensOfModel"
_REDUCED: Final = "ReducedRequests"
_PART: Final = {stage: f"{stage.capitalize()}Part" for stage in IN_PARTS}
_MEASURE_OF: Final = f"transform(stage, {[*map(str, _PART)]}, {[*_PART.values()]}, '')"
_MOST_NAMED: Final = 4 * MOST_PARTS  # of a stage, in a window and by its labels

_IS_OF_MODEL: Final = "TimeToFirstTokenOf = 'model'"
_IS_REDUCED: Final = f"Detail != '{TraceDetail.FULL}'"

_KIND: Final = "multiIf(Startup, 1, Health, 2, 0)"  # 0: it counts whatever the route
_STARTUP: Final = 1
_WITHOUT_STAGES: Final = 3  # as the kinds are: it counts, but for what it spent its time on
_KINDS: Final = {"Kind": _KIND, "Detail": "Detail"}
_LABELS: Final = {
    **_KINDS,
    **{
        name: name
        for name in (
            "Outermost", "ServiceName", "ServiceInstance", "ServiceVersion", "Route", "Model",
            "Status",
        )
    },
}  # fmt: skip
_SECONDS: Final = f"toUnixTimestamp({WINDOW})"
_PLACES: Final = {"Window": _SECONDS, "Day": "toDate(Written, 'UTC')"}
_COUNTS: Final = ("Measure", "Part", "Bin", "Count", "Sum")
_LISTED: Final = windows("windows")

_SPENT: Final = [*map(stage_column, Stage), _AFTER]  # columns; 0: none of it
_EACH_SPENT: Final = f"[{', '.join(_SPENT)}]"
_MEASURES: Final = [_DURATION, _FIRST_TOKEN, _PER_TOKEN, *_SPENT]
# What each request tells of each measure as a number, below zero: nothing. Of columns that are
# alike it is said once, by an array: the engine takes longer to read a long question than rows.
_TOLD: Final = ", ".join(
    [
        "toFloat64(DurationNs)",
        *(
            f"if(isNull({measure}), -1, greatest(toFloat64(assumeNotNull({measure})), 0))"
            for measure in (_FIRST_TOKEN, _PER_TOKEN)
        ),
    ]
)
_VALUES: Final = (
    f"arrayConcat([{_TOLD}], arrayMap(one -> if(one > 0, toFloat64(one), -1), {_EACH_SPENT}))"
)


def _totals(by: Counting) -> str:
    """The name, the count and the sum of each measure."""
    rate = "1e9 / nullIf(TimePerOutputTokenNs, 0)"
    single = {
        _DURATION: f"{by.count()}, {by.total('toFloat64(DurationNs)')}",
        **{
            measure: f"{by.known(measure)}, ifNull({by.total(f'toFloat64({measure})')}, 0)"
            for measure in (_FIRST_TOKEN, _PER_TOKEN)
        },
        _TOKEN_RATE: f"{by.known(f'nullIf({_PER_TOKEN}, 0)')}, ifNull({by.total(rate)}, 0)",
        _OF_MODEL: f"{by.count(_IS_OF_MODEL)}, 0.",
        _REDUCED: f"{by.count(_IS_REDUCED)}, 0.",
    }
    listed = ", ".join(f"('{measure}', {how})" for measure, how in single.items())
    counts = f"sumForEach(arrayMap(one -> (one > 0) * {by.number}, {_EACH_SPENT}))"
    sums = f"sumForEach(arrayMap(one -> toFloat64(one) * {by.number}, {_EACH_SPENT}))"
    return f"arrayConcat([{listed}], arrayZip({_SPENT}, {counts}, {sums}))"


Window = np.dtype(
    [("window", "<u4"), ("pass", "<u8"), ("merged", "?"), ("requests", "<u8")]
)  # a row of the answer to WINDOWS_BETWEEN in the format RowBinary
WINDOWS_BETWEEN: Final = (
    f"SELECT Window, Pass, Merged, Requests FROM {WINDOWS} FINAL "
    "WHERE Window >= {first:UInt32} AND Window <= {last:UInt32}"
)
LAST_PASS: Final = f"SELECT max(Pass) FROM {WINDOWS}"
# Those of which a request was written since they were counted, or which never were, by all names.
DUE: Final = (
    "SELECT Window FROM "
    f"(SELECT {_SECONDS} AS Window, max(Written) AS Last, "
    f"max({stage_column(Stage.APPLICATION)} > 0) AS HasNamed FROM {REQUESTS} GROUP BY Window) "
    f"AS Rows LEFT JOIN (SELECT Window, AsOf, Named FROM {WINDOWS} FINAL) AS Known USING Window "
    # Those ahead of now cannot be rolled up yet.
    "WHERE Last > AsOf OR (HasNamed AND NOT Named) "
    "ORDER BY Window > toUnixTimestamp(now()), Window DESC LIMIT {limit:UInt32}"
)
PUT_DOWN: Final = (  # the last step: from now on the rows of this pass count
    f"INSERT INTO {WINDOWS} (Window, Pass, AsOf, Merged, Requests, Named) "
    "SELECT Window, {pass:UInt64}, Last, Rows = Standing, Standing, true FROM "
    f"(SELECT {_SECONDS} AS Window, max(Written) AS Last, countIf(NOT Moved) AS Rows "
    f"FROM {REQUESTS} WHERE {WINDOW} IN {_LISTED} GROUP BY Window) AS Known "
    f"LEFT JOIN (SELECT {_SECONDS} AS Window, count() AS Standing "
    f"FROM {REQUESTS} FINAL WHERE {WINDOW} IN {_LISTED} GROUP BY Window) AS Left USING Window"
)


def _entries(standing: Standing, condition: str, listed: str, labels: Mapping[str, str]) -> str:
    """The rows of a rollup that requests come to: totals, bins, and parts of stages.

    Args:
        standing: How they are read, and counted.
        condition: Which of those in the windows they are.
        labels: What they are counted by: the name of each label, and how it is read.
    """
    condition = f"({condition}) AND {WINDOW} IN {listed}"
    rows, by = standing.rows(condition), standing.counting
    names = ", ".join(labels)
    read = ", ".join(f"{how} AS {name}" for name, how in labels.items())
    also = "" if by is BY_ROW else ", Weight"
    bin_ = (
        f"if(pair.2 < 1, {ZERO}, toInt16(floor(log2(greatest(pair.2, 1)) * {BINS_PER_DOUBLING})))"
    )
    # Of windows in which no stage has names no segments are read, which are wide.
    has = SEGMENTS.has_some
    some = f"SELECT DISTINCT {WINDOW} FROM {REQUESTS} WHERE {has} AND {WINDOW} IN {listed}"
    named = standing.rows(f"{condition} AND {has} AND {WINDOW} IN ({some})")
    parts_of = [
        (named, SEGMENTS.joined, _MEASURE_OF, SEGMENTS.counted_by),
        (rows, PAUSES.joined, _MEASURE_OF, PAUSES.counted_by),
        (rows, AFTER_PARTS, f"'{_AFTER_PART}'", ""),
    ]
    return (
        f"SELECT {names}, total.1 AS Measure, '' AS Part, toInt16({_TOTAL}) AS Bin, "
        f"total.2 AS Count, total.3 AS Sum FROM (SELECT {read}, {_totals(by)} AS totals "
        f"FROM {rows} GROUP BY {names}) ARRAY JOIN totals AS total WHERE total.2 > 0 "
        f"UNION ALL SELECT {names}, {_MEASURES}[number] AS Measure, '' AS Part, "
        "toInt16(bin) AS Bin, Count, 0. AS Sum FROM ("
        f"SELECT {names}, pair.1 AS number, {bin_} AS bin, {by.count()} AS Count FROM "
        f"(SELECT {read}{also}, arrayJoin(arrayFilter(one -> one.2 >= 0, "
        f"arrayZip(range(1, {len(_MEASURES) + 1}), {_VALUES}))) AS pair "
        f"FROM {rows}) GROUP BY {names}, number, bin)"
    ) + "".join(
        f" UNION ALL SELECT * FROM (SELECT {read}, {measure} AS Measure, name AS Part, "
        f"toInt16({_TOTAL}) AS Bin, {by.count(counted_by)} AS Count, "
        f"{by.total('toFloat64(ns)')} AS Sum FROM {some_rows} {joined} "
        f"GROUP BY {names}, Measure, Part "
        f"ORDER BY Sum DESC, Part LIMIT {_MOST_NAMED} BY {names}, Measure)"
        for some_rows, joined, measure, counted_by in parts_of
    )


def _roll_up(standing: Standing) -> str:
    labels = {**_PLACES, **_LABELS}
    columns = ", ".join((*labels, *_COUNTS))
    entries = _entries(standing, "true", _LISTED, labels)
    return (
        f"INSERT INTO {ROLLUPS} (Pass, {columns}) "
        f"SELECT {{pass:UInt64}}, {columns} FROM ({entries})"
    )


# The windows `{windows}` under the number `{pass}`, of rows with weights or without.
ROLL_UP: Final = {one: _roll_up(Standing(weighted=one)) for one in (True, False)}


def is_by_labels(cohort: Cohort) -> bool:
    """Say whether rollups distinguish the requests of a cohort from others."""
    compared = {column for column, _ in cohort.compared()}
    return not (cohort.where or cohort.without) and compared <= _LABELS.keys()


def breakdown_question(
    cohort: Cohort, standing: Standing | None, routes: Routes = None
) -> tuple[str, Parameters]:
    """A row for each measure of a cohort that `is_by_labels`, for `breakdowns_from`.

    Args:
        cohort: Whatever was asked for. Its rollups `{passes}` are counted.
        standing: How the requests of the windows `{exact}` are read; None: there are none.
        routes: Each has rows of its own.
    """
    condition, parameters = where(cohort, routes=routes)
    labelled, _ = where(
        cohort.model_copy(update={"since_ns": None, "until_ns": None}), routes=routes
    )
    part = part_columns(routes)
    names = ", ".join([*part, "Which", "Measure", "Part"])
    kind = "Kind" if cohort.route is None else "0"
    kind = f"if({kind} = 0 AND NOT ({has_stages(cohort)}), {_WITHOUT_STAGES}, {kind})"
    counts = (
        f"SELECT {', '.join([*part, f'{kind} AS Which'])}, Measure, Part, Bin, "
        f"sum(Count) AS Count, sum(Sum) AS Sum FROM {ROLLUPS} WHERE ({labelled}) AND "
        "(Window, Pass) IN {passes:Array(Tuple(UInt32, UInt64))} "
        f"GROUP BY {names}, Bin"
    )
    if standing is not None:
        labels = {**{name: name for name in part}, **_KINDS}
        exact = _entries(standing, condition, windows("exact"), labels)
        counts = (
            f"SELECT {names}, Bin, sum(Count) AS Count, sum(Sum) AS Sum FROM "
            f"({counts} UNION ALL SELECT {', '.join([*part, f'{kind} AS Which', *_COUNTS])} "
            f"FROM ({exact})) GROUP BY {names}, Bin"
        )
    return (
        (
            f"SELECT {names}, sumIf(Count, Bin = {_TOTAL}), sum(Sum), "
            f"groupArrayIf(Bin, Bin != {_TOTAL}), groupArrayIf(Count, Bin != {_TOTAL}) "
            f"FROM ({counts}) WHERE Which = 0 OR Measure = '{_DURATION}' "
            f"GROUP BY {names}"
        ),
        parameters,
    )


def breakdowns_from(
    lines: bytes, max_concurrency: Mapping[Part, int], routes: Routes
) -> dict[Part, Breakdown]:
    """The breakdowns from the answer to their question in the format JSONCompactEachRow."""
    names = len(part_columns(routes))
    by_part: dict[Part, list[list[Any]]] = {} if names else {(): []}
    for line in lines.splitlines():
        row = orjson.loads(line)
        by_part.setdefault(tuple(row[:names]), []).append(row[names:])
    return {part: _breakdown(rows, max_concurrency.get(part)) for part, rows in by_part.items()}


def _breakdown(rows: list[list[Any]], max_concurrency: int | None) -> Breakdown:
    left_out = {kind: count for kind, measure, _, count, *_ in rows if measure == _DURATION}
    requests, reduced = left_out.pop(0, 0), left_out.pop(_WITHOUT_STAGES, 0)
    found = {measure: _Measured(*row) for kind, measure, _, *row in rows if not kind}
    duration_ns = found[_DURATION].total if requests else 0.0
    parts = [
        (measure, (name, count, total_ns))
        for kind, measure, name, count, total_ns, *_ in rows
        if measure in _PART.values() and not kind
    ]
    stages = tuple(
        _stage(
            stage,
            found[stage_column(stage)],
            requests,
            duration_ns,
            [part for measure, part in parts if measure == _PART.get(stage)],
        )
        for stage in Stage
        if stage_column(stage) in found
    )
    rate = found.get(_TOKEN_RATE)
    of_model, in_less = found.get(_OF_MODEL), found.get(_REDUCED)
    return Breakdown(
        requests=requests,
        attributed_ratio=sum(one.share_ratio for one in stages if one.stage.explains)
        if requests
        else None,
        duration_ns=_quantiles(found.get(_DURATION)),
        time_to_first_token_ns=_quantiles(found.get(_FIRST_TOKEN)),
        first_tokens_of_model=of_model.count if of_model else 0,
        time_per_output_token_ns=_quantiles(found.get(_PER_TOKEN)),
        output_tokens_per_second=rate.mean if rate else None,
        stages=stages,
        after=_after(found.get(_AFTER), rows),
        health_left_out=sum(left_out.values()) - left_out.get(_STARTUP, 0),
        startup_left_out=left_out.get(_STARTUP, 0),
        reduced_detail_left_out=reduced,
        reduced_requests=in_less.count if in_less else 0,
        max_concurrency=max_concurrency,
        quantile_error_ratio=ERROR_RATIO,
    )


def concurrency_question(
    cohort: Cohort, standing: Standing, routes: Routes = None
) -> tuple[str, Parameters]:
    """The most requests under way at once, for `concurrency_from`."""
    rows, bound = rows_of(cohort, standing, routes=routes)
    part = part_columns(routes)
    selected = ", ".join([*part, AT_ONCE.format("", "")])
    grouped = f" GROUP BY {', '.join(part)}" if part else " HAVING count() > 0"
    return f"SELECT {selected} FROM {rows}{grouped}", bound


def concurrency_from(lines: bytes) -> dict[Part, int]:
    """The answer to that question in the format JSONCompactEachRow."""
    return {tuple(part): number for *part, number in map(orjson.loads, lines.splitlines())}


class _Measured:
    """A measure over the requests that have it."""

    def __init__(self, count: int, total: float, bins: list[int], counts: list[int]) -> None:
        self.count = count
        self.total = total
        self.mean = total / count
        self._histogram = Histogram(dict(zip(bins, counts, strict=True)))

    def quantiles(self, levels: Iterable[float]) -> Sequence[float]:
        """Return quantiles of what lies in bins."""
        return [self._histogram.quantile(level) for level in levels]


def _after(found: _Measured | None, rows: Iterable[list[Any]]) -> WorkAfter | None:
    if found is None:
        return None
    p50_ns, p95_ns, p99_ns = found.quantiles(_STAGE_LEVELS)
    return WorkAfter(
        requests=found.count,
        mean_ns=found.mean,
        p50_ns=p50_ns,
        p95_ns=p95_ns,
        p99_ns=p99_ns,
        stages=after_stages(
            {
                name: total_ns
                for kind, measure, name, _, total_ns, *_ in rows
                if measure == _AFTER_PART and not kind
            },
            found.count,
        ),
    )


def _quantiles(found: _Measured | None) -> Quantiles | None:
    if found is None:
        return None
    p50, p90, p95, p99, p999 = found.quantiles(_LEVELS)
    return Quantiles(mean=found.mean, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


def _stage(
    stage: Stage,
    found: _Measured,
    requests: int,
    duration_ns: float,
    parts: Iterable[tuple[str, int, float]],
) -> StageBreakdown:
    p50_ns, p95_ns, p99_ns = found.quantiles(_STAGE_LEVELS)
    longest = sorted(parts, key=lambda part: (-part[2], part[0]))[:MOST_PARTS]
    return StageBreakdown(
        stage=stage,
        mean_ns=found.total / requests,
        share_ratio=found.total / duration_ns,
        p50_ns=p50_ns,
        p95_ns=p95_ns,
        p99_ns=p99_ns,
        requests=found.count,
        parts=tuple(
            StagePart(
                name=name,
                mean_ns=total_ns / requests,
                share_ratio=total_ns / duration_ns,
                requests=count,
            )
            for name, count, total_ns in longest
        ),
    )
