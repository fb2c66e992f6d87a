"""The questions about requests: their SQL, bound parameters and how answers are read."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, cast

import orjson

from latencytrace.analysis.trace.is_request import BATCHES
from latencytrace.model import (
    Breakdown,
    Quantiles,
    Request,
    RequestStatus,
    Stage,
    StageBreakdown,
    StagePart,
    semconv,
)
from latencytrace.model.cohorts.breakdown import WorkAfter
from latencytrace.model.detail import WITHOUT_STAGES, TraceDetail
from latencytrace.model.stage import IN_PARTS
from latencytrace.service.cohort import FAILED, LABELS, Cohort
from latencytrace.service.plain_answers import MOST_PARTS
from latencytrace.service.sql.counting import Standing
from latencytrace.service.sql.tables import ARRIVALS, REQUESTS, SPANS, stage_column
from latencytrace.service.store import Order

Parameters = Mapping[str, object]
Query = Callable[[str, str, Parameters], bytes]  # a question, a format, what it binds
Routes = Sequence[tuple[str, str]] | None  # services and routes, each by itself; None: as a whole
_Row = Mapping[str, Any]
Part = tuple[str, ...]  # a service and its route; empty: all of a cohort

SERVICES: Final = (
    f"SELECT DISTINCT ServiceName FROM {REQUESTS} WHERE NOT Moved ORDER BY ServiceName"
)
ROUTES: Final = (
    f"SELECT DISTINCT Route FROM {REQUESTS} "
    "WHERE NOT Moved AND NOT Health AND NOT Startup AND ({service:Nullable(String)} IS NULL "
    "OR ServiceName = {service:Nullable(String)}) "
    # Revisions from before it was known that their process only began: `FINAL` would cost more.
    f"AND (TraceId, SpanId) NOT IN (SELECT TraceId, SpanId FROM {REQUESTS} WHERE Startup) "
    "ORDER BY Route"
)
INSTANCES: Final = (
    f"SELECT DISTINCT ServiceName, ServiceInstance FROM {REQUESTS} "
    "WHERE Written >= now() - INTERVAL 7 DAY AND ServiceInstance IS NOT NULL AND NOT Startup"
)
_OF_TRACES: Final = "TraceId IN {trace_ids:Array(String)}"
ARRIVED_COUNTS: Final = (  # requests that were kept at once came before any arrival of theirs
    f"SELECT TraceId, count() FROM (SELECT TraceId FROM {ARRIVALS} WHERE {_OF_TRACES} UNION ALL "
    f"SELECT TraceId FROM (SELECT TraceId, SpanId, Arrived FROM {SPANS} WHERE {_OF_TRACES} "
    "AND Arrived >= now() - INTERVAL 3 HOUR) AS Kept LEFT JOIN "
    f"(SELECT TraceId, SpanId, min(Arrived) AS First FROM {ARRIVALS} WHERE {_OF_TRACES} "
    "GROUP BY TraceId, SpanId) AS Came USING TraceId, SpanId "
    "WHERE First = 0 OR Arrived < First) GROUP BY TraceId"
)
REVISIONS: Final = (  # all of them: asking for the highest would cost 1.5 ms of CPU more
    f"SELECT TraceId, SpanId, Revision FROM {REQUESTS} "
    "WHERE TraceId IN {trace_ids:Array(String)}"
)
KEPT_COUNTS: Final = (
    f"SELECT TraceId, uniqExact(SpanId, ServiceName, SpanKind) FROM {SPANS} "
    "WHERE TraceId IN {trace_ids:Array(String)} GROUP BY TraceId"
)
STANDING: Final = (  # where requests stand, to be voided if they moved, and how they count
    "SELECT TraceId, SpanId, reinterpretAsUInt64(toUnixTimestamp64Nano(Start)), "
    "toUnixTimestamp64Nano(if(CountedAs = 0, Written, CountedAs)) "
    f"FROM {REQUESTS} FINAL PREWHERE TraceId IN {{trace_ids:Array(String)}}"
)
_CAME: Final = "SELECT TraceId, Arrived, ParentSpanId, SpanAttributes FROM"
_UNASSEMBLED: Final = (  # no request was written since their last span arrived
    "SELECT TraceId FROM (SELECT TraceId, max(Arrived) AS LastArrived FROM {came} "
    "GROUP BY TraceId) AS Came LEFT JOIN "
    # A request is written after its spans arrived.
    f"(SELECT TraceId, max(Written) AS LastWritten FROM {REQUESTS} "
    "WHERE Written >= (SELECT if(count() > 0, min(Arrived), now()) FROM {came}) - INTERVAL 1 HOUR "
    "GROUP BY TraceId) AS Done USING TraceId "
    "WHERE LastArrived > LastWritten "
    # A shared step never has a request: it is done unless the process ended in its last minute.
    f"AND (LastArrived > (SELECT max(Written) FROM {REQUESTS} WHERE {{mine}}) - INTERVAL 1 MINUTE "
    "OR TraceId NOT IN (SELECT TraceId FROM {came} "
    f"WHERE ParentSpanId = '' AND mapContains(SpanAttributes, '{semconv.SHARED}')))"
)


def written_by(writer: str) -> str:
    """The condition that a service wrote a row; empty: any row, since there is one writer."""
    return f"Writer = '{writer}'" if writer else "true"


def unassembled(mine: str) -> str:
    """Traces of which spans came, and no request was written since.

    Args:
        mine: What is true of rows of the service that asks, here and below.
    """
    came = ARRIVALS if mine == "true" else f"({_CAME} {ARRIVALS} WHERE {mine}) AS Mine"
    return _UNASSEMBLED.format(came=came, mine=mine)


def unassembled_anywhere() -> str:
    """The same over both tables of spans; only where one service writes."""
    return _UNASSEMBLED.format(
        came=f"({_CAME} {ARRIVALS} UNION ALL {_CAME} {SPANS} "
        "WHERE Arrived >= now() - INTERVAL 2 HOUR) AS Either",
        mine="true",
    )


def without_ledger(mine: str) -> str:
    """Traces whose root came in a stretch of time, and which have no request."""
    batches = "".join(
        f"AND NOT (SpanName = '{name}' AND mapContains(SpanAttributes, '{key}')) "
        for name, key in BATCHES.items()
    )
    return (
        f"SELECT DISTINCT TraceId FROM {ARRIVALS} "
        "WHERE Arrived >= fromUnixTimestamp64Nano({since:Int64}) "
        "AND Arrived < fromUnixTimestamp64Nano({until:Int64}) AND ParentSpanId = '' "
        f"AND {mine} AND NOT mapContains(SpanAttributes, '{semconv.SHARED}') "
        f"{batches}"
        f"AND TraceId NOT IN (SELECT TraceId FROM {REQUESTS} "
        "WHERE Written >= fromUnixTimestamp64Nano({since:Int64}) - INTERVAL 3 HOUR)"
    )


def known_traces(mine: str) -> str:
    """The traces of a day; some more than once."""
    return (
        f"SELECT toFixedString(unhex(TraceId), 16) FROM {REQUESTS} "
        "WHERE Written >= fromUnixTimestamp64Nano({since:Int64}) "
        f"AND Written < fromUnixTimestamp64Nano({{until:Int64}}) AND {mine}"
    )


def last_written(mine: str) -> str:
    """The moment that a request was written under last."""
    return f"SELECT toUnixTimestamp64Nano(max(Written)) FROM {REQUESTS} WHERE {mine}"


def rootless_lately(mine: str) -> str:
    """Traces of the last minutes of which no root came."""
    came = " UNION ALL ".join(
        f"SELECT TraceId, ParentSpanId FROM {table} "
        f"WHERE Arrived >= now() - INTERVAL 10 MINUTE AND {mine}"
        for table in (ARRIVALS, SPANS)
    )
    return f"SELECT TraceId FROM ({came}) GROUP BY TraceId HAVING min(ParentSpanId) != ''"


def elsewhere(mine: str) -> str:
    """Those of the traces `{trace_ids:Array(String)}` with spans that another service stored."""
    others = f"TraceId IN {{trace_ids:Array(String)}} AND NOT ({mine})"
    return (
        f"SELECT TraceId FROM {ARRIVALS} WHERE {others} "
        f"UNION DISTINCT SELECT TraceId FROM {SPANS} WHERE {others}"
    )


_TWO_THREADS: Final = "max_threads = 2"
# Of many wide rows the engine by itself reads little at a time, and with one thread only.
WIDE_ROWS: Final = (
    f"{_TWO_THREADS}, merge_tree_min_rows_for_concurrent_read = 65536, "
    "merge_tree_min_bytes_for_concurrent_read = 1000000, preferred_block_size_bytes = 16000000"
)

_SIGN: Final = 1 << 63
_TOKENS_PER_S: Final = "1e9 / nullIf(TimePerOutputTokenNs, 0)"
_LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)
_STAGE_LEVELS = (0.5, 0.95, 0.99)
_FULL: Final = f"'{TraceDetail.FULL}'"
AT_ONCE: Final = (  # the most requests under way at once
    "maxIntersections{}(toUnixTimestamp64Nano(Start), "
    "toUnixTimestamp64Nano(Start) + toInt64(DurationNs){})"
)
OF_MODEL: Final = "TimeToFirstTokenOf = 'model'"


_OUTERMOST: Final = "Outermost"
_OF_ROUTES: Final = "(ServiceName, Route) IN {routes:Array(Tuple(String, String))}"


def where(
    cohort: Cohort, *, unsure: bool = False, outermost: bool = True, routes: Routes = None
) -> tuple[str, Parameters]:
    """The condition that a request belongs to a cohort, and what it binds.

    Args:
        unsure: So do requests that may, for not all of their attributes are kept.
        outermost: Without a service, only outermost requests belong to it.
        routes: Only requests of these, inner ones too.
    """
    whole = routes is None and outermost and cohort.service is None
    parameters: dict[str, object] = {} if routes is None else {"routes": routes}
    conditions: list[str] = [_OUTERMOST] * whole + [_OF_ROUTES] * len(parameters)
    for column, wanted in cohort.compared():
        if isinstance(wanted, str):
            condition, parameters[column] = _label(column, wanted)
            conditions.append(condition)
            continue
        at_least, at_most = astuple(wanted)
        if at_least is not None:
            conditions.append(f"{column} >= {{{column}Least:Int64}}")
            parameters[f"{column}Least"] = at_least
        if at_most is not None:
            conditions.append(f"{column} <= {{{column}Most:Int64}}")
            parameters[f"{column}Most"] = at_most
    if cohort.where:
        parameters |= {
            f"attribute_{part}{place}": text
            for place, pair in enumerate(cohort.where)
            for part, text in zip(("key", "value"), pair, strict=True)
        }
        sure = has_attributes(cohort)
        conditions.append(f"({sure} OR AttributesLeftOut > 0)" if unsure else sure)
    conditions += [_has_not(key, place) for place, (key, _) in enumerate(cohort.without)]
    parameters |= {
        f"without_{part}{place}": text
        for place, pair in enumerate(cohort.without)
        for part, text in zip(("key", "value"), pair, strict=True)
    }
    if cohort.since_ns is not None:
        conditions.append("Start >= fromUnixTimestamp64Nano({since:Int64})")
        parameters["since"] = cohort.since_ns
    if cohort.until_ns is not None:
        conditions.append("Start < fromUnixTimestamp64Nano({until:Int64})")
        parameters["until"] = cohort.until_ns
    return " AND ".join(conditions) or "true", parameters


def _label(column: str, wanted: str) -> tuple[str, str]:
    """The condition that a label is as wanted, and what it binds."""
    if column == "Status" and wanted == FAILED:
        return f"{column} != {{{column}:String}}", RequestStatus.OK.value
    return f"{column} = {{{column}:String}}", wanted


def _has_not(key: str, place: int) -> str:
    """The condition that a request does not have a label or an attribute of this value."""
    if key in LABELS:
        return f"ifNull({LABELS[key]} != {{without_value{place}:String}}, true)"
    return (
        f"NOT arrayExists((key, value) -> key = {{without_key{place}:String}} "
        f"AND value = {{without_value{place}:String}}, `Attributes.Key`, `Attributes.Value`)"
    )


def has_attributes(cohort: Cohort) -> str:
    """The condition that a request has the attributes of a cohort; `where` binds them."""
    each = (
        f"arrayExists((key, value) -> key = {{attribute_key{place}:String}} "
        f"AND value = {{attribute_value{place}:String}}, `Attributes.Key`, `Attributes.Value`)"
        for place in range(len(cohort.where))
    )
    return " AND ".join(each) or "true"


def counted(cohort: Cohort) -> str:
    """Which requests of a cohort count: probes and starts only if their route was asked for."""
    return "NOT Health AND NOT Startup" if cohort.route is None else "true"


def has_stages(cohort: Cohort) -> str:
    """Which of them say what they spent their time on, or were asked for."""
    named = ", ".join(f"'{detail}'" for detail in WITHOUT_STAGES)
    return f"Detail NOT IN ({named})" if cohort.detail is None else "true"


def explained(cohort: Cohort) -> str:
    """Which requests of a cohort questions about stages are over."""
    return f"{counted(cohort)} AND {has_stages(cohort)}"


def rows_of(
    cohort: Cohort,
    standing: Standing,
    which: Callable[[Cohort], str] = explained,
    columns: str = "*",
    *,
    also: str = "",
    outermost: bool = True,
    routes: Routes = None,
) -> tuple[str, dict[str, object]]:
    """The rows of a cohort that a question reads, as what follows `FROM`, and what they bind.

    Args:
        which: Which requests of the cohort: `explained` or `counted`.
        also: A further condition; empty: none.
        outermost: Passed to `where`; so is the next.
    """
    condition, parameters = where(cohort, outermost=outermost, routes=routes)
    met = " AND ".join(filter(None, (condition, which(cohort), also)))
    return standing.rows(met, columns), {**parameters, **standing.bound()}


def breakdown_question(
    cohort: Cohort, standing: Standing, routes: Routes = None
) -> tuple[str, Parameters]:
    """A row of the cohort, or of each of some routes, with everything `breakdowns_from` reads."""
    condition, parameters = where(cohort, unsure=True, routes=routes)
    sure = has_attributes(cohort)
    # Said once: a condition that is repeated for each stage takes longer to read than the rows.
    rows = standing.rows(condition, f"*, {explained(cohort)} AND {sure} AS Explained")
    which = "Explained"
    by = standing.counting
    selected = [
        *part_columns(routes),
        f"{by.count(which)} AS requests",
        f"{by.count(sure)} AS all_requests",
        f"{by.count(f'Startup AND NOT ({counted(cohort)}) AND {sure}')} AS startup",
        f"{by.count(f'{explained(cohort)} AND NOT ({sure})')} AS unsure",
        f"{by.count(f'{counted(cohort)} AND NOT ({has_stages(cohort)}) AND {sure}')} AS reduced",
        f"{by.count(f'{which} AND Detail != {_FULL}')} AS reduced_counted",
        f"{by.total('toFloat64(DurationNs)', which)} AS duration",
        f"{by.count(f'{which} AND {OF_MODEL}')} AS first_tokens_of_model",
        f"{by.mean(_TOKENS_PER_S, which, 'Float64')} AS tokens_per_second",
        f"{AT_ONCE.format('If', f', {which}')} AS concurrency",
    ]
    for name in ("DurationNs", "TimeToFirstTokenNs", "TimePerOutputTokenNs"):
        selected += [
            f"{by.mean(name, which)} AS {name}Mean",
            f"{by.quantiles(_LEVELS, name, which)} AS {name}Quantiles",
        ]
    for column in (*map(stage_column, Stage), "AfterNs"):
        has = f"{which} AND {column} > 0"
        selected += [
            f"{by.total(f'toFloat64({column})', which)} AS {column}Sum",
            f"{by.count(has)} AS {column}Count",
            f"{by.quantiles(_STAGE_LEVELS, column, has)} AS {column}Quantiles",
        ]
    grouped = f" GROUP BY {', '.join(PART)}" if routes is not None else ""
    return (
        f"SELECT {', '.join(selected)} FROM {rows}{grouped}",
        {**parameters, **standing.bound()},
    )


PART: Final = ("ServiceName", "Route")


def part_columns(routes: Routes) -> Part:
    """The columns that distinguish routes."""
    return () if routes is None else PART


def part_of(row: Mapping[str, object]) -> Part:
    """The part of a cohort that a row is of."""
    return tuple(cast(str, row[name]) for name in PART if name in row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Stages whose time is known by names, and how the names of a request are read."""

    stages: tuple[Stage, ...]
    joined: str  # makes rows of `stage`, `name` and `ns` of each request
    counted_by: str  # which of these rows are counted, so that a request is once

    @property
    def has_some(self) -> str:
        """The condition that a request has one of the stages."""
        return f"({' OR '.join(f'{stage_column(stage)} > 0' for stage in self.stages)})"


