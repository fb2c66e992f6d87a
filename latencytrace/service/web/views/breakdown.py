"""`GET /api/v1/services`, `/overview`, `/heatmap`, `/overhead`, `/breakdown` and its parts."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from latencytrace.service.answers import breakdown_parts, overview_documents
from latencytrace.service.answers import requests as request_answers
from latencytrace.service.answers.breakdown_parts import AroundsDocument, StagesOverTimeDocument
from latencytrace.service.answers.documents import (
    BreakdownDocument,
    RouteBreakdownsDocument,
    ServicesDocument,
)
from latencytrace.service.answers.findings import overhead as overhead_answers
from latencytrace.service.answers.findings.overhead_documents import OverheadDocument
from latencytrace.service.answers.groups import (
    AttributeKeysDocument,
    GroupsDocument,
    attribute_keys,
)
from latencytrace.service.answers.groups import groups as groups_of
from latencytrace.service.answers.overview_documents import HeatMapDocument, OverviewDocument
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import (
    NO_PARAMETERS,
    BreakdownQuery,
    GroupsQuery,
    OverviewQuery,
    RoutesQuery,
)


def breakdown_router(store: Store, now_ns: Callable[[], int]) -> ViewRouter:
    """Time per stage of a cohort."""
    router = ViewRouter(tags=["breakdown"])

    @router.get("/breakdown", response_model=BreakdownDocument)
    def breakdown(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """Time per stage of a cohort, as means, shares and quantiles."""
        return JsonAnswer(request_answers.breakdown(store, asked.cohort(now_ns())))

    @router.get("/breakdown/routes", response_model=RouteBreakdownsDocument)
    def routes(asked: Annotated[RoutesQuery, Query()]) -> Response:
        """Time per stage of each route by itself, of every service."""
        cohort = asked.cohort(now_ns())
        return JsonAnswer(request_answers.breakdowns(store, cohort, asked.limit))

    @router.get("/breakdown/quantiles", response_model=AroundsDocument)
    def quantiles(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """The mean requests around p50, p90 and p99 of the duration, stage by stage."""
        return JsonAnswer(breakdown_parts.arounds(store, asked.cohort(now_ns())))

    @router.get("/breakdown/timeline", response_model=StagesOverTimeDocument)
    def timeline(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """Mean time per stage over time."""
        at_ns = now_ns()
        return JsonAnswer(breakdown_parts.stages_over_time(store, asked.cohort(at_ns), at_ns))

    @router.get("/breakdown/groups", response_model=GroupsDocument)
    def groups(asked: Annotated[GroupsQuery, Query()]) -> Response:
        """A cohort by a label or an attribute: each value with its requests."""
        at_ns = now_ns()
        cohort = asked.cohort(at_ns)
        return JsonAnswer(groups_of(store, cohort, asked.by, at_ns, asked.limit))

    @router.get("/attributes", response_model=AttributeKeysDocument)
    def attributes(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """The attributes of a cohort's requests, and how many requests have each."""
        return JsonAnswer(attribute_keys(store, asked.cohort(now_ns())))

    return router


def overhead_router(store: Store, now_ns: Callable[[], int]) -> ViewRouter:
    """Cost to requests of being traced, against a control group."""
    router = ViewRouter(tags=["operation"])

    @router.get("/overhead", response_model=OverheadDocument)
    def overhead(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """How much longer requests take for being traced in full, with its interval."""
        return JsonAnswer(overhead_answers.overhead(store, asked.cohort(now_ns())))

    return router


def services_router(store: Store) -> ViewRouter:
    """The services that have requests, and their routes."""
    router = ViewRouter(tags=["services"], dependencies=NO_PARAMETERS)

    @router.get("/services", response_model=ServicesDocument)
    def services() -> Response:
        """The services that have requests, and their routes."""
        return JsonAnswer(request_answers.services(store))

    return router


def overview_router(store: Store, now_ns: Callable[[], int]) -> ViewRouter:
    """Routes side by side, and durations over time."""
    router = ViewRouter(tags=["overview"])

    @router.get("/overview", response_model=OverviewDocument)
    def overview(asked: Annotated[OverviewQuery, Query()]) -> Response:
        """The routes of every service, those first whose requests took most time in all."""
        at_ns = now_ns()
        return JsonAnswer(
            overview_documents.overview(store, asked.cohort(at_ns), at_ns, asked.limit)
        )

    @router.get("/heatmap", response_model=HeatMapDocument)
    def heat_map(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """The durations of a cohort over time: how many requests took about as long."""
        at_ns = now_ns()
        return JsonAnswer(overview_documents.heat_map(store, asked.cohort(at_ns), at_ns))

    return router
