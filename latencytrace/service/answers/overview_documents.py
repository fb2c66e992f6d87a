"""Documents of pages at a glance: routes side by side, durations over time."""

from operator import attrgetter

from typing_extensions import TypedDict

from latencytrace.model import Stage
from latencytrace.model.cohorts.overview import row_bounds_ns
from latencytrace.service.answers.documents import document
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Questions

TIMELINE_COLUMNS = 30
HEAT_MAP_COLUMNS = 60
_ROUND_NS = (10**9, 10**6)
ROUTES, MOST_ROUTES = 50, 1000  # unless more are asked for; at most


class TimeColumnDocument(TypedDict):
    """The requests that started in one column of a timeline."""

    column: int
    requests: int
    mean_ns: int
    p99_ns: int  # right within 2.2 %


class RouteDocument(TypedDict):
    """A route of a service: how many requests, how long, and where their time went."""

    service: str
    route: str
    requests: int
    outermost_requests: int  # requests that no other service called
    failed: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    first_token_p50_ns: int | None
    first_tokens_of_model: int
    mean_ns: dict[Stage, int]
    timeline: list[TimeColumnDocument]
    versions: dict[str, str]  # by version, the start of its first request in this time
    long_lived: bool  # connections that stay open: heartbeats, channels of events


class OverviewDocument(TypedDict):
    """The routes that took most time in all; `route_count` counts those left out as well."""

    since: str
    until: str
    column_ns: int  # of the timelines
    routes: list[RouteDocument]
    route_count: int


class HeatCellDocument(TypedDict):
    """The requests that started within a column of time and took about as long."""

    since: str
    until: str
    at_least_ns: int
    at_most_ns: int
    column: int
    row: int
    requests: int


class HeatMapDocument(TypedDict):
    """Durations over time; a row is a quarter of a doubling."""

    since: str
    until: str
    column_ns: int
    cells: list[HeatCellDocument]


def overview(
    store: Questions, cohort: Cohort, now_ns: int, limit: int = ROUTES
) -> OverviewDocument:
    """`GET /overview`, of so many routes."""
    since_ns, until_ns = times_ns(cohort, now_ns)
    column_ns = column_length_ns(since_ns, until_ns, TIMELINE_COLUMNS)
    found = store.overview(cohort, column_ns, limit)
    return {
        "since": str(since_ns),
        "until": str(until_ns),
        "column_ns": column_ns,
        "route_count": found.route_count,
        "routes": [
            document(
                RouteDocument,
                one,
                outermost_requests=one.outermost,
                versions={version: str(at_ns) for version, at_ns in one.versions.items()},
                long_lived=one.is_long_lived,
            )
            for one in sorted(found.routes, key=attrgetter("is_long_lived"))  # else as they were
        ],
    }


def heat_map(store: Questions, cohort: Cohort, now_ns: int) -> HeatMapDocument:
    """`GET /heatmap`."""
    since_ns, until_ns = times_ns(cohort, now_ns)
    column_ns = column_length_ns(since_ns, until_ns, HEAT_MAP_COLUMNS)
    cells: list[HeatCellDocument] = []
    for cell in store.heat_map(cohort, column_ns):
        low_ns, high_ns = row_bounds_ns(cell.row)
        start_ns = since_ns + cell.column * column_ns
        cells.append(
            document(
                HeatCellDocument,
                cell,
                since=str(start_ns),
                until=str(start_ns + column_ns),
                at_least_ns=low_ns,
                at_most_ns=high_ns - 1,
            )
        )
    return {
        "since": str(since_ns),
        "until": str(until_ns),
        "column_ns": column_ns,
        "cells": cells,
    }


def times_ns(cohort: Cohort, now_ns: int) -> tuple[int, int]:
    """The time of a cohort; without an end it ends now."""
    return cohort.since_ns or 0, cohort.until_ns or now_ns


def column_length_ns(since_ns: int, until_ns: int, columns: int) -> int:
    """The length of each of at most so many columns of a stretch of time: round, where it can be.

    Whole seconds, or whole milliseconds where columns are shorter than one.
    """
    least_ns = max(-(-(until_ns - since_ns) // columns), 1)
    unit_ns = next((unit_ns for unit_ns in _ROUND_NS if least_ns > unit_ns // 2), 1)
    return -(-least_ns // unit_ns) * unit_ns