BY_SEGMENTS: Final = tuple(stage for stage in IN_PARTS if stage is not Stage.RUNTIME)
_OF_THEM: Final = (
    f"arrayFilter((_, one) -> has({[*map(str, BY_SEGMENTS)]}, one), {{}}, `Segments.Stage`)"
)
_STAGES: Final = _OF_THEM.format("`Segments.Stage`")
_NAMES: Final = _OF_THEM.format("`Segments.Name`")
_LENGTHS: Final = _OF_THEM.format(
    "arrayPopFront(arrayDifference(arrayPushFront(`Segments.EndNs`, 0)))"
)
# Only stages with names read segments, which are wide; nothing is written for them.
SEGMENTS: Final = Named(
    stages=BY_SEGMENTS,
    joined=(
        f"ARRAY JOIN {_STAGES} AS stage, {_NAMES} AS name, {_LENGTHS} AS ns, "
        f"arrayEnumerateUniq({_STAGES}, {_NAMES}) AS nth"
    ),
    counted_by="nth = 1",  # the first of a name
)
PAUSES: Final = Named(
    stages=(Stage.RUNTIME,),
    joined=(
        "ARRAY JOIN `Runtime.Name` AS name, `Runtime.Ns` AS ns, "
        f"arrayMap(_ -> '{Stage.RUNTIME}', `Runtime.Name`) AS stage"
    ),
    counted_by="",
)
NAMED: Final = (SEGMENTS, PAUSES)


