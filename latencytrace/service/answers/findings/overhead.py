"""`GET /overhead`: the agent's own part in durations, against a control group."""

from collections.abc import Callable
from functools import reduce
from typing import Final

from latencytrace.analysis.compare.control import (
    ControlOverhead,
    Difference,
    RouteOverhead,
    control_overhead,
)
from latencytrace.model.cohorts.request_columns import DurationBand, RequestColumns
from latencytrace.model.detail import TraceDetail
from latencytrace.model.texts.units import signed
from latencytrace.service.answers.findings.overhead_documents import (
    OverheadDocument,
    RouteOverheadDocument,
)
from latencytrace.service.cohort import Cohort, CohortQuery
from latencytrace.service.store import Store

MOST_COMPARED: Final = 50_000  # requests of a group; more would not narrow what is said


def overhead(store: Store, cohort: Cohort) -> OverheadDocument:
    """Hold requests whose stages are recorded against those of the control group.

    Without a service: requests of all services with a control group, inner ones too.
    """
    control = cohort.model_copy(update={"detail": TraceDetail.CONTROL})
    named = [control.service] if control.service else store.services()
    each = [control.model_copy(update={"service": service}) for service in named]
    each = [one for one in each if store.count(one)] or [control]
    groups = (
        reduce(
            RequestColumns.joined,
            (_columns(store, one.model_copy(update={"detail": detail})) for one in each),
        )
        for detail in (None, TraceDetail.CONTROL)
    )
    return overhead_document(control_overhead(*groups))


def latest_overhead(store: Store, now_ns: Callable[[], int]) -> OverheadDocument:
    """Return that of the last hour, of all services."""
    return overhead(store, CohortQuery().cohort(now_ns()))


def overhead_document(found: ControlOverhead) -> OverheadDocument:
    whole = found.found
    return {
        "requests": found.requests,
        "control_requests": found.control_requests,
        "needed_control_requests": found.needed_control_requests,
        "difference_ns": _rounded(whole, "difference_ns"),
        "low_ns": _rounded(whole, "low_ns"),
        "high_ns": _rounded(whole, "high_ns"),
        "control_ns": _rounded(whole, "control_ns"),
        "routes": [_route(route) for route in found.routes],
        "sentence": sentence(found),
    }


def sentence(found: ControlOverhead) -> str:
    """Say it in words."""
    whole = found.found
    if whole is None:
        return (
            "Not enough data: of no route are there 100 requests in the control group "
            f"(LATENCYTRACE_CONTROL); at least {found.needed_control_requests} more are needed."
        )
    ratio = whole.difference_ns / whole.control_ns if whole.control_ns else 0.0
    low, high = signed(round(whole.low_ns)), signed(round(whole.high_ns))
    of = f"({100 * ratio:.2g} %; 95 %: {low} to {high})"
    by = f"by {found.control_requests:,} requests of the control group"
    if whole.low_ns <= 0:
        return f"No cost of tracing is proven: {signed(round(whole.difference_ns))} {of}, {by}."
    return f"Tracing makes a request {signed(round(whole.difference_ns))} longer {of}, {by}."


def _columns(store: Store, cohort: Cohort) -> RequestColumns:
    share_ratio = min(1.0, MOST_COMPARED / max(store.count(cohort), 1))
    return store.cohort_columns(cohort, (DurationBand(share_ratio=share_ratio),))


def _route(route: RouteOverhead) -> RouteOverheadDocument:
    return {
        "service": route.service,
        "route": route.route,
        "requests": route.requests,
        "control_requests": route.control_requests,
        "difference_ns": _rounded(route.found, "difference_ns"),
        "low_ns": _rounded(route.found, "low_ns"),
        "high_ns": _rounded(route.found, "high_ns"),
    }


def _rounded(found: Difference | None, name: str) -> int | None:
    return None if found is None else round(getattr(found, name))
