"""Requests as pages show them at a glance: routes side by side, durations over time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from latencytrace.model.cohorts.breakdown import Breakdown
from latencytrace.model.stage import Stage

LONG_LIVED_NS = 30 * 10**9  # half of the requests of a route, whose connections then stay open
IDLE = (Stage.RESPOND, Stage.NETWORK, Stage.UNATTRIBUTED, Stage.RUNTIME)
IDLE_RATIO = 0.9  # of their time


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn:
    """Some requests that started in one column of time."""

    column: int  # from 0, at the beginning of the cohort's time
    requests: int
    mean_ns: float
    p99_ns: float  # estimated from counts by rows of durations


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Requests taken together: how many, how long, and where their time went."""

    requests: int
    failed: int  # with a status that is not ok
    p50_ns: float
    p95_ns: float
    p99_ns: float
    mean_ns: Mapping[Stage, float]  # over all requests; absent stages left out
    timeline: tuple[TimeColumn, ...]  # those with requests, in order


class SummaryFields(TypedDict):
    """The fields of a `Summary`, for its subclasses."""

    requests: int
    failed: int
    p50_ns: float
    p95_ns: float
    p99_ns: float
    mean_ns: Mapping[Stage, float]
    timeline: tuple[TimeColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSummary(Summary):
    """A route of a service."""

    service: str
    route: str
    outermost: int  # requests that no other service called
    first_token_p50_ns: float | None  # None: no request has a first token
    first_tokens_of_model: int  # of them counted to the model's, for nothing was streamed
    versions: Mapping[str, int]  # by version, the start of its first request in this time

    @property
    def is_long_lived(self) -> bool:
        """Say whether its requests are connections that stay open.

        Half of them last for long, no token comes out, and nearly all of their time passes in
        sending and in waiting that no stage explains: heartbeats, channels of events, sockets.
        """
        idle_ns = sum(self.mean_ns.get(stage, 0.0) for stage in IDLE)
        return (
            self.p50_ns >= LONG_LIVED_NS
            and self.first_token_p50_ns is None
            and idle_ns >= IDLE_RATIO * sum(self.mean_ns.values())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Summary):
    """The requests of a cohort with one value of a label or an attribute."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """A cohort by the values of a label or an attribute: each request is in exactly one part."""

    groups: tuple[Group, ...]  # in order of their total time, longest first
    others: Summary | None  # all other values; None: there are none
    other_values: int  # how many these are
    without: Summary | None  # requests without a value; None: there are none
    unsure: int  # of those without: not all of their attributes are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The routes of a cohort that took most time in all."""

    routes: tuple[RouteSummary, ...]
    route_count: int  # of the whole cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteBreakdowns:
    """The routes of a cohort that took most time in all, each broken down by itself."""

    routes: Mapping[tuple[str, str], Breakdown]  # by service and route, the longest first
    route_count: int  # of the whole cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """The requests that started in one column of time and took about as long."""

    column: int  # from 0, at the beginning of the cohort's time
    row: int  # of durations, as `row_bounds_ns` has them
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageColumn:
    """The requests that started in one column of time, and where their time went."""

    column: int  # from 0, at the beginning of the cohort's time
    requests: int
    mean_ns: Mapping[Stage, float]  # over all of them; absent stages left out


ROWS_PER_DOUBLING = 4
FINE_ROWS = 16  # a doubling, for quantiles over time
_P99 = 0.99


def p99_of_rows_ns(counts: Mapping[int, int]) -> float:
    """The p99 of durations that were counted in fine rows, right within 2.2 %.

    Args:
        counts: By row, which is the whole part of the binary logarithm of the duration in
            nanoseconds times `FINE_ROWS`, how many requests; at least one.
    """
    rank = _P99 * sum(counts.values())
    for row in sorted(counts):
        rank -= counts[row]
        if rank <= 0:
            break
    return float(2 ** ((row + 0.5) / FINE_ROWS))


def row_bounds_ns(row: int) -> tuple[int, int]:
    """The durations of a row of a heat map: from the first, up to but without the second.

    The first row has those of 0 ns, too.
    """
    low, high = (2 ** (place / ROWS_PER_DOUBLING) for place in (row, row + 1))
    return -int(-low // 1) if row else 0, -int(-high // 1)