def parts_question(
    cohort: Cohort, named: Named, standing: Standing, routes: Routes = None
) -> tuple[str, Parameters]:
    """The longest parts of stages with names: a narrow question beside the breakdown's."""
    rows, bound = rows_of(cohort, standing, also=named.has_some, routes=routes)
    by = standing.counting
    of = ", ".join([*part_columns(routes), "stage"])
    question = (
        f"SELECT {of}, name, {by.total('toFloat64(ns)')} AS total_ns, "
        f"{by.count(named.counted_by)} AS requests FROM {rows} {named.joined} "
        f"GROUP BY {of}, name ORDER BY total_ns DESC, name LIMIT {MOST_PARTS} BY {of}"
    )
    return question, bound


# What requests went on with after their answers, as rows likewise: a stage's name once a request.
AFTER_PARTS: Final = "ARRAY JOIN `After.Stage` AS name, `After.Ns` AS ns"


def after_question(
    cohort: Cohort, standing: Standing, routes: Routes = None
) -> tuple[str, Parameters]:
    """The stages of what requests went on with after their answers."""
    rows, bound = rows_of(cohort, standing, also="AfterNs > 0", routes=routes)
    total_ns = standing.counting.total("toFloat64(ns)")
    names = ", ".join([*part_columns(routes), "name"])
    return (
        f"SELECT {names}, {total_ns} AS total_ns FROM {rows} {AFTER_PARTS} GROUP BY {names}"
    ), bound


