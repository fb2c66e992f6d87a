"""The tail asked of ClickHouse: exact quantiles, single requests, what sets them apart."""

from typing import Final

from dashboards.generate.dashboard import (
    SERVICE_URL,
    Json,
    choice,
    dashboard,
    link_of_data,
)
from dashboards.generate.panel import HALF, THIRD, WHOLE
from dashboards.generate.panels import graph
from dashboards.generate.sql import (
    CHOSEN,
    LEVEL,
    REQUESTS,
    STEP,
    TAIL,
    asking_clickhouse,
    rows,
    series,
    values_of,
)
from dashboards.generate.tables import listed
from latencytrace.model import Stage
from latencytrace.service.sql.tables import stage_column

_NAMES = ", ".join(f"'{stage}'" for stage in Stage)
_COLUMNS = ", ".join(map(stage_column, Stage))
_STAGES = f"ARRAY JOIN [{_NAMES}] AS Stage, [{_COLUMNS}] AS Ns"
_OF_TAIL = f"DurationNs >= {TAIL}"
_OF_MEDIAN = (
    f"DurationNs <= (SELECT quantileExact(0.5)(DurationNs) FROM {REQUESTS} WHERE {CHOSEN})"
)
_TO_TRACE = link_of_data(
    "The trace",
    f"{SERVICE_URL}/requests/${{__data.fields.Trace:percentencode}}",
)
_SECONDS = dict.fromkeys(("Duration", "To first token", "Per token"), "s")


def _apart(title: str, description: str, what: str) -> Json:
    """How often a property is met in the tail and among all."""
    return listed(
        title,
        description,
        rows(
            f"SELECT {what} AS Value, countIf({_OF_TAIL}) AS `In the tail`, count() AS Requests, "
            f"`In the tail` / Requests AS Share FROM {REQUESTS} WHERE {CHOSEN} "
            "GROUP BY Value ORDER BY Share DESC, Requests DESC LIMIT 20"
        ),
        units={"In the tail": "locale", "Requests": "locale", "Share": "percentunit"},
        width=THIRD,
    )


_SLOWEST = [
    listed(
        "Slowest requests",
        "Single requests with the stage that took longest. Click one for its trace.",
        rows(
            "SELECT TraceId AS Trace, Start, ServiceName AS Service, Route, Status, "
            "DurationNs / 1e9 AS Duration, "
            f"arrayReverseSort((stage, ns) -> ns, [{_NAMES}], [{_COLUMNS}])[1]"
            " AS `Longest stage`, "
            "TimeToFirstTokenNs / 1e9 AS `To first token`, "
            "TimePerOutputTokenNs / 1e9 AS `Per token`, "
            "InputTokens AS `Tokens in`, OutputTokens AS `Tokens out` "
            f"FROM {REQUESTS} WHERE {CHOSEN} ORDER BY DurationNs DESC LIMIT 50"
        ),
        units={**_SECONDS, "Tokens in": "locale", "Tokens out": "locale"},
        links={"Trace": _TO_TRACE},
    ),
    graph(
        "Duration of each route",
        "The chosen quantile, exact.",
        "s",
        [
            series(
                f"SELECT {STEP} AS time, Route, quantileExact({LEVEL})(DurationNs) / 1e9 AS Value "
                f"FROM {REQUESTS} WHERE {CHOSEN} GROUP BY time, Route ORDER BY time"
            )
        ],
        width=WHOLE,
    ),
]
_WHY = [
    listed(
        "What the tail spends longer on",
        "Mean time in each stage of the requests at the chosen quantile and above, and of the "
        "faster half; the differences add up to that of the durations.",
        rows(
            f"SELECT Stage, avgIf(Ns, {_OF_TAIL}) / 1e9 AS `In the tail`, "
            f"avgIf(Ns, {_OF_MEDIAN}) / 1e9 AS `In the faster half`, "
            "`In the tail` - `In the faster half` AS Longer "
            f"FROM {REQUESTS} {_STAGES} WHERE {CHOSEN} "
            "GROUP BY Stage HAVING sum(Ns) > 0 ORDER BY Longer DESC"
        ),
        units={"In the tail": "s", "In the faster half": "s", "Longer": "s"},
        width=HALF,
    ),
    graph(
        "Mean time of the tail in each stage",
        "Of the requests at the chosen quantile and above; the stages add up to their mean "
        "duration.",
        "s",
        [
            series(
                f"SELECT {STEP} AS time, Stage, avg(Ns) / 1e9 AS Value "
                f"FROM {REQUESTS} {_STAGES} WHERE {CHOSEN} AND {_OF_TAIL} "
                "GROUP BY time, Stage ORDER BY time"
            )
        ],
        stacked=True,
        by_stage=True,
        width=HALF,
    ),
]
_SETS_APART = [
    _apart(
        "Instances",
        "Share of each instance's requests that are of the tail: all alike, or one of them?",
        "ifNull(ServiceInstance, '')",
    ),
    _apart(
        "Versions",
        "Share of each version's requests that are of the tail.",
        "ifNull(ServiceVersion, '')",
    ),
    _apart(
        "Input tokens",
        "Share of the requests of each size that are of the tail, by powers of two.",
        "if(InputTokens > 0, toString(exp2(floor(log2(InputTokens)))), 'unknown')",
    ),
]

TAIL_CLICKHOUSE: Final = asking_clickhouse(
    dashboard(
        "latencytrace-clickhouse-tail",
        "latencytrace / Tail (ClickHouse)",
        "Which requests are slowest and why, from the rows of requests in ClickHouse.",
        variables=[
            values_of(
                "service",
                "SELECT DISTINCT ServiceName FROM latencytrace.requests "
                "WHERE NOT Health AND NOT Startup",
            ),
            values_of(
                "route",
                "SELECT DISTINCT Route FROM latencytrace.requests "
                "WHERE NOT Health AND NOT Startup AND ServiceName IN (${service:singlequote})",
            ),
            choice("quantile", "Quantile", ["0.5", "0.9", "0.95", "0.99", "0.999"], "0.99"),
        ],
        rows={
            "The slowest": _SLOWEST,
            "Why they are slow": _WHY,
            "What sets them apart": _SETS_APART,
        },
    )
)
