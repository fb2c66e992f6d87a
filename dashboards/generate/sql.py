"""SQL of the dashboards that ask ClickHouse: rows of requests, exact quantiles."""

from typing import Final, Literal

from dashboards.generate.dashboard import DATASOURCE, Json

CLICKHOUSE: Final = "grafana-clickhouse-datasource"
REQUESTS: Final = "latencytrace.requests FINAL"
CHOSEN: Final = (
    "NOT Health AND NOT Startup AND $__timeFilter(Start)"
    " AND ServiceName IN (${service:singlequote}) AND Route IN (${route:singlequote})"
)
LEVEL: Final = "${quantile:raw}"
TAIL: Final = (  # the duration from which on a request is of the tail
    f"(SELECT quantileExact({LEVEL})(DurationNs) FROM {REQUESTS} WHERE {CHOSEN})"
)
STEP: Final = "$__timeInterval(Start)"


def rows(sql: str) -> Json:
    """A query for a table."""
    return _asked(sql, "table", 1)


def series(sql: str) -> Json:
    """A query for lines: the time, labels, and `Value`, which Grafana leaves out of names."""
    return _asked(sql, "timeseries", 0)


def values_of(name: str, sql: str) -> Json:
    """A choice of what a query finds; all of it is the list of it."""
    return {
        "type": "query",
        "name": name,
        "label": name.capitalize(),
        "datasource": DATASOURCE,
        "query": sql,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
    }


def asking_clickhouse(dashboard: Json) -> Json:
    """The same dashboard with ClickHouse for its one data source."""
    asked = _replaced(dashboard)
    assert isinstance(asked, dict)  # noqa: S101 - as it went in
    return asked


def _asked(sql: str, kind: Literal["table", "timeseries"], number: int) -> Json:
    return {
        "datasource": DATASOURCE,
        "editorType": "sql",
        "queryType": kind,
        "format": number,  # what the plugin's server reads
        "rawSql": sql,
    }


def _replaced(part: object) -> object:
    if part == DATASOURCE:
        return {**DATASOURCE, "type": CLICKHOUSE}
    if isinstance(part, dict):
        of_source = part.get("type") == "datasource"
        return {
            key: CLICKHOUSE if of_source and key == "query" else _replaced(value)
            for key, value in part.items()
        }
    return [_replaced(value) for value in part] if isinstance(part, list) else part