def with_after(found: Mapping[Part, Breakdown], lines: bytes) -> dict[Part, Breakdown]:
    """Breakdowns, of which some went on, with the answer to that question."""
    rows = _by_part(lines)
    return {
        part: one
        if one.after is None
        else replace(one, after=replace(one.after, stages=_after_stages(rows[part], one.after)))
        for part, one in found.items()
    }


def _after_stages(rows: Iterable[_Row], after: WorkAfter) -> tuple[tuple[Stage, float], ...]:
    return after_stages({row["name"]: row["total_ns"] for row in rows}, after.requests)


def _by_part(lines: bytes) -> Mapping[Part, list[_Row]]:
    """The rows of an answer, by the part of the cohort that each is of."""
    rows: dict[Part, list[_Row]] = defaultdict(list)
    for line in lines.splitlines():
        row = orjson.loads(line)
        rows[part_of(row)].append(row)
    return rows


def after_stages(total_ns: Mapping[str, float], requests: int) -> tuple[tuple[Stage, float], ...]:
    """The mean of each stage over so many requests that went on, the longest first."""
    longest = sorted(total_ns, key=lambda name: (-total_ns[name], name))
    return tuple((Stage(name), total_ns[name] / requests) for name in longest)


def with_parts(found: Mapping[Part, Breakdown], lines: bytes) -> dict[Part, Breakdown]:
    """Breakdowns of at least one request each with the answer to that question."""
    rows = _by_part(lines)
    return {part: _with_parts(one, rows[part]) for part, one in found.items()}


def _with_parts(found: Breakdown, rows: Iterable[_Row]) -> Breakdown:
    duration_ns = 0.0 if found.duration_ns is None else found.duration_ns.mean * found.requests
    parts: dict[str, list[StagePart]] = defaultdict(list)
    for row in rows:
        parts[row["stage"]].append(
            StagePart(
                name=row["name"],
                mean_ns=row["total_ns"] / found.requests,
                share_ratio=row["total_ns"] / duration_ns,
                requests=row["requests"],
            )
        )
    stages = (
        replace(one, parts=tuple(parts[one.stage])) if one.stage in parts else one
        for one in found.stages
    )
    return replace(found, stages=tuple(stages))


def breakdowns_from(lines: bytes) -> dict[Part, Breakdown]:
    """The breakdowns from the answer to their question in the format JSONEachRow."""
    rows = map(orjson.loads, lines.splitlines())
    return {part_of(row): _breakdown(row) for row in rows}


def _breakdown(row: _Row) -> Breakdown:
    requests = cast(int, row["requests"])
    duration = cast(float, row["duration"])
    stages = tuple(
        _stage(row, stage, requests, duration)
        for stage in Stage
        if row[f"{stage_column(stage)}Count"]
    )
    attributed = sum(stage.share_ratio for stage in stages if stage.stage.explains)
    return Breakdown(
        requests=requests,
        attributed_ratio=attributed if requests else None,
        duration_ns=_quantiles(row, "DurationNs"),
        time_to_first_token_ns=_quantiles(row, "TimeToFirstTokenNs"),
        first_tokens_of_model=cast(int, row["first_tokens_of_model"]),
        time_per_output_token_ns=_quantiles(row, "TimePerOutputTokenNs"),
        output_tokens_per_second=cast(float | None, row["tokens_per_second"]),
        stages=stages,
        after=_after(row),
        health_left_out=cast(int, row["all_requests"])
        - sum(cast(int, row[name]) for name in ("requests", "startup", "reduced")),
        startup_left_out=cast(int, row["startup"]),
        reduced_detail_left_out=cast(int, row["reduced"]),
        reduced_requests=cast(int, row["reduced_counted"]),
        unsure_left_out=cast(int, row["unsure"]),
        max_concurrency=cast(int, row["concurrency"]) if requests else None,
    )


def _quantiles(row: Mapping[str, object], name: str) -> Quantiles | None:
    mean = cast(float | None, row[f"{name}Mean"])
    if mean is None:
        return None
    p50, p90, p95, p99, p999 = cast(list[float], row[f"{name}Quantiles"])
    return Quantiles(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


def _after(row: Mapping[str, object]) -> WorkAfter | None:
    """Work after the answers, without its stages."""
    requests = cast(int, row["AfterNsCount"])
    if not requests:
        return None
    p50_ns, p95_ns, p99_ns = cast(list[float], row["AfterNsQuantiles"])
    return WorkAfter(
        requests=requests,
        mean_ns=cast(float, row["AfterNsSum"]) / requests,
        p50_ns=p50_ns,
        p95_ns=p95_ns,
        p99_ns=p99_ns,
        stages=(),
    )


def _stage(
    row: Mapping[str, object], stage: Stage, requests: int, duration: float
) -> StageBreakdown:
    column = stage_column(stage)
    total = cast(float, row[f"{column}Sum"])
    p50, p95, p99 = cast(list[float], row[f"{column}Quantiles"])
    return StageBreakdown(
        stage=stage,
        mean_ns=total / requests,
        share_ratio=total / duration,
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        requests=cast(int, row[f"{column}Count"]),
    )


def first_question(cohort: Cohort, order: Order, standing: Standing) -> tuple[str, Parameters]:
    """The sort key of the first `{limit:UInt32}` requests of a cohort, and of the next."""
    by, number, _ = _BY[order]
    rows, bound = rows_of(cohort, standing, counted, by)
    question = (
        f"SELECT {number} FROM {rows} ORDER BY {by} DESC LIMIT {{limit:UInt32}} + 1 "
        f"SETTINGS {_TWO_THREADS}"
    )
    return question, bound


def requests_question(
    cohort: Cohort,
    order: Order,
    columns: str,
    first: Sequence[int],
    standing: Standing,
) -> tuple[str, Parameters]:
    """The first `{limit:UInt32}` requests of a cohort, of those that are equal in any order.

    Args:
        first: The answer to `first_question`, not empty. It is a question of its own: only then
            the engine skips what comes later, and reads these whole only after it sorted them.
    """
    by, _, last = _BY[order]
    # Where one that is left out may equal the last, their ids decide.
    keys = f"{by} DESC, TraceId, SpanId" if first[-1] in first[-2:-1] else f"{by} DESC"
    rows, bound = rows_of(cohort, standing, counted, also=f"{by} >= {last}")
    question = (
        f"SELECT {columns} FROM {rows} ORDER BY {keys} LIMIT {{limit:UInt32}} "
        f"SETTINGS {_TWO_THREADS}"
    )
    return question, {**bound, "last": first[-1]}


def trace_ids_question(
    cohort: Cohort, beginning: str, limit: int, standing: Standing
) -> tuple[str, Parameters]:
    """The first traces, in order of id, that begin so and have a request in a cohort."""
    condition, parameters = where(cohort)
    rows = standing.rows(f"startsWith(TraceId, {{beginning:String}}) AND {condition}", "TraceId")
    return (
        f"SELECT DISTINCT TraceId FROM {rows} ORDER BY TraceId LIMIT {{limit:UInt32}}",
        {**parameters, **standing.bound(), "beginning": beginning, "limit": limit},
    )


_BY: Final = {  # the column, its number, and that number as the column
    Order.SLOWEST: ("DurationNs", "DurationNs", "{last:UInt64}"),
    Order.NEWEST: (
        "Start", "toUnixTimestamp64Nano(Start)", "fromUnixTimestamp64Nano({last:Int64}, 'UTC')"
    ),
}  # fmt: skip


def place(request: Request, order: Order) -> tuple[int, str, str]:
    """The place of a request in an order, as its columns hold it: of equal ones by their ids."""
    by = request.duration_ns if order is Order.SLOWEST else (request.start_ns ^ _SIGN) - _SIGN
    return -by, request.trace_id, request.span_id


def request_question(columns: str, *, outermost: bool) -> str:
    """One request of `{trace_id:String}`: the outermost, or that of `{span_id:String}`."""
    which = "Outermost" if outermost else "SpanId = {span_id:String}"
    return (
        f"SELECT {columns} FROM {REQUESTS} FINAL "
        f"PREWHERE TraceId = {{trace_id:String}} WHERE {which} "
        "ORDER BY Start, SpanId LIMIT 1"
    )


WRITTEN_NS: Final = (  # of the request `{span_id:String}` of `{trace_id:String}`
    f"SELECT toUnixTimestamp64Nano(argMax(Written, Revision)) FROM {REQUESTS} "
    "PREWHERE TraceId = {trace_id:String} WHERE SpanId = {span_id:String} HAVING count() > 0"
)


# `FINAL` would read all partitions, whatever the moment.
_KEYS: Final = "{keys:Array(Tuple(DateTime('UTC'), String, String))}"


def written_since(mine: str) -> str:
    """The keys of what was written after `{until:Int64}`."""
    return (
        "SELECT DISTINCT toUnixTimestamp(toStartOfFiveMinutes(Start)), TraceId, SpanId "
        f"FROM {REQUESTS} WHERE Written > fromUnixTimestamp64Nano({{until:Int64}}) AND {mine}"
    )


def uncounted_question(columns: str, mine: str) -> str:
    """Those with `{keys}`, written after `{until:Int64}`, that were not counted before."""
    return (
        f"SELECT {columns}, toUnixTimestamp64Nano(Written) AS WrittenNs FROM {REQUESTS} FINAL "
        f"WHERE (toStartOfFiveMinutes(Start), TraceId, SpanId) IN {_KEYS} "
        f"AND Written > fromUnixTimestamp64Nano({{until:Int64}}) AND NOT Moved AND {mine} "
        # A millisecond after 1970: it was counted at an unknown time.
        "AND (CountedAs = 0 "
        "OR CountedAs > fromUnixTimestamp64Nano(greatest({until:Int64}, 1000000))) "
    )


def written_question(columns: str) -> str:
    """All requests of the traces `{trace_ids:Array(String)}`."""
    return (
        f"SELECT {columns} FROM {REQUESTS} FINAL "
        # Other columns are read of these alone: the engine does not find out by itself that
        # every revision of a request has its trace id.
        "PREWHERE TraceId IN {trace_ids:Array(String)}"
    )


def service_question(columns: str) -> str:
    """All requests of `{service:Nullable(String)}`; null: of all services."""
    return (
        f"SELECT {columns} FROM {REQUESTS} FINAL WHERE {{service:Nullable(String)}} IS NULL "
        "OR ServiceName = {service:Nullable(String)}"
    )
